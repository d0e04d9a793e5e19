package main

import (
	"context"

	"github.com/cloudwego/netpoll"
)

// netpoll has the receivers; the senders are raw ones.

// netpollServe serves until something fails. take does all that is there, or waits for a part.
func netpollServe(r *role, take func(c netpoll.Connection) error) error {
	l, err := netpoll.CreateListener("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	loop, err := netpoll.NewEventLoop(func(_ context.Context, c netpoll.Connection) error {
		err := take(c)
		if err != nil {
			failed <- err
		}
		return err
	})
	if err != nil {
		return err
	}
	r.listening(l.Addr().String())
	go func() { failed <- loop.Serve(l) }()
	return <-failed
}

func netpollFrames() (receive, send func(*role) error) {
	return func(r *role) error {
		frames := r.consumer()
		return netpollServe(r, func(c netpoll.Connection) error {
			for in := c.Reader(); ; {
				header, err := in.Next(headerSize)
				if err != nil {
					return err
				}
				head := [headerSize]byte(header)
				payload, err := in.Next(bufferSize)
				if err == nil {
					err = frames.whole(head[:], payload)
				}
				if err == nil {
					err = in.Release()
				}
				if err != nil || in.Len() == 0 {
					return err
				}
			}
		})
	}, framesSender
}

func netpollEcho() (receive, send func(*role) error) {
	return func(r *role) error {
		return netpollServe(r, func(c netpoll.Connection) error {
			b, err := c.Reader().Next(pingSize)
			if err == nil {
				_, err = c.Writer().WriteBinary(b)
			}
			if err == nil {
				err = c.Writer().Flush()
			}
			if err == nil {
				err = c.Reader().Release()
			}
			r.meter.Add(pingSize, 1)
			return err
		})
	}, func(r *role) error { return sendPing(r, "block") }
}
