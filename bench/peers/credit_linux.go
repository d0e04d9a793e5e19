package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// The credit row: 64 channels on one connection with a window of 8 frames each. The receiver grants what it has read, all of a
// read's grants in one write; the sender takes turns among the channels that have credit, 16 frames a call.

const (
	window    = 8
	grantFrom = window / 2 // frames of a channel before they are granted again
	grantSize = 4          // channel, frames: two little-endian uint16
)

type creditSender struct {
	fd     int
	credit [fanChannels]int
	total  int // of credit
	in     []byte
	have   int // bytes of in
}

// take takes grants, and waits for some only if there is no credit at all.
func (s *creditSender) take() error {
	flags := unix.MSG_DONTWAIT
	if s.total == 0 {
		flags = 0
	}
	n, errno := recv(s.fd, s.in[s.have:], flags)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return nil
	case errno != 0:
		return errno
	case n == 0:
		return errEnd
	}
	s.have += n
	b := s.in[:s.have]
	for ; len(b) >= grantSize; b = b[grantSize:] {
		ch, n := binary.LittleEndian.Uint16(b)%fanChannels, int(binary.LittleEndian.Uint16(b[2:]))
		s.credit[ch] += n
		s.total += n
	}
	s.have = copy(s.in, b)
	return nil
}

func sendCredit(r *role) error {
	runtime.LockOSThread()
	fd, err := dialRaw(r.addr)
	if err != nil {
		return err
	}
	s := &creditSender{fd: fd, total: fanChannels * window, in: make([]byte, 4<<10)}
	for i := range s.credit {
		s.credit[i] = window
	}
	frames := newFrames(perCall, 0)
	headers := make([]byte, perCall*headerSize)
	parts := make([][]byte, 0, 2*perCall)
	v := newVector(2 * perCall)
	for ch := 0; ; {
		if err := s.take(); err != nil {
			return err
		}
		parts = parts[:0]
		for idle := 0; idle < fanChannels && len(parts) < 2*perCall; ch = (ch + 1) % fanChannels {
			if s.credit[ch] == 0 {
				idle++
				continue
			}
			idle = 0
			s.credit[ch]--
			s.total--
			k := len(parts) / 2
			h := headers[k*headerSize:][:headerSize]
			binary.LittleEndian.PutUint32(h, bufferSize)
			binary.LittleEndian.PutUint32(h[4:], uint32(ch))
			parts = append(parts, h, frames[k][headerSize:])
		}
		if len(parts) == 0 {
			continue
		}
		if err := v.writeAll(fd, parts); err != nil {
			return err
		}
		r.meter.Add(int64(len(parts)/2*bufferSize), int64(len(parts)/2))
	}
}

type creditReceiver struct {
	r      *role
	fd     int
	owed   [fanChannels]int // read and not granted
	grants []byte
	held   [][]byte // payloads of the stalled channel
	spare  [][]byte // in exchange for them
}

var errCredit = errors.New("more frames of a channel than it has credit")

// take reads a frame, or holds it if its channel is stalled. It returns the buffer to be used in its place.
func (c *creditReceiver) take(header, payload []byte) ([]byte, error) {
	ch := int(binary.LittleEndian.Uint32(header[4:]))
	if n := binary.LittleEndian.Uint32(header); n != bufferSize || ch >= fanChannels {
		return nil, fmt.Errorf("a frame of %d bytes, channel %d", n, ch)
	}
	if ch != 0 || !c.r.fan.Stalled(ch) {
		return payload, c.read(ch, payload)
	}
	if len(c.spare) == 0 {
		return nil, errCredit
	}
	last := len(c.spare) - 1
	other := c.spare[last]
	c.spare, c.held = c.spare[:last], append(c.held, payload)
	return other, nil
}

func (c *creditReceiver) read(ch int, payload []byte) error {
	c.r.fan.Channel(ch).Add(bufferSize, 1)
	if c.owed[ch]++; c.owed[ch] >= grantFrom {
		c.grants = binary.LittleEndian.AppendUint16(c.grants, uint16(ch))
		c.grants = binary.LittleEndian.AppendUint16(c.grants, uint16(c.owed[ch]))
		c.owed[ch] = 0
	}
	return checkPayload(payload)
}

// release reads what was held, once the channel is read again.
func (c *creditReceiver) release() error {
	if len(c.held) == 0 || c.r.fan.Stalled(0) {
		return nil
	}
	for _, p := range c.held {
		if err := c.read(0, p); err != nil {
			return err
		}
		c.spare = append(c.spare, p)
	}
	c.held = c.held[:0]
	return nil
}

func (c *creditReceiver) grant() error {
	if len(c.grants) == 0 {
		return nil
	}
	_, err := unix.Write(c.fd, c.grants)
	c.grants = c.grants[:0]
	return err
}

func receiveCredit(r *role) error {
	runtime.LockOSThread()
	fd, err := acceptRaw(r)
	if err != nil {
		return err
	}
	c := &creditReceiver{r: r, fd: fd, held: make([][]byte, 0, window), grants: make([]byte, 0, grantSize*fanChannels)}
	for range window {
		c.spare = append(c.spare, make([]byte, bufferSize))
	}
	return readGathered(fd, c.take, func() error { return errors.Join(c.release(), c.grant()) })
}
