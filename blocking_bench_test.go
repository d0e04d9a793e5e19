package weir

import (
	"context"
	"fmt"
	"io"
	"testing"
)

// BenchmarkBlocking reads a finished file over the loopback: sent from the file, and read into segments first; beside it, the same bytes
// through a pipelined output.
func BenchmarkBlocking(b *testing.B) {
	const records, size = 4000, 32<<10 - recordHead // 128 MB
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(i * i >> 7)
	}
	type kind struct {
		name     string
		blocking *Blocking
	}
	for _, k := range []kind{{"file", &Blocking{}}, {"segments", &Blocking{inMemory: true}}, {"pipelined", nil}} {
		for _, channels := range []int{1, 8} {
			b.Run(fmt.Sprintf("send=%s/channels=%d", k.name, channels), func(b *testing.B) {
				if k.blocking != nil {
					k.blocking.Dir = b.TempDir()
				}
				ctx := context.Background()
				a, c := server(b), open(b, Config{})
				write := func(o *Output) {
					for i := range records {
						if err := o.WriteTo(ctx, i%channels, value); err != nil {
							b.Error(err)
							return
						}
					}
					if err := o.Finish(ctx); err != nil {
						b.Error(err)
					}
				}
				var out *Output
				if k.blocking != nil {
					out = newOutput(b, a, OutputConfig{Name: "x", Subpartitions: channels, Blocking: k.blocking})
					write(out)
				}
				b.SetBytes(records * size)
				for b.Loop() {
					if k.blocking == nil {
						out = newOutput(b, a, OutputConfig{Name: "x", Subpartitions: channels})
						go write(out)
					}
					in := newInput(b, c, InputConfig{Sources: []Source{source(a, out)}})
					n := 0
					for {
						e, err := in.Next(ctx)
						if err == io.EOF {
							break
						}
						if err != nil {
							b.Fatal(err)
						}
						if e.Kind == Record {
							n++
						}
					}
					if n != records {
						b.Fatalf("%d records of %d", n, records)
					}
					if err := in.Close(); err != nil {
						b.Fatal(err)
					}
					if k.blocking == nil {
						if err := out.Close(); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.StopTimer()
				if err := out.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkBlockingWrite writes a file: records in, a finished file out.
func BenchmarkBlockingWrite(b *testing.B) {
	const records, size = 20_000, 1000
	ctx := context.Background()
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(i * i >> 7)
	}
	for _, codec := range []Codec{NoCompression, LZ4, ZSTD} {
		b.Run(fmt.Sprintf("codec=%s", codec), func(b *testing.B) {
			a := server(b)
			b.SetBytes(records * size)
			for b.Loop() {
				out := newOutput(b, a, OutputConfig{Name: "x", Subpartitions: 8, Partition: RoundRobin, Blocking: &Blocking{Dir: b.TempDir(), Codec: codec}})
				for range records {
					if err := out.Write(ctx, nil, value); err != nil {
						b.Fatal(err)
					}
				}
				if err := out.Finish(ctx); err != nil {
					b.Fatal(err)
				}
				if err := out.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
