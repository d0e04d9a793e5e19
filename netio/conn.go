package netio

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/segment"
)

// Handler is what a connection does. All calls are made in the loop's turns, by the holder of its token, so never two at once
// for connections of one loop. They must not block, and must not call Loop.RunUntil, Acquire or Close.
type Handler interface {
	// OnRead gets what arrived: at least one byte, at most LoopConfig.ReadSize. p is the loop's shared region, valid during
	// the call only; all of it counts as consumed, so copy what is kept. An error closes the connection with it.
	OnRead(c *Conn, p []byte) error
	// OnFlush is called at the end of a turn when the connection wants to write (WantFlush) and the socket can take more.
	// It queues with Stage and AppendBuffer until Full. It is called again as long as it leaves the connection full.
	OnFlush(c *Conn)
	// OnClose is called once, at the end of a turn, when the connection is closed and everything queued is released. err is
	// nil for an orderly end of stream and for Close(nil). Data that came before the end was passed to OnRead before.
	OnClose(c *Conn, err error)
}

// OpenHandler is a Handler that wants to know when its connection is registered with the loop, before any other call.
type OpenHandler interface {
	Handler
	OnOpen(c *Conn)
}

// EndHandler is a Handler that goes on writing after the peer's end of stream. Without it a connection is closed then, once
// what is queued is written.
type EndHandler interface {
	Handler
	// OnEnd is called once, after the last OnRead. The connection stays open until CloseWrite is through, or Close.
	OnEnd(c *Conn)
}

// Releaser takes back buffers that were written. *segment.Releaser is one.
type Releaser interface {
	Release(segment.Buffer)
	Flush() // called after a number of Release
}

// Conn is a connection of a loop. Unless a method says otherwise it is for the holder of the loop's token: handlers, posted
// functions, timers, sources.
type Conn struct {
	l        *Loop
	h        Handler
	space    SpaceHandler // h, if it is one
	releaser Releaser
	net      string
	laddr    net.Addr
	raddr    net.Addr
	data     any

	out   queue
	chunk *chunk // the one that stage fills

	index     int  // place in l.conns, -1: not registered
	raisedAt  int  // place in l.raised, -1: SO_RCVLOWAT is 1
	credit    int  // full buffers that may come, for the rule of SO_RCVLOWAT
	spurious  int  // reads in a row that got nothing although the kernel reported a hang-up
	released  bool // buffers were given to the releaser and not published
	dirty     bool // in l.dirty
	filling   bool // in OnFlush, a write follows
	blocked   bool // the socket takes nothing for the moment
	paused    bool // by PauseRead
	ended     bool // the peer's end of stream was read
	shutWrite bool // CloseWrite was called
	wasShut   bool // and carried out
	finishing bool // by CloseAfterFlush: no more OnFlush, what is read is dropped
	closed    bool
	reported  bool
	err       error // for OnClose
	writeErr  error // a write failed; closed with it once everything that came is read
	limit     *Timer
	limitAt   time.Duration

	attention atomic.Uint32 // what the loop has to look at; not 0: in its inbox
	abortMu   sync.Mutex
	abortErr  error // guarded by abortMu

	agreed *tls.ConnectionState // nil: no TLS, or its handshake was not through

	sys sysConn // native half, if p is nil
	p   *pconn  // portable half
}

func (l *Loop) newConn(network string, laddr, raddr net.Addr, h Handler) *Conn {
	c := &Conn{l: l, net: network, laddr: laddr, raddr: raddr, index: -1, raisedAt: -1}
	c.SetHandler(h)
	return c
}

// Loop returns the connection's loop. Any goroutine.
func (c *Conn) Loop() *Loop { return c.l }

// LocalAddr returns the local address. Any goroutine.
func (c *Conn) LocalAddr() net.Addr { return c.laddr }

// RemoteAddr returns the peer's address. Any goroutine.
func (c *Conn) RemoteAddr() net.Addr { return c.raddr }

// SetData keeps v with the connection, for the application.
func (c *Conn) SetData(v any) { c.data = v }

// Data returns what SetData kept.
func (c *Conn) Data() any { return c.data }

// Closed tells whether the connection is closed; OnClose may still be to come.
func (c *Conn) Closed() bool { return c.closed }

// SetHandler changes who gets the next calls: a handshake hands over to the protocol.
func (c *Conn) SetHandler(h Handler) {
	c.h = h
	c.space, _ = h.(SpaceHandler)
}

// SetReleaser has written buffers given back by r instead of Buffer.Release. r is used by the holder of the token only.
func (c *Conn) SetReleaser(r Releaser) { c.releaser = r }

// Stage appends n bytes to what is queued and returns them, to be filled before the next call for this connection. It never
// fails; stop when Full. On a closed connection, the bytes go nowhere.
func (c *Conn) Stage(n int) []byte {
	c.l.check.assertHeld()
	if n <= 0 {
		return nil
	}
	if c.deaf() {
		return make([]byte, n)
	}
	c.queued()
	return c.stage(n)
}

// Write queues a copy of p. It always takes all of it; stop when Full.
func (c *Conn) Write(p []byte) (int, error) {
	if c.deaf() {
		return 0, io.ErrClosedPipe
	}
	copy(c.Stage(len(p)), p)
	return len(p), nil
}

