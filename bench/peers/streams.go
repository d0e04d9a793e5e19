package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/hashicorp/yamux"
	"github.com/xtaci/smux"
)

// Whatever gives ordered streams of bytes does the scenarios with the code of this file.

type session interface {
	open() (io.ReadWriteCloser, error)
	accept() (io.ReadWriteCloser, error)
}

// transport makes sessions of a connection; with no wrap a stream is a connection of its own.
type transport struct {
	wrap func(c net.Conn, client bool) (session, error)
}

type connSession struct {
	l    net.Listener
	addr string
}

func (s connSession) open() (io.ReadWriteCloser, error)   { return net.Dial("tcp", s.addr) }
func (s connSession) accept() (io.ReadWriteCloser, error) { return s.l.Accept() }

func (t transport) listen(r *role) (session, error) {
	l, err := listen(r)
	if err != nil || t.wrap == nil {
		return connSession{l: l}, err
	}
	c, err := l.Accept()
	if err != nil {
		return nil, err
	}
	return t.wrap(c, false)
}

func (t transport) dial(r *role) (session, error) {
	if t.wrap == nil {
		return connSession{addr: r.addr}, nil
	}
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		return nil, err
	}
	return t.wrap(c, true)
}

// accepted runs f for each of n streams.
func (t transport) accepted(r *role, n int, f func(s io.ReadWriteCloser) error) error {
	s, err := t.listen(r)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	return each(n, func(int) error {
		mu.Lock()
		c, err := s.accept()
		mu.Unlock()
		if err != nil {
			return err
		}
		return f(c)
	})
}

// opened runs f for each of n streams.
func (t transport) opened(r *role, n int, f func(i int, s io.ReadWriteCloser) error) error {
	s, err := t.dial(r)
	if err != nil {
		return err
	}
	return each(n, func(i int) error {
		c, err := s.open()
		if err != nil {
			return err
		}
		return f(i, c)
	})
}

type yamuxSession struct{ s *yamux.Session }

func (s yamuxSession) open() (io.ReadWriteCloser, error)   { return s.s.Open() }
func (s yamuxSession) accept() (io.ReadWriteCloser, error) { return s.s.Accept() }

// wrapYamux has yamux as it comes, but for its log.
func wrapYamux(c net.Conn, client bool) (session, error) {
	cfg := yamux.DefaultConfig()
	cfg.LogOutput = io.Discard
	begin := yamux.Server
	if client {
		begin = yamux.Client
	}
	s, err := begin(c, cfg)
	return yamuxSession{s}, err
}

type smuxSession struct{ s *smux.Session }

func (s smuxSession) open() (io.ReadWriteCloser, error)   { return s.s.OpenStream() }
func (s smuxSession) accept() (io.ReadWriteCloser, error) { return s.s.AcceptStream() }

// wrapSmux has version 2, the one with a window for each stream, with frames and windows for bulk.
func wrapSmux(c net.Conn, client bool) (session, error) {
	cfg := smux.DefaultConfig()
	cfg.Version, cfg.MaxFrameSize, cfg.MaxStreamBuffer, cfg.MaxReceiveBuffer = 2, 65535, 2<<20, 256<<20
	begin := smux.Server
	if client {
		begin = smux.Client
	}
	s, err := begin(c, cfg)
	return smuxSession{s}, err
}

// readFrames reads frames the plain way. before is called for each, once its channel is known.
func readFrames(s io.Reader, before func(channel uint32), take func(channel uint32, payload []byte) error) error {
	header, payload := make([]byte, headerSize), make([]byte, bufferSize)
	for {
		if _, err := io.ReadFull(s, header); err != nil {
			return err
		}
		channel := binary.LittleEndian.Uint32(header[4:])
		if before != nil {
			before(channel)
		}
		if _, err := io.ReadFull(s, payload); err != nil {
			return err
		}
		if err := take(channel, payload); err != nil {
			return err
		}
	}
}

func (t transport) bulk() (receive, send func(*role) error) {
	receive = func(r *role) error {
		return t.accepted(r, 1, func(s io.ReadWriteCloser) error { return readFrames(s, nil, r.consumer().frame) })
	}
	send = func(r *role) error {
		return t.opened(r, 1, func(_ int, s io.ReadWriteCloser) error {
			for frames, i := newFrames(perCall, 0), 0; ; i++ {
				if _, err := s.Write(frames[i%perCall]); err != nil {
					return err
				}
				r.meter.Add(bufferSize, 1)
			}
		})
	}
	return receive, send
}

func (t transport) fan() (receive, send func(*role) error) {
	receive = func(r *role) error {
		return t.accepted(r, fanChannels, func(s io.ReadWriteCloser) error {
			return readFrames(s, func(channel uint32) { r.fan.Wait(int(channel)) }, func(channel uint32, payload []byte) error {
				r.fan.Channel(int(channel)).Add(bufferSize, 1)
				return checkPayload(payload)
			})
		})
	}
	send = func(r *role) error {
		return t.opened(r, fanChannels, func(i int, s io.ReadWriteCloser) error {
			m := r.meter.Branch()
			for frames, n := newFrames(4, uint32(i)), 0; ; n++ {
				if _, err := s.Write(frames[n%4]); err != nil {
					return err
				}
				m.Add(bufferSize, 1)
			}
		})
	}
	return receive, send
}

func (t transport) records() (receive, send func(*role) error) {
	receive = func(r *role) error {
		return t.accepted(r, recordChannels, func(s io.ReadWriteCloser) error {
			m, in, record := r.meter.Branch(), bufio.NewReaderSize(s, bufferSize), make([]byte, recordSize)
			for {
				sum := uint64(0)
				for range countEvery {
					field, err := readRecord(in, record)
					if err != nil {
						return err
					}
					sum += field
				}
				if err := countRecords(m, countEvery, sum); err != nil {
					return err
				}
			}
		})
	}
	send = func(r *role) error {
		return t.opened(r, recordChannels, func(_ int, s io.ReadWriteCloser) error {
			m, out := r.meter.Branch(), bufio.NewWriterSize(s, bufferSize)
			length := binary.LittleEndian.AppendUint32(nil, recordSize)
			for {
				for range countEvery {
					_, _ = out.Write(length) // its error comes again with the next one
					if _, err := out.Write(body); err != nil {
						return err
					}
				}
				m.Add(countEvery*recordSize, countEvery)
			}
		})
	}
	return receive, send
}

func (t transport) ping() (receive, send func(*role) error) {
	receive = func(r *role) error {
		return t.accepted(r, 1, func(s io.ReadWriteCloser) error {
			for b := make([]byte, pingSize); ; r.meter.Add(pingSize, 1) {
				if _, err := io.ReadFull(s, b); err != nil {
					return err
				}
				if _, err := s.Write(b); err != nil {
					return err
				}
			}
		})
	}
	send = func(r *role) error {
		return t.opened(r, 1, func(_ int, s io.ReadWriteCloser) error {
			b := make([]byte, pingSize)
			return r.pingLoop(func() error {
				if _, err := s.Write(b); err != nil {
					return err
				}
				_, err := io.ReadFull(s, b)
				return err
			})
		})
	}
	return receive, send
}
