//go:build linux && !weirportable

package netio

import (
	"crypto/tls"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// The native driver of TLS: after its handshake a connection is a socket of the loop like any other, and the loop calls crypto/tls.
// Nothing of it blocks. What crypto/tls reads from never waits, and says so by an error that does not stick; what it writes to takes
// everything, and the loop writes that to the socket. So a turn decrypts about LoopConfig.ReadSize, and encrypts BatchBytes, in
// portions that stay in the CPU's cache on their way between crypto/tls and the kernel.
const (
	// tlsRecord is the most plaintext in one record, RFC 8446, section 5.1.
	tlsRecord = 16 << 10
	// sealBatch is how much plaintext is encrypted for one write to the socket, if that has room for it, and sealLeast is how much in
	// any case: what the socket does not take stays with the connection.
	sealBatch = BatchBytes
	sealLeast = 4 * tlsRecord
	// sealSpace is the length of a staging buffer: a batch with what records add to it, also while crypto/tls begins with small ones.
	// sealSpaceLeast is that of a small one.
	sealSpace      = sealBatch + 16<<10
	sealSpaceLeast = sealLeast + 4<<10
	// sealsKept bounds what an idle loop keeps: of small ones; of the others, one.
	sealsKept = 8
	// repliesMax is how much of what crypto/tls answers by itself (a peer may ask for key updates, and not read) can wait for the
	// socket, until the connection reads no more.
	repliesMax = 16 << 10
	// openBatch is how much plaintext is gathered for one OnRead, if the peer makes small records.
	openBatch = 2 * tlsRecord
	// recordsPerTurn bounds how many records are decrypted in a turn: some may carry a single byte.
	recordsPerTurn = 256
)

// tlsLink is what is below a tls.Conn: package net's connection until the handshake is through, the loop's socket afterwards.
type tlsLink struct {
	net.Conn // not used any more once c is set, but for its addresses
	tc       *tls.Conn
	c        *Conn // set by take

	out    []byte // sealed: staged for the socket; nil when there is nothing
	sent   int    // of it
	owed   int    // part of it, or more: answers that crypto/tls has made by itself
	in     []byte // what a look at the socket has brought; nil when crypto/tls has all of it
	taken  int    // of it
	failed error  // of the socket

	// Where the input is cut into records, whose headers are in clear: who asks crypto/tls for more than it has makes it allocate.
	head [5]byte // of the record that is on its way
	have int     // of the header
	body int     // what is missing of the rest
	full int     // records that crypto/tls was given whole and has not passed on, or more

	turn    uint64 // of the loop, in which was read last
	again   bool   // read without being told by the kernel: crypto/tls may hold records that it has read already
	dry     bool   // the socket had less than was asked for in this turn
	sealing bool   // in seal
	told    bool   // the end was told (close_notify): nothing may follow
	fin     bool   // and the socket shut down for writing
	limit   *Timer // of farewell
}

// newUnderTLS returns what a tls.Conn is made on. The loop does not serve those that may have to do another handshake.
func newUnderTLS(nc net.Conn, renegotiates bool) net.Conn {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		if !renegotiates {
			return &tlsLink{Conn: nc}
		}
	}
	return newBuffered(nc)
}

// errNothing says that the socket has nothing at the moment. crypto/tls keeps errors, unless they are temporary.
var errNothing error = nothing{}

type nothing struct{}

func (nothing) Error() string   { return "nothing to read" }
func (nothing) Timeout() bool   { return true }
func (nothing) Temporary() bool { return true }

// Read is crypto/tls's way to the socket.
func (k *tlsLink) Read(p []byte) (int, error) {
	c := k.c
	if c == nil {
		n, err := k.Conn.Read(p)
		k.cut(p[:n])
		return n, err
	}
	var n int
	var err error
	switch {
	case k.in != nil:
		n = copy(p, k.in[k.taken:])
		if k.taken += n; k.taken == len(k.in) {
			c.l.sys.seals.put(k.in)
			k.in, k.taken = nil, 0
		}
	case k.dry:
		return 0, errNothing
	default:
		n, err = k.receive(p)
	}
	k.cut(p[:n])
	return n, err
}

