package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/credit"
)

// client is a hostile client's connection.
type client struct {
	net.Conn
	t    testing.TB
	name string // its address, as the server sees it
}

// connect opens a connection to the victim, after the TLS handshake if it has one.
func (v *victim) connect() *client {
	v.t.Helper()
	c := v.connectTCP()
	if v.tls != nil {
		conf := v.tls.Clone()
		conf.ServerName = "127.0.0.1"
		tc := tls.Client(c.Conn, conf)
		if err := tc.HandshakeContext(limited(v.t)); err != nil {
			v.t.Fatal(err)
		}
		c.Conn = tc
	}
	return c
}

// connectTCP opens a connection and says nothing.
func (v *victim) connectTCP() *client {
	v.t.Helper()
	nc, err := net.Dial("tcp", v.node.Addr().String())
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = nc.Close() })
	return &client{Conn: nc, t: v.t, name: nc.LocalAddr().String()}
}

func (c *client) send(p []byte) {
	c.t.Helper()
	_ = c.SetWriteDeadline(time.Now().Add(hang))
	if _, err := c.Write(p); err != nil {
		c.t.Fatalf("%s: %v", c.name, err)
	}
}

// closed waits until the victim has closed the connection, and returns what it said before.
func (c *client) closed() []byte {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(hang))
	p, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%s: still open", c.name)
	}
	return p
}

// answers counts error frames that a victim sent.
type answers struct {
	decoder *credit.ClientDecoder
	errs    []string
	n       atomic.Int64
}

func newAnswers() *answers { return &answers{decoder: credit.NewClientDecoder(credit.DecoderConfig{})} }

func (a *answers) OnBufferHeader(*credit.BufferHeader) ([]byte, bool)  { return nil, false }
func (a *answers) OnBufferDone(*credit.BufferHeader) error             { return nil }
func (a *answers) OnBacklogAnnouncement(credit.ChannelID, int32) error { return nil }
func (a *answers) OnErrorResponse(e *credit.ErrorResponse) error {
	a.n.Add(1)
	if len(a.errs) < 100 {
		a.errs = append(a.errs, e.Cause.Error())
	}
	return nil
}

// answered reads until n answers more have come.
func (c *client) answered(a *answers, n int64) {
	c.t.Helper()
	p := make([]byte, 64<<10)
	for want := a.n.Load() + n; a.n.Load() < want; {
		_ = c.SetReadDeadline(time.Now().Add(hang))
		k, err := c.Read(p)
		if err != nil {
			c.t.Fatalf("%s: after %d answers of %d: %v", c.name, a.n.Load(), want, err)
		}
		if err := a.decoder.Feed(p[:k], a); err != nil {
			c.t.Fatal(err)
		}
	}
}

// flush waits until the victim has taken everything that was sent: it answers what is wrong.
func (c *client) flush(a *answers) {
	c.t.Helper()
	c.send(request(weir.NameID("marker"), 0, 0, credit.NewChannelID(), -1))
	c.answered(a, 1)
}

func request(id weir.PartitionID, first, last int32, receiver credit.ChannelID, n int32) []byte {
	return credit.AppendPartitionRequest(nil, &credit.PartitionRequest{Partition: id, Range: credit.SubpartitionRange{First: first, Last: last},
		Receiver: receiver, Credit: n})
}

// frame is a frame with any length and id.
func frame(length uint32, id byte, body []byte) []byte {
	p := binary.BigEndian.AppendUint32(nil, length)
	p = binary.BigEndian.AppendUint32(p, credit.Magic)
	return append(append(p, id), body...)
}

// clientAttacks are those of clients on a node that serves.
func clientAttacks() []attack {
	return []attack{
		{name: "frames that lie about magic, length or kind", bound: usage{mib, 4, 40, held}, run: malformed},
		{name: "requests that lie", bound: usage{mib, 4, 8, 2 * held}, run: lies},
		{name: "foreign partitions, double requests", bound: usage{mib, 4, 8, 2 * held}, run: foreign},
		{name: "a stall at each byte of a request", bound: usage{4 * mib, 4, 210, held}, run: stalls},
		{name: "a stall at each byte of a request, TLS", tls: true, bound: usage{40 * mib, 300, 420, held}, run: stalls},
		{name: "silent TLS handshakes", tls: true, bound: usage{8 * mib, 140, 420, held}, run: halfOpen},
		{name: "wrong requests whose answers are not read", bound: usage{4 * mib, 4, 12, held}, run: unreadAnswers},
		{name: "131 073 requests for partitions that are not there", mass: true, bound: usage{80 * mib, 4, 20, held}, run: requestStorm},
		{name: "storms of credit, cancels, sizes, acknowledgements", bound: usage{4 * mib, 4, 4, 2 * held}, run: creditStorm},
		{name: "task events of 1 GiB, and unfinished ones", bound: usage{8 * mib, 4, 208, held}, run: taskEvents},
		{name: "all credit, and nothing is read", bound: usage{4 * mib, 6, 6, 2 * held}, run: stuckReader},
		{name: "connections that break off", bound: usage{4 * mib, 4, 600, held}, run: breakOff},
		{name: "thousands of connections", mass: true, bound: usage{32 * mib, 4, 2*4096 + 8, held}, run: connections},
	}
}