// AppendBuffer appends b's bytes to what is queued and takes b's reference over: it is released once written, or when the
// connection is closed. Payloads of up to CopyLimit bytes are copied next to their header and released at once. b's bytes
// are in memory, or, if SendsFiles, in a file.
func (c *Conn) AppendBuffer(b segment.Buffer) {
	c.l.check.assertHeld()
	if b.IsFile() {
		c.appendFile(b)
		return
	}
	p := b.Bytes()
	switch {
	case c.deaf():
		c.releaseBuffer(b)
		c.publishReleased()
		return
	case len(p) <= c.l.copyLimit():
		if len(p) > 0 {
			copy(c.stage(len(p)), p)
		}
		c.releaseBuffer(b)
	default:
		pc := c.out.push()
		pc.p, pc.buf = p, b
		c.out.bytes += len(p)
	}
	c.queued()
}

// AppendCopies is AppendBuffer for small buffers in memory, which are copied one behind the other and released. The slice, empty handles
// now, is the caller's again.
func (c *Conn) AppendCopies(bufs []segment.Buffer) {
	c.l.check.assertHeld()
	n := 0
	for _, b := range bufs {
		n += b.Len()
	}
	deaf := c.deaf()
	if !deaf && n > 0 {
		p := c.stage(n)
		for _, b := range bufs {
			p = p[copy(p, b.Bytes()):]
		}
		clear(p) // nothing, unless a handle was released
	}
	c.releaseAll(bufs)
	if !deaf {
		c.queued()
	}
}

// queued sees to it that what was just queued is written.
func (c *Conn) queued() {
	if !c.filling {
		c.WantFlush()
	}
}

// deaf tells whether what is queued would go nowhere.
func (c *Conn) deaf() bool { return c.closed || c.writeErr != nil || c.wasShut }

// Full tells whether a batch is queued: about BatchBytes, or MaxVectors pieces.
func (c *Conn) Full() bool { return c.out.bytes >= BatchBytes || c.out.len() >= MaxVectors-1 }

// Pending returns the bytes queued and not yet written. TLS counts those it has encrypted already with what it adds.
func (c *Conn) Pending() int { return c.unsent() }

// WantFlush asks for OnFlush and a write at the end of this turn, or of the turn in which the socket takes more.
func (c *Conn) WantFlush() {
	if !c.dirty && !c.closed {
		c.dirty = true
		c.l.dirty = append(c.l.dirty, c)
	}
}

// SetCredit tells how many full buffers the peer may send at the moment. From 24 on, and while reads bring at least two
// full frames, the loop asks the kernel to report data only in larger portions.
func (c *Conn) SetCredit(fullBuffers int) { c.credit = fullBuffers }

// PauseRead stops reading, so that the peer is held back by the socket's buffers. An end of the connection is noticed only
// after ResumeRead, or by a write.
func (c *Conn) PauseRead() {
	c.paused = true
	c.interest()
}

// ResumeRead undoes PauseRead.
func (c *Conn) ResumeRead() {
	if !c.paused {
		return
	}
	c.paused = false
	if c.p != nil {
		c.p.resume()
		return
	}
	c.interest()
}

// CloseWrite ends the outgoing stream once what is queued is written (half-close). Reading goes on.
func (c *Conn) CloseWrite() {
	c.shutWrite = true
	c.WantFlush()
}

// Abort closes the connection from any goroutine, in the loop's next turn.
func (c *Conn) Abort(err error) {
	c.abortMu.Lock()
	if c.abortErr == nil {
		c.abortErr = err
	}
	c.abortMu.Unlock()
	if c.notify(attnAbort) {
		c.l.nudge()
	}
}

// What a connection wants attention for.
const (
	attnAttach   = 1 << iota // register it
	attnAbort                // Abort was called
	attnReadable             // portable: the reader has a chunk, or the end
	attnWritten              // portable: the writer is done with its batch
	attnGone                 // portable: both goroutines have ended
)

// notify puts the connection into the loop's inbox. False: it is there already, or the loop is gone.
func (c *Conn) notify(flag uint32) bool {
	return c.attention.Or(flag) == 0 && c.l.inbox.put(c)
}

func (c *Conn) attend() {
	f := c.attention.Swap(0)
	if f&attnAttach != 0 && !c.closed {
		c.attach()
	}
	if f&attnAbort != 0 {
		c.abortMu.Lock()
		err := c.abortErr
		c.abortMu.Unlock()
		c.Close(err)
	}
	if c.p != nil {
		c.p.attend(f)
	}
}

// enlist puts the connection on the loop's list. Who rested because there was none takes the turns.
func (c *Conn) enlist() {
	l := c.l
	c.index = len(l.conns)
	l.conns = append(l.conns, c)
	l.open.Store(int32(len(l.conns)))
	if c.index == 0 {
		l.resters.wake()
	}
}

// attach registers a new connection.
func (c *Conn) attach() {
	c.enlist()
	if c.l.closing.Load() {
		c.Close(ErrClosed)
		return
	}
	if c.p != nil {
		c.p.start()
	} else if err := c.sysAttach(); err != nil {
		c.Close(err)
		return
	}
	c.opened()
}

// opened makes the first calls to the handler.
func (c *Conn) opened() {
	if o, ok := c.h.(OpenHandler); ok {
		o.OnOpen(c)
	}
	c.WantFlush()
}

// opError names the connection in an error of the system.
func (c *Conn) opError(op string, err error) error {
	if _, ok := err.(*net.OpError); ok {
		return err
	}
	return &net.OpError{Op: op, Net: c.net, Source: c.laddr, Addr: c.raddr, Err: os.NewSyscallError(op, err)}
}

// interest brings what the kernel reports in line with the connection's state.
func (c *Conn) interest() {
	if c.p == nil && !c.closed && c.index >= 0 {
		c.sysInterest()
	}
}