// look asks the socket whether there is anything to read, unless that is known. crypto/tls makes an object for each attempt, so it is
// asked after.
func (k *tlsLink) look() bool {
	if k.in != nil || k.full > 0 {
		return true
	}
	staging := &k.c.l.sys.seals
	p := staging.get(0)
	n, err := k.receive(p[:cap(p)])
	if n == 0 {
		staging.put(p)
		return err != errNothing
	}
	k.in = p[:n]
	return true
}

// receive reads from the socket.
func (k *tlsLink) receive(p []byte) (int, error) {
	c := k.c
	for k.failed == nil {
		n, errno := c.readInto(p)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			k.dry = true
			return 0, errNothing
		case errno != 0:
			k.failed = c.opError("read", errno)
		case n == 0:
			k.failed = io.EOF
		default:
			c.l.stats.Reads++
			c.l.stats.ReadBytes += uint64(n)
			k.dry = n < len(p)
			return n, nil
		}
	}
	return 0, k.failed
}

// cut counts the records that p completes.
func (k *tlsLink) cut(p []byte) {
	for len(p) > 0 {
		if k.have < len(k.head) {
			n := copy(k.head[k.have:], p)
			k.have += n
			p = p[n:]
			if k.have < len(k.head) {
				return
			}
			k.body = int(k.head[3])<<8 | int(k.head[4])
		}
		n := min(k.body, len(p))
		k.body -= n
		p = p[n:]
		if k.body == 0 {
			k.have = 0
			k.full++
		}
	}
}

// Write takes what crypto/tls has made.
func (k *tlsLink) Write(p []byte) (int, error) {
	if k.c == nil {
		return k.Conn.Write(p)
	}
	if k.told || k.c.writeErr != nil {
		return len(p), nil // an answer to what came, that nobody waits for
	}
	if k.out == nil {
		k.out = k.c.l.sys.seals.get(0)
	}
	if !k.sealing {
		k.owed += len(p)
	}
	k.out = append(k.out, p...)
	return len(p), nil
}

// CloseWrite ends the outgoing stream; the handshake's, as below.
func (k *tlsLink) CloseWrite() error {
	if cw, ok := k.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return nil
}

// Close is for connections that did not get to a loop.
func (k *tlsLink) Close() error {
	if k.c == nil {
		return k.Conn.Close()
	}
	return nil
}

// SetWriteDeadline is called by crypto/tls before it says goodbye.
func (k *tlsLink) SetWriteDeadline(t time.Time) error {
	if k.c == nil {
		return k.Conn.SetWriteDeadline(t)
	}
	return nil
}

// sealed is how much is staged.
func (k *tlsLink) sealed() int { return len(k.out) - k.sent }

// choked tells whether the peer makes crypto/tls answer, and does not fetch the answers.
func (k *tlsLink) choked() bool { return k.owed > repliesMax }

// sealPool is the loop's stock of staging buffers. One of each is enough as long as sockets take what they get.
type sealPool struct {
	small [][]byte
	large []byte
}

// get returns a buffer for a batch of n bytes.
func (s *sealPool) get(n int) (p []byte) {
	last := len(s.small) - 1
	switch {
	case n > sealLeast && s.large != nil:
		p, s.large = s.large, nil
	case n > sealLeast:
		p = make([]byte, 0, sealSpace)
	case last >= 0:
		p, s.small[last] = s.small[last], nil
		s.small = s.small[:last]
	default:
		p = make([]byte, 0, sealSpaceLeast)
	}
	return p
}

func (s *sealPool) put(p []byte) {
	switch {
	case cap(p) == sealSpace:
		s.large = p[:0]
	case cap(p) == sealSpaceLeast && len(s.small) < sealsKept:
		s.small = append(s.small, p[:0])
	}
}

// tlsTake makes nc, whose handshake is through, a connection of the loop. The socket follows when it is attached.
func (c *Conn) tlsTake(nc *tls.Conn) bool {
	k, ok := nc.NetConn().(*tlsLink)
	if !ok {
		return false
	}
	k.tc = nc
	c.sys.tls = k
	c.sys.fd = -1
	return true
}

// tlsAttach takes the socket over.
func (c *Conn) tlsAttach() error {
	k := c.sys.tls
	if _, err := c.sysAdopt(k.Conn); err != nil {
		return err
	}
	k.c = c
	k.again = true // the handshake may have read further
	return nil
}