func malformed(v *victim) {
	full := request(weir.NameID("x"), 0, 0, credit.NewChannelID(), 2)
	with := func(at int, p ...byte) []byte {
		f := bytes.Clone(full)
		copy(f[at:], p)
		return f
	}
	cases := map[string][]byte{
		"bad magic":         with(4, 1, 2, 3, 4),
		"length 0":          frame(0, 2, nil),
		"length 8":          frame(8, 2, nil),
		"length 2^31":       frame(1<<31, 2, nil),
		"length 2^32-1":     frame(math.MaxUint32, 2, nil),
		"a byte too few":    with(0, 0, 0, 0, 96),
		"a byte too many":   with(0, 0, 0, 0, 98),
		"a server's frame":  frame(9+38, 0, make([]byte, 38)),
		"an error":          frame(9+20, 1, make([]byte, 20)),
		"unknown kind":      frame(9, 200, nil),
		"close with a body": frame(10, 5, []byte{0}),
		"negative credit":   credit.AppendAddCredit(nil, credit.NewChannelID(), -1),
		"credit 0":          credit.AppendAddCredit(nil, credit.NewChannelID(), 0),
		"size 0":            credit.AppendNewBufferSize(nil, credit.NewChannelID(), 0),
		"HTTP":              []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"range from 5 to 2": request(weir.NameID("x"), 5, 2, credit.NewChannelID(), 2),
	}
	for _, p := range cases {
		c := v.connect()
		c.send(p)
		c.closed()
		v.named(c.name)
		v.measure()
	}
	v.exposure("%d kinds of frames, each closes its connection, and the log names the peer", len(cases))
}

// bait is an output that a hostile client reads, or may not read.
func (v *victim) bait(name string) *weir.Output {
	v.t.Helper()
	o, err := v.node.NewOutput(weir.OutputConfig{Name: name, Subpartitions: 2})
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = o.Close() })
	return o
}

func lies(v *victim) {
	o := v.bait("bait")
	if err := o.WriteTo(limited(v.t), 0, []byte("bait")); err != nil {
		v.t.Fatal(err)
	}
	if err := o.Flush(); err != nil {
		v.t.Fatal(err)
	}
	me, a := credit.NewChannelID(), newAnswers()
	c := v.connect()
	wrong := [][]byte{
		request(o.ID(), 0, 0, credit.NewChannelID(), -1),
		request(o.ID(), 0, 0, credit.NewChannelID(), math.MinInt32),
		request(o.ID(), 2, 2, credit.NewChannelID(), 2),
		request(o.ID(), 0, math.MaxInt32, credit.NewChannelID(), 2),
		request(o.ID(), math.MaxInt32, math.MaxInt32, credit.NewChannelID(), 2),
		credit.AppendAddCredit(nil, me, 1),
		credit.AppendResumeConsumption(nil, me),
		credit.AppendAckAllUserRecordsProcessed(nil, me),
	}
	for _, p := range wrong {
		c.send(p)
		c.answered(a, 1)
	}
	// What is allowed, however odd.
	c.send(request(o.ID(), 0, 0, me, math.MaxInt32))
	for range 3 {
		c.send(credit.AppendAddCredit(nil, me, math.MaxInt32)) // must not wrap
	}
	for _, n := range []int32{1, math.MaxInt32} {
		c.send(credit.AppendNewBufferSize(nil, me, n))
	}
	c.send(credit.AppendSegmentID(nil, me, 0, 7))
	c.send(credit.AppendResumeConsumption(nil, me)) // nothing is blocked
	c.answered(a, 1)
	for range 100 {
		if err := o.WriteTo(limited(v.t), 0, []byte("more bait")); err != nil {
			v.t.Fatal(err)
		}
	}
	if err := o.Flush(); err != nil {
		v.t.Fatal(err)
	}
	c.flush(a)
	v.exposure("%d answers, connection goes on", a.n.Load())
}

