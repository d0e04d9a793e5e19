package netio

import (
	"errors"
	"fmt"
	"io"
)

var (
	// ErrClosed: the loop is closed.
	ErrClosed = errors.New("netio: loop is closed")
	// ErrHangup: the kernel reports a hang-up of the connection, but neither data nor an error.
	ErrHangup = errors.New("netio: connection hung up")
	// ErrFlushTimeout: what was queued could not be written within the limit of CloseAfterFlush.
	ErrFlushTimeout = errors.New("netio: queued data not written in time")
	// ErrRefused: the accept function returned no handler.
	ErrRefused = errors.New("netio: connection refused by the application")
)

// AcceptError says why a listener accepts nothing for the moment. The listener goes on: it tries again after a pause.
type AcceptError struct {
	Addr  string // of the listener
	Limit int    // descriptors the process may open, 0 if that is not the cause
	Open  int    // descriptors the process has open
	Err   error
}

func (e *AcceptError) Error() string {
	if e.Limit > 0 {
		return fmt.Sprintf("netio: accept on %s: %v (%d of %d descriptors open)", e.Addr, e.Err, e.Open, e.Limit)
	}
	return fmt.Sprintf("netio: accept on %s: %v", e.Addr, e.Err)
}

// Unwrap returns the cause.
func (e *AcceptError) Unwrap() error { return e.Err }

// isEOF tells an orderly end of a stream of package net (or crypto/tls) from an error.
func isEOF(err error) bool { return errors.Is(err, io.EOF) }
