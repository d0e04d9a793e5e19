package netio

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/measure"
)

// BenchmarkBulk sends frames of a 47-byte header and a payload from one goroutine to another over the loopback. One operation
// is one frame. impl=net does the same on net.Conn: gathered writes of 16 frames and reads into a region of the same size.
func BenchmarkBulk(b *testing.B) {
	for _, size := range []int{32 << 10, 1 << 10} {
		for _, impl := range []string{"weir", "weir-lowat", "weir-nopoll", "weir-standby", "weir-dedicated", "net"} {
			b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl), func(b *testing.B) {
				b.SetBytes(int64(linkHeader + size))
				cpu := 0.0
				report := func() {
					b.ReportMetric((measure.CPUSeconds()-cpu)*1e9/float64(b.N), "cpu-ns/op")
				}
				if impl == "net" {
					x, y := netPair(b)
					b.ReportAllocs()
					b.ResetTimer()
					cpu = measure.CPUSeconds()
					netBulk(b, x, y, size)
					report()
					return
				}
				cfg, credit := LoopConfig{}, 0
				switch impl {
				case "weir-nopoll":
					cfg.Poll = -1
				case "weir-lowat":
					credit = 32
				case "weir-dedicated":
					cfg.Dedicated = true
				}
				k := newLink(b, cfg, size, credit)
				k.send(b.Context(), b, 100)
				b.ReportAllocs()
				b.ResetTimer()
				cpu = measure.CPUSeconds()
				if impl == "weir-standby" { // nobody drives: the loops' own goroutines do
					n := k.sink.n
					k.allow(int64(b.N))
					for !k.sink.ready() {
						n.Prepare()
						if k.sink.ready() {
							n.Cancel()
							break
						}
						_ = n.Wait(b.Context())
					}
				} else {
					k.send(b.Context(), b, int64(b.N))
				}
				report()
			})
		}
	}
}

func netBulk(b *testing.B, x, y net.Conn, size int) {
	batch := min(MaxVectors/2, max(16, BatchBytes/(linkHeader+size)))
	go func() {
		payload := make([]byte, size)
		headers := make([]byte, batch*linkHeader)
		bufs := make(net.Buffers, 0, 2*batch)
		for sent := 0; sent < b.N; {
			v := bufs[:0]
			for i := 0; i < batch && sent < b.N; i++ {
				h := headers[i*linkHeader : (i+1)*linkHeader]
				binary.BigEndian.PutUint32(h, uint32(size))
				v = append(v, h, payload)
				sent++
			}
			if _, err := v.WriteTo(x); err != nil {
				return
			}
		}
	}()
	region := make([]byte, DefaultReadSize)
	for got, want := 0, b.N*(linkHeader+size); got < want; {
		n, err := y.Read(region)
		if err != nil {
			b.Fatal(err)
		}
		got += n
	}
}

// BenchmarkPing is a round trip of 64 bytes between two goroutines. wait=poll: both poll before they sleep.
func BenchmarkPing(b *testing.B) {
	const size = 64
	for _, wait := range []string{"poll", "park"} {
		b.Run("impl=weir/wait="+wait, func(b *testing.B) {
			cfg := LoopConfig{}
			if wait == "park" {
				cfg.Poll = -1
			}
			p := newPingPong(b, cfg)
			b.ReportAllocs()
			cpu := measure.CPUSeconds()
			for b.Loop() {
				p.round(b.Context(), b, size)
			}
			b.ReportMetric((measure.CPUSeconds()-cpu)*1e9/float64(b.N), "cpu-ns/op")
		})
	}
	b.Run("impl=net/wait=park", func(b *testing.B) {
		x, y := netPair(b)
		go func() { _, _ = io.Copy(struct{ io.Writer }{y}, struct{ io.Reader }{y}) }()
		p := make([]byte, size)
		b.ReportAllocs()
		cpu := measure.CPUSeconds()
		for b.Loop() {
			if _, err := x.Write(p); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(x, p); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric((measure.CPUSeconds()-cpu)*1e9/float64(b.N), "cpu-ns/op")
	})
}

// BenchmarkTurn is an idle turn, with and without a connection.
func BenchmarkTurn(b *testing.B) {
	for _, conns := range []int{0, 100} {
		b.Run(fmt.Sprintf("conns=%d", conns), func(b *testing.B) {
			l := newLoop(b, LoopConfig{Standby: -1})
			server := newLoop(b, LoopConfig{})
			addr := listen(b, server, echo)
			for range conns {
				if _, err := l.Dial(b.Context(), "tcp", addr.String(), &funcs{}); err != nil {
					b.Fatal(err)
				}
			}
			l.acquire()
			defer l.Release()
			for l.Turn(NoWait) {
				continue
			}
			for b.Loop() {
				l.Turn(NoWait)
			}
		})
	}
}

// BenchmarkWake is what a producer pays for each publication while the loop is awake, and Kick while nobody runs turns.
func BenchmarkWake(b *testing.B) {
	for _, call := range []string{"wake", "kick"} {
		b.Run("call="+call, func(b *testing.B) {
			l := newLoop(b, LoopConfig{Standby: -1})
			for b.Loop() {
				if call == "wake" {
					l.Wake()
				} else {
					l.Kick()
				}
			}
		})
	}
}

// BenchmarkStandby shows what the standby costs a consumer that drives the loop itself: it should be nothing.
func BenchmarkStandby(b *testing.B) {
	for _, standby := range []time.Duration{-1, defaultStandby} {
		b.Run(fmt.Sprintf("standby=%v", standby > 0), func(b *testing.B) {
			k := newLink(b, LoopConfig{Standby: standby}, linkPayload, 32)
			if standby < 0 {
				// Without a standby somebody has to register the connection.
				for _, l := range []*Loop{k.b, k.a} {
					l.acquire()
					l.Turn(NoWait)
					l.Release()
				}
			}
			b.SetBytes(int64(linkHeader + linkPayload))
			k.send(b.Context(), b, 100)
			b.ResetTimer()
			k.send(b.Context(), b, int64(b.N))
		})
	}
}