func foreign(v *victim) {
	o := v.bait("double")
	a := newAnswers()
	c := v.connect()
	c.send(request(weir.NameID("honest"), 0, 0, credit.NewChannelID(), 2)) // is read by somebody else
	c.answered(a, 1)
	c.send(request(weir.NameID("honest"), 0, 1, credit.NewChannelID(), 2))
	c.answered(a, 1)
	me := credit.NewChannelID()
	c.send(request(o.ID(), 0, 0, me, 2))
	c.send(request(o.ID(), 0, 0, me, 2)) // again, under the same name
	c.answered(a, 1)
	d := v.connect()
	b := newAnswers()
	d.send(request(o.ID(), 0, 0, me, 2)) // and by another connection
	d.answered(b, 1)
	d.send(request(o.ID(), 1, 1, credit.NewChannelID(), 2))
	d.flush(b)
	v.exposure("%d answers, honest readers keep what is theirs", a.n.Load()+b.n.Load())
}

// accepted waits until the victim has accepted so many connections more.
func (v *victim) accepted(n int) func() {
	before := v.node.Stats().Loop.Accepted
	return func() {
		v.t.Helper()
		eventually(v.t, "connections are accepted", func() bool { return v.node.Stats().Loop.Accepted >= before+uint64(n) })
	}
}

func stalls(v *victim) {
	full := request(weir.NameID("x"), 0, 0, credit.NewChannelID(), 2)
	all := v.accepted(len(full))
	var cs []*client
	for n := range full {
		c := v.connect()
		c.send(full[:n])
		cs = append(cs, c)
	}
	all()
	hello := 0
	if v.tls != nil {
		for n := 0; n < 200; n += 13 { // within the handshake
			c := v.connectTCP()
			c.send(clientHello(v)[:n])
			cs = append(cs, c)
			hello++
		}
	}
	v.measure()
	start := time.Now()
	for _, c := range cs {
		c.closed()
	}
	v.named("no whole message in time")
	v.exposure("%d connections stood still at each byte, %d in their handshake; all were closed after %.0f s", len(full), hello, time.Since(start).Seconds())
}

// clientHello is how a TLS connection begins.
func clientHello(v *victim) []byte {
	near, far := net.Pipe()
	defer near.Close()
	conf := v.tls.Clone()
	conf.ServerName = "127.0.0.1"
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(far, conf).HandshakeContext(ctx)
		_ = far.Close()
	}()
	p := make([]byte, 4096)
	n, err := near.Read(p)
	cancel()
	<-done
	if err != nil || n < 200 {
		v.t.Fatalf("%d bytes of a client hello: %v", n, err)
	}
	return p[:n]
}

func halfOpen(v *victim) {
	const silent = 200 // 128 may be in their handshake
	var cs []*client
	for range silent {
		cs = append(cs, v.connectTCP())
	}
	eventually(v.t, "the limit is reported", func() bool { return v.log.has("limit of unfinished TLS handshakes reached") })
	v.measure()
	v.honest.moves(v.t)
	for _, c := range cs {
		_ = c.Close()
	}
	a := newAnswers()
	v.connect().flush(a)
	v.exposure("%d silent connections, 128 get a place; who stands goes on, a newcomer gets in after them", silent)
}

func unreadAnswers(v *victim) {
	storm := bytes.Repeat(credit.AppendAddCredit(nil, credit.NewChannelID(), 1), 1000)
	var sent int64
	for range 4 {
		c := v.connect()
		for {
			_ = c.SetWriteDeadline(time.Now().Add(hang))
			n, err := c.Write(storm)
			sent += int64(n)
			if errors.Is(err, os.ErrDeadlineExceeded) || sent > 1<<30 {
				v.t.Fatalf("still open after %d bytes", sent)
			}
			if err != nil {
				break
			}
			v.measure()
		}
		v.named(c.name, "does not read the answers")
		v.measure()
	}
	v.exposure("4 connections, closed after %d KiB of requests in all; the log names them", sent/kib)
}

func requestStorm(v *victim) {
	const each, most = 20_000, 1 << 17
	type flooder struct {
		*client
		a   *answers
		ids []credit.ChannelID
	}
	storm := func(n int) *flooder {
		f := &flooder{client: v.connect(), a: newAnswers()}
		var p []byte
		for range n {
			id := credit.NewChannelID()
			f.ids = append(f.ids, id)
			p = append(p, request(weir.NameID("nobody"), 0, 0, id, 2)...)
		}
		f.send(p)
		return f
	}
	var fs []*flooder
	for n := 0; n < most; n += each {
		f := storm(min(each, most-n))
		f.flush(f.a)
		fs = append(fs, f)
	}
	last := storm(1)
	last.answered(last.a, 1)
	if len(last.a.errs) != 1 || !strings.Contains(last.a.errs[0], "131072 requests wait") {
		v.t.Errorf("one more gets %q", last.a.errs)
	}
	v.measure()
	for _, f := range fs {
		var p []byte
		for _, id := range f.ids {
			p = credit.AppendCancelPartitionRequest(p, id)
		}
		f.send(p)
		f.flush(f.a)
	}
	v.exposure("131 072 wait, on 7 connections; the next one is refused; then all are cancelled")
}