// tlsAgain reads what crypto/tls may hold, of which the kernel knows nothing.
func (c *Conn) tlsAgain() {
	k := c.sys.tls
	switch {
	case c.closed || c.paused || c.ended || k.choked():
	case k.turn == c.l.turns.Load():
		c.WantFlush() // it had its share of this turn
	default:
		c.tlsRead(false)
	}
}

// tlsRead is sysReadOnce for TLS: it passes on what there is, for about ReadSize. It reports whether there may be more.
func (c *Conn) tlsRead(hangup bool) (again bool) {
	k, l := c.sys.tls, c.l
	k.again, k.dry, k.turn = false, false, l.turns.Load()
	if !k.look() {
		if hangup {
			c.hungUp()
		}
		return false
	}
	region := l.sys.region
	enough := min(openBatch, len(region))
	have, total, before := 0, 0, l.stats.ReadBytes
	var err error
	for records := 0; ; records++ {
		if total >= len(region) || records >= recordsPerTurn || k.choked() {
			again = true
			break
		}
		if k.dry && k.in == nil && k.full == 0 {
			err = errNothing
		} else {
			var n int
			n, err = k.tc.Read(region[have:])
			switch have += n; {
			case err != nil:
				k.full = 0 // nothing, or an error that comes again
			case have < len(region) && k.full > 0:
				k.full--
			}
		}
		if have >= enough || err != nil && have > 0 {
			total += have
			if !c.received(region[:have]) {
				return false
			}
			have = 0
			if c.paused {
				again = true // errors stick: it comes again
				break
			}
		}
		if err != nil {
			break
		}
	}
	if have > 0 && !c.received(region[:have]) {
		return false
	}
	if k.sealed() > 0 {
		c.WantFlush() // an answer, or the reason why it ends
	}
	switch {
	case err == nil, again:
		k.again = true
		c.interest()
		return again
	case err == errNothing:
		if hangup && l.stats.ReadBytes == before {
			c.hungUp()
		}
	case err == io.EOF:
		c.endOfStream()
	default:
		if c.writeErr != nil {
			err = c.writeErr
		} else {
			err = c.opError("read", err)
		}
		c.Close(err)
	}
	return false
}

// tlsWrite is sysWrite for TLS: it encrypts and writes by turns, for about BatchBytes.
func (c *Conn) tlsWrite() {
	k := c.sys.tls
	for left := BatchBytes; left > 0; {
		if k.sealed() == 0 {
			n := c.seal()
			if n == 0 {
				break
			}
			left -= n
		}
		if !c.sendSealed() {
			return
		}
	}
	if c.wasShut && !k.fin && k.sealed() == 0 {
		if err := c.tlsFin(); err != nil {
			c.writeFailed(c.opError("shutdown", err))
		} else if c.ended && !c.finishing {
			c.Close(nil)
		}
	}
}

// seal encrypts a batch of what is queued and returns how much that was; 0: there is nothing, or it failed. What fills a record
// goes to crypto/tls as it is. The rest is joined, headers with the payloads around them: a record for each costs more than the copy.
func (c *Conn) seal() int {
	k, l := c.sys.tls, c.l
	if c.out.bytes == 0 {
		return 0
	}
	if l.sys.joined == nil {
		l.sys.joined = make([]byte, 0, tlsRecord)
	}
	joined := l.sys.joined
	total, limit := 0, c.sealRoom()
	var err error
	k.out = l.sys.seals.get(min(limit, c.out.bytes)) // nothing was staged
	k.sealing = true
	for i := range uint32(c.out.len()) {
		p := c.out.at(i).p
		for len(p) > 0 && total < limit {
			n := min(len(p), tlsRecord-len(joined), limit-total)
			record := p[:n]
			if n < tlsRecord {
				joined = append(joined, record...)
				record = joined
			}
			p = p[n:]
			total += n
			if len(record) == tlsRecord {
				_, err = k.tc.Write(record)
				joined = joined[:0]
			}
		}
		if total >= limit || err != nil {
			break
		}
	}
	if len(joined) > 0 && err == nil {
		_, err = k.tc.Write(joined)
	}
	k.sealing = false
	if err != nil {
		k.dropSealed()
		c.writeFailed(c.opError("write", err))
		return 0
	}
	c.acknowledge(total)
	return total
}

