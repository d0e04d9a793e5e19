package main

import (
	"net"
)

func listen(r *role) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		r.listening(l.Addr().String())
	}
	return l, err
}

// The row net.Conn-16: what a careful user of package net does. One gathered write for 16 frames, reads into a region of 512 KiB
// in which the frames are taken apart where they lie.

func sendConnBuffers(r *role) error {
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		return err
	}
	frames := newFrames(perCall, 0)
	all := make(net.Buffers, perCall)
	for {
		batch := append(all[:0], frames...)
		if _, err := batch.WriteTo(c); err != nil {
			return err
		}
		r.meter.Add(perCall*bufferSize, perCall)
	}
}

func receiveConnRegion(r *role) error {
	l, err := listen(r)
	if err != nil {
		return err
	}
	c, err := l.Accept()
	if err != nil {
		return err
	}
	frames := r.consumer()
	region := make([]byte, perCall*frameSize)
	for have := 0; ; {
		n, err := c.Read(region[have:])
		if err != nil {
			return err
		}
		b := region[:have+n]
		for ; len(b) >= frameSize; b = b[frameSize:] {
			if err := frames.whole(b[:headerSize], b[headerSize:frameSize]); err != nil {
				return err
			}
		}
		have = copy(region, b)
	}
}
