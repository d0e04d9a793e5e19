package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirflow/weir/internal/measure"
)

// gRPC in two ways: as it comes, with a BytesValue for each message; and tuned, with a codec that passes bytes through, windows of
// 4 and 64 MiB, and 256 KiB of buffer at each end of the socket.
type grpcKind struct{ tuned bool }

var grpcPlain, grpcTuned = grpcKind{}, grpcKind{tuned: true}

// message is what the codec passes through: out is sent, in was received.
type message struct {
	out mem.Buffer
	in  mem.BufferSlice
}

type codec struct{}

func (codec) Name() string { return "bytes" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*message)
	if !ok {
		return nil, fmt.Errorf("a message of type %T", v)
	}
	return mem.BufferSlice{m.out}, nil
}

func (codec) Unmarshal(b mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("a message of type %T", v)
	}
	b.Ref()
	m.in = b
	return nil
}

const (
	streamWindow     = 4 << 20
	connectionWindow = 64 << 20
	socketBuffer     = 256 << 10
	method           = "/peers.Bench/Stream"
)

// serve serves streams until one fails.
func (k grpcKind) serve(r *role, handle func(grpc.ServerStream) error) error {
	l, err := listen(r)
	if err != nil {
		return err
	}
	var opts []grpc.ServerOption
	if k.tuned {
		opts = append(opts, grpc.ForceServerCodecV2(codec{}), grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connectionWindow),
			grpc.ReadBufferSize(socketBuffer), grpc.WriteBufferSize(socketBuffer))
	}
	failed := make(chan error, fanChannels+1)
	s := grpc.NewServer(opts...)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "peers.Bench", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Stream", ClientStreams: true, ServerStreams: true,
		Handler: func(_ any, st grpc.ServerStream) error {
			err := handle(st)
			failed <- err
			return err
		},
	}}}, struct{}{})
	go func() { failed <- s.Serve(l) }()
	return <-failed
}