func creditStorm(v *victim) {
	const n = 200_000
	o := v.bait("storm")
	me, a := credit.NewChannelID(), newAnswers()
	c := v.connect()
	c.send(request(o.ID(), 0, 0, me, 2))
	stranger := credit.NewChannelID()
	for _, f := range [][]byte{
		credit.AppendAddCredit(nil, me, math.MaxInt32),
		credit.AppendCancelPartitionRequest(nil, stranger),
		credit.AppendNewBufferSize(nil, me, 1),
		credit.AppendNewBufferSize(nil, stranger, 1),
		credit.AppendAckAllUserRecordsProcessed(nil, me),
		credit.AppendSegmentID(nil, stranger, 1, 1),
	} {
		p := bytes.Repeat(f, 1000)
		for range n / 1000 {
			c.send(p)
		}
		v.measure()
	}
	c.flush(a)
	v.exposure("6 kinds, %d of each", n)
}

func taskEvents(v *victim) {
	c := v.connect()
	c.send(frame(1<<30, 3, nil)) // the header alone
	c.closed()
	v.named(c.name, "limit")
	const conns, claimed = 100, 16 << 10
	p := frame(9+claimed, 3, make([]byte, claimed))
	for range conns {
		c := v.connect()
		c.send(p[:len(p)-1])
	}
	eventually(v.t, "the bytes are taken", func() bool { v.measure(); return v.grown().heap > conns*claimed/2 })
	v.exposure("1 GiB refused by its header; %d of %d KiB without their last byte", conns, claimed/kib)
}

func stuckReader(v *victim) {
	o := v.bait("stuck")
	c := v.connect()
	for sub := range int32(2) {
		c.send(request(o.ID(), sub, sub, credit.NewChannelID(), math.MaxInt32))
	}
	if err := o.AwaitConsumers(limited(v.t)); err != nil {
		v.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(limited(v.t))
	done := make(chan int64, 1)
	go func() {
		var n int64
		record := make([]byte, 8<<10)
		for o.WriteTo(ctx, int(n%2), record) == nil {
			n++
		}
		done <- n
	}()
	eventually(v.t, "the writer waits", func() bool { return o.Stats(weir.OutputStats{}).WaitingFor >= 0 })
	v.measure()
	v.honest.moves(v.t)
	cancel()
	n := <-done
	_ = c.Close()
	eventually(v.t, "its memory comes home", func() bool { return o.Close() == nil })
	v.exposure("%d MiB were written until the writer waited", n*8*kib/mib)
}

func breakOff(v *victim) {
	const n = 2000
	full := request(weir.NameID("x"), 0, 0, credit.NewChannelID(), 2)
	for i := range n {
		c := v.connectTCP()
		c.send(full[:i%len(full)])
		if i%2 == 0 {
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
		}
		_ = c.Close()
		if i%500 == 0 {
			v.measure()
		}
	}
	eventually(v.t, "they are forgotten", func() bool { return cost(v.node).descriptors <= v.before.descriptors+2 })
	v.exposure("%d, at each byte, half of them reset", n)
}

func connections(v *victim) {
	const most, more = 4096, 200
	if limit := descriptorLimit(); limit < 2*(most+more)+200 {
		v.t.Skipf("needs %d descriptors, there are %d", 2*(most+more)+200, limit)
	}
	full := v.accepted(most - 1) // the honest one is there
	var cs []*client
	for range most - 1 {
		cs = append(cs, v.connectTCP())
	}
	full()
	v.measure()
	closed := 0
	for range more {
		c := v.connectTCP()
		c.closed()
		_ = c.Close()
		closed++
	}
	v.named("too many connections")
	v.measure()
	v.honest.moves(v.t)
	// They do not stay for ever.
	for _, c := range cs {
		c.closed()
	}
	a := newAnswers()
	v.connect().flush(a)
	if strings.Contains(v.log.String(), "too many open files") {
		v.t.Error("it ran out of descriptors")
	}
	v.exposure("%d silent ones stay until their time is up, %d more are closed at once; then a newcomer gets in", most-1, closed)
}

// descriptorLimit is how many descriptors the process may have, as far as the system says.
func descriptorLimit() int {
	p, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		return math.MaxInt
	}
	for _, line := range strings.Split(string(p), "\n") {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			if n, err := strconv.Atoi(strings.Fields(rest)[0]); err == nil {
				return n
			}
		}
	}
	return math.MaxInt
}
