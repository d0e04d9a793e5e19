package main

import (
	"net"
	"strconv"

	"github.com/panjf2000/gnet/v2"
)

// gnet has the receivers; the senders are raw ones.

type gnetHandler struct {
	gnet.BuiltinEventEngine
	r      *role
	addr   string
	size   int // of what is taken at once
	take   func(c gnet.Conn, b []byte) error
	failed chan error
}

func (h *gnetHandler) OnBoot(gnet.Engine) gnet.Action {
	h.r.listening(h.addr)
	return gnet.None
}

func (h *gnetHandler) OnTraffic(c gnet.Conn) gnet.Action {
	for c.InboundBuffered() >= h.size {
		b, err := c.Next(h.size)
		if err == nil {
			err = h.take(c, b)
		}
		if err != nil {
			h.failed <- err
			return gnet.Shutdown
		}
	}
	return gnet.None
}

// gnetServe serves until something fails.
func gnetServe(r *role, size int, take func(c gnet.Conn, b []byte) error) error {
	l, err := net.Listen("tcp", "127.0.0.1:0") // gnet wants a number: a free one
	if err != nil {
		return err
	}
	addr := "127.0.0.1:" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	h := &gnetHandler{r: r, addr: addr, size: size, take: take, failed: make(chan error, 2)}
	opts := []gnet.Option{gnet.WithTCPNoDelay(gnet.TCPNoDelay)}
	if size == frameSize {
		opts = append(opts, gnet.WithReadBufferCap(512<<10))
	}
	go func() { h.failed <- gnet.Run(h, "tcp://"+addr, opts...) }()
	return <-h.failed
}

// framesSender is the raw sender of the scenario.
func framesSender(r *role) error {
	if r.scenario == "records" {
		return sendRecords(r)
	}
	return sendBulk(r)
}

func gnetFrames() (receive, send func(*role) error) {
	return func(r *role) error {
		frames := r.consumer()
		return gnetServe(r, frameSize, func(_ gnet.Conn, b []byte) error { return frames.whole(b[:headerSize], b[headerSize:]) })
	}, framesSender
}

func gnetEcho() (receive, send func(*role) error) {
	return func(r *role) error {
		return gnetServe(r, pingSize, func(c gnet.Conn, b []byte) error {
			_, err := c.Write(b)
			r.meter.Add(pingSize, 1)
			return err
		})
	}, func(r *role) error { return sendPing(r, "block") }
}