// streams runs f for each of n streams.
func (k grpcKind) streams(r *role, n int, f func(st grpc.ClientStream) error) error {
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if k.tuned {
		opts = append(opts, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{})), grpc.WithInitialWindowSize(streamWindow),
			grpc.WithInitialConnWindowSize(connectionWindow), grpc.WithReadBufferSize(socketBuffer), grpc.WithWriteBufferSize(socketBuffer))
	}
	c, err := grpc.NewClient(r.addr, opts...)
	if err != nil {
		return err
	}
	return each(n, func(int) error {
		st, err := c.NewStream(context.Background(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
		if err != nil {
			return err
		}
		return f(st)
	})
}

// frames receives messages of 32 KiB from a stream.
func (k grpcKind) frames(st grpc.ServerStream, m *measure.Meter, before func()) error {
	raw, value := new(message), new(wrapperspb.BytesValue)
	for {
		if before != nil {
			before()
		}
		var err error
		if k.tuned {
			if err = st.RecvMsg(raw); err == nil {
				err = checkPieces(raw.in)
				raw.in.Free()
			}
		} else if err = st.RecvMsg(value); err == nil {
			err = checkPayload(value.Value)
		}
		if err != nil {
			return err
		}
		m.Add(bufferSize, 1)
	}
}

// checkPieces is checkPayload for one that came in pieces of any size.
func checkPieces(pieces mem.BufferSlice) error {
	var sum uint64
	var word [8]byte
	total, cut := 0, 0 // bytes in all, and of word
	for _, p := range pieces {
		b := p.ReadOnlyData()
		total += len(b)
		if cut > 0 {
			n := copy(word[cut:], b)
			b = b[n:]
			if cut += n; cut < 8 {
				continue
			}
			sum += binary.LittleEndian.Uint64(word[:])
		}
		whole := len(b) &^ 63
		sum += measure.SumWords(b[:whole])
		for b = b[whole:]; len(b) >= 8; b = b[8:] {
			sum += binary.LittleEndian.Uint64(b)
		}
		cut = copy(word[:], b)
	}
	if total != bufferSize || sum != wantSum {
		return fmt.Errorf("a payload of %d bytes with the sum %x", total, sum)
	}
	return nil
}

// sendFrames sends messages of 32 KiB over a stream.
func (k grpcKind) sendFrames(st grpc.ClientStream, m *measure.Meter) error {
	for frames, i := newFrames(4, 0), 0; ; i++ {
		p := frames[i%4][headerSize:]
		var v any = &wrapperspb.BytesValue{Value: p}
		if k.tuned {
			v = &message{out: mem.SliceBuffer(p)}
		}
		if err := st.SendMsg(v); err != nil {
			return err
		}
		m.Add(bufferSize, 1)
	}
}

func (k grpcKind) bulk() (receive, send func(*role) error) {
	receive = func(r *role) error {
		return k.serve(r, func(st grpc.ServerStream) error { return k.frames(st, r.meter, nil) })
	}
	send = func(r *role) error {
		return k.streams(r, 1, func(st grpc.ClientStream) error { return k.sendFrames(st, r.meter) })
	}
	return receive, send
}

func (k grpcKind) fan() (receive, send func(*role) error) {
	receive = func(r *role) error {
		var next atomic.Int64
		return k.serve(r, func(st grpc.ServerStream) error {
			ch := int(next.Add(1) - 1) // streams come in any order: the number only names them
			return k.frames(st, r.fan.Channel(ch), func() { r.fan.Wait(ch) })
		})
	}
	send = func(r *role) error {
		return k.streams(r, fanChannels, func(st grpc.ClientStream) error { return k.sendFrames(st, r.meter.Branch()) })
	}
	return receive, send
}

func (k grpcKind) records() (receive, send func(*role) error) {
	receive = func(r *role) error {
		return k.serve(r, func(st grpc.ServerStream) error {
			if k.tuned {
				return grpcMessages(st, r.meter.Branch())
			}
			m, value := r.meter.Branch(), new(wrapperspb.BytesValue)
			for {
				sum := uint64(0)
				for range countEvery {
					if err := st.RecvMsg(value); err != nil {
						return err
					}
					sum += binary.LittleEndian.Uint64(value.Value)
				}
				if err := countRecords(m, countEvery, sum); err != nil {
					return err
				}
			}
		})
	}
	send = func(r *role) error {
		return k.streams(r, recordChannels, func(st grpc.ClientStream) error {
			m := r.meter.Branch()
			if k.tuned {
				return grpcSendMessages(st, m)
			}
			for {
				for range countEvery {
					record := append([]byte(nil), body...) // each record is encoded
					if err := st.SendMsg(&wrapperspb.BytesValue{Value: record}); err != nil {
						return err
					}
				}
				m.Add(countEvery*recordSize, countEvery)
			}
		})
	}
	return receive, send
}

// grpcMessages reads messages of many records.
func grpcMessages(st grpc.ServerStream, m *measure.Meter) error {
	var d recordDecoder
	for raw := new(message); ; {
		if err := st.RecvMsg(raw); err != nil {
			return err
		}
		n, sum := int64(0), uint64(0)
		for _, p := range raw.in {
			k, s := d.decode(p.ReadOnlyData())
			n, sum = n+k, sum+s
		}
		raw.in.Free()
		if err := countRecords(m, n, sum); err != nil {
			return err
		}
	}
}

// grpcSendMessages sends them. The transport holds a message until it is written, so each one has memory of a pool.
func grpcSendMessages(st grpc.ClientStream, m *measure.Meter) error {
	pool := mem.NewTieredBufferPool(bufferSize)
	for {
		p := pool.Get(bufferSize)
		*p = appendMessage((*p)[:0])
		if err := st.SendMsg(&message{out: mem.NewBuffer(p, pool)}); err != nil {
			return err
		}
		m.Add(perMessage*recordSize, perMessage)
	}
}

func (k grpcKind) ping() (receive, send func(*role) error) {
	receive = func(r *role) error {
		return k.serve(r, func(st grpc.ServerStream) error {
			for value := new(wrapperspb.BytesValue); ; r.meter.Add(pingSize, 1) {
				if err := st.RecvMsg(value); err != nil {
					return err
				}
				if err := st.SendMsg(value); err != nil {
					return err
				}
			}
		})
	}
	send = func(r *role) error {
		return k.streams(r, 1, func(st grpc.ClientStream) error {
			out, in := &wrapperspb.BytesValue{Value: make([]byte, pingSize)}, new(wrapperspb.BytesValue)
			return r.pingLoop(func() error {
				if err := st.SendMsg(out); err != nil {
					return err
				}
				return st.RecvMsg(in)
			})
		})
	}
	return receive, send
}