// sealRoom is how much to encrypt for the next write: what the socket will take, about.
func (c *Conn) sealRoom() int {
	if c.out.bytes <= sealLeast {
		return sealLeast
	}
	size, err := unix.GetsockoptInt(c.sys.fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	if err != nil {
		return sealLeast
	}
	used, err := unix.IoctlGetInt(c.sys.fd, unix.SIOCOUTQ)
	if err != nil {
		return sealLeast
	}
	return min(max(size-used, sealLeast), sealBatch) &^ (tlsRecord - 1)
}

// sendSealed writes what is staged. It returns false if nothing more is to be written now.
func (c *Conn) sendSealed() bool {
	k, l := c.sys.tls, c.l
	want := k.sealed()
	if want == 0 {
		return true
	}
	v := &l.sys.vec
	v.reset()
	v.add(k.out[k.sent:])
	n, errno := c.writeVectors(v)
	v.release()
	switch errno {
	case 0:
		l.stats.Writes++
		l.stats.WriteBytes += uint64(n)
		if n < want {
			k.sent += n
			c.blocked = true // the socket is full
			k.shrink()
			return false
		}
		k.dropSealed()
		return true
	case unix.EAGAIN:
		c.blocked = true
		k.shrink()
	case unix.EINTR:
	default:
		k.dropSealed()
		c.writeFailed(c.opError("write", errno))
	}
	return false
}

// dropSealed gives the staging buffer back.
func (k *tlsLink) dropSealed() {
	if k.out != nil {
		k.c.l.sys.seals.put(k.out)
		k.out, k.sent, k.owed = nil, 0, 0
	}
}

// shrink keeps what may have to wait for long in a small buffer, if it fits.
func (k *tlsLink) shrink() {
	if cap(k.out) == sealSpaceLeast || k.sealed() > sealSpaceLeast {
		return
	}
	seals := &k.c.l.sys.seals
	small := append(seals.get(0), k.out[k.sent:]...)
	seals.put(k.out)
	k.out, k.sent = small, 0
}

// tellEnd stages the end of the outgoing stream (close_notify).
func (k *tlsLink) tellEnd() {
	if !k.told {
		_ = k.tc.CloseWrite() // writes to k only
		k.told = true
	}
}

// tlsShutdown tells the end, in TLS and then, once that has gone out, to the kernel.
func (c *Conn) tlsShutdown() error {
	c.sys.tls.tellEnd()
	if !c.sendSealed() {
		return nil // see tlsWrite
	}
	return c.tlsFin()
}

func (c *Conn) tlsFin() error {
	c.sys.tls.fin = true
	return unix.Shutdown(c.sys.fd, unix.SHUT_WR)
}

// sysFarewell begins to close a connection over TLS: the peer is told, since for it a connection that just ends may have been cut by
// somebody else. It returns true if the socket is full: the connection is closed later then, at the latest after goodbyeLimit.
func (c *Conn) sysFarewell() bool {
	k := c.sys.tls
	switch {
	case k == nil:
		return false
	case k.c == nil: // was never attached
		c.l.abandon(k.tc)
		return false
	case c.writeErr != nil || k.fin:
		k.dropSealed()
		return false
	}
	k.tellEnd()
	if c.sendSealed() || k.sealed() == 0 {
		return false
	}
	if c.sys.slot == 0 || c.l.setMask(c.sys.fd, c.sys.slot, c.sys.mask, unix.EPOLLOUT) != nil {
		k.dropSealed()
		return false
	}
	c.sys.mask = unix.EPOLLOUT
	k.limit = c.l.After(goodbyeLimit, c.farewellOver)
	return true
}

// farewell goes on with it when the socket takes more.
func (c *Conn) farewell() {
	k := c.sys.tls
	if !c.sendSealed() && k.sealed() > 0 {
		return
	}
	k.limit.Stop()
	c.farewellOver()
}

func (c *Conn) farewellOver() {
	c.sys.tls.dropSealed()
	c.sysClose()
	c.gone()
}
