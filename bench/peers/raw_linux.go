package main

import "runtime"

// The raw row: what one would write by hand with system calls alone. Blocking sockets, 16 framed buffers a call.

func sendBulk(r *role) error {
	runtime.LockOSThread()
	fd, err := dialRaw(r.addr)
	if err != nil {
		return err
	}
	var parts [][]byte
	for _, f := range newFrames(perCall, 0) {
		parts = append(parts, f[:headerSize], f[headerSize:])
	}
	v := newVector(len(parts))
	for {
		if err := v.writeAll(fd, parts); err != nil {
			return err
		}
		r.meter.Add(perCall*bufferSize, perCall)
	}
}

func receiveBulk(r *role) error { return receiveFrames(r, r.consumer().whole) }

// receiveFrames reads 16 frames a call and hands each of them over.
func receiveFrames(r *role, take func(header, payload []byte) error) error {
	runtime.LockOSThread()
	fd, err := acceptRaw(r)
	if err != nil {
		return err
	}
	return readGathered(fd, func(header, payload []byte) ([]byte, error) { return payload, take(header, payload) }, func() error { return nil })
}

// readGathered reads 16 frames a call. take gets each of them and returns the buffer that is read into in the payload's place; after is called
// behind each read.
func readGathered(fd int, take func(header, payload []byte) ([]byte, error), after func() error) error {
	var parts [][]byte
	for range perCall {
		parts = append(parts, make([]byte, headerSize), make([]byte, bufferSize))
	}
	v := newVector(len(parts))
	for {
		for got, taken := 0, 0; got < perCall*frameSize; {
			n, err := v.read(fd, parts, got)
			if err != nil {
				return err
			}
			for got += n; (taken+1)*frameSize <= got; taken++ {
				if parts[2*taken+1], err = take(parts[2*taken], parts[2*taken+1]); err != nil {
					return err
				}
			}
			if err := after(); err != nil {
				return err
			}
		}
	}
}
