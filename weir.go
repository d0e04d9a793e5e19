package weir

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/netio"
	"github.com/weirflow/weir/segment"
)

// Flink is the release line of Flink's data plane that a node speaks. Both ends of a connection speak the same.
type Flink = credit.Profile

// The release lines.
const (
	Flink23  = credit.Flink23
	Flink120 = credit.Flink120
)

// Config configures a Node. The zero value is a node that only reads, with 64 MiB of memory.
type Config struct {
	// Listen is where outputs are served: "HOST:PORT", port 0 for a free one. Empty: this node has no outputs that others read.
	Listen string
	// Memory is the budget for segments, in bytes; 0 means 64 MiB. MemoryNeeded says how much inputs and outputs take.
	Memory int64
	// SegmentSize is the size of a network buffer, in bytes; 0 means 32 KiB. Both ends use the same.
	SegmentSize int
	// Flink is the release line spoken; the zero value is 2.3.
	Flink Flink
	// NoPacking sends each buffer in a message of its own, as Flink does with what is not read from a file. Else small buffers (8 KiB at most) that
	// wait behind one another in an output share a message and so a credit, in the form that Flink 2.3 has for it; never with Flink120.
	NoPacking bool
	// Poll is how long an idle loop polls before it sleeps: 0 means 50 µs, negative never. A container with a CPU quota sets it
	// negative. While bulk flows the loop sleeps for that time instead (Linux 5.11), so polling costs CPU between bursts only.
	Poll time.Duration
	// Dedicated gives the loop a goroutine of its own, which never gives up the loop, instead of letting inputs and outputs
	// run its turns.
	Dedicated bool
	// RequestTimeout is how long the request of a partition that does not exist yet waits at this node; 0 means 10 s.
	RequestTimeout time.Duration
	// MaxRecord bounds the size of a record that is read, in bytes; 0 means 64 MiB.
	MaxRecord int
	// Socket holds the options of connections.
	Socket netio.SocketOptions
	// TLS secures every connection, at both ends: a peer without is refused, as is one whose certificate is not trusted. It is
	// cloned. Authentication is mutual: it needs a certificate of this node's, and how to verify that of a peer, be it
	// RootCAs or ClientCAs (one is used for the other if that is nil), or a callback, as PinnedTLS has. Nil: no TLS.
	TLS *tls.Config
	// HandshakeTimeout bounds a TLS handshake, and after it, or without TLS, the time that a client takes to its first whole message;
	// 0 means 10 s. HalfOpen bounds how many accepted connections may be in their TLS handshake; 0 means 128.
	HandshakeTimeout time.Duration
	HalfOpen         int
	// MaxConnections bounds the connections of consumers that are open at once; further ones are closed, which the Logger hears. 0
	// means 4096.
	MaxConnections int
	// Logger gets errors that concern no input or output. Nil: nobody does.
	Logger *slog.Logger
}

const (
	defaultMemory         = 64 << 20
	defaultMaxRecord      = 64 << 20
	defaultRequestTimeout = 10 * time.Second
	// openLimit bounds how long a node waits for its own loop, which turns many times a second.
	openLimit = 10 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Memory == 0 {
		c.Memory = defaultMemory
	}
	if c.SegmentSize == 0 {
		c.SegmentSize = segment.DefaultSize
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = defaultRequestTimeout
	}
	if c.MaxRecord == 0 {
		c.MaxRecord = defaultMaxRecord
	}
	return c
}

// ErrClosed is in the error of whatever is asked of a closed node, output or input.
var ErrClosed = errors.New("closed")

// Node is the place in a process that outputs and inputs live in: a budget of memory, a loop with its connections, and an
// address to be reached at. All methods are for any goroutine.
type Node struct {
	cfg      Config
	pool     *segment.Pool
	loop     *netio.Loop
	receive  *credit.ReceivePool // the loop's, as all of credit's
	client   *credit.Client
	registry *credit.Registry
	server   *credit.Server
	addr     net.Addr
	began    time.Time

	mu     sync.Mutex
	open   map[closer]struct{} // outputs and inputs; guarded by mu
	closed bool                // guarded by mu
}

// closer is an output, an input or a task.
type closer interface {
	// end marks it closed and wakes who waits in it.
	end()
	Close() error
}

// Open makes a node: it maps its memory, starts its loop and listens if it is to. Close ends all of it.
func Open(cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	if cfg.Memory < int64(cfg.SegmentSize) {
		return nil, fmt.Errorf("weir: %d bytes of memory are less than one segment of %d", cfg.Memory, cfg.SegmentSize)
	}
	pool, err := segment.NewPool(segment.Config{SegmentSize: cfg.SegmentSize, Segments: int(cfg.Memory / int64(cfg.SegmentSize))})
	if err != nil {
		return nil, fmt.Errorf("weir: %w", err)
	}
	n := &Node{cfg: cfg, pool: pool, open: make(map[closer]struct{}), began: time.Now()}
	if err := n.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("weir: %w", err), n.Close())
	}
	return n, nil
}

func (n *Node) start() (err error) {
	n.loop, err = netio.NewLoop(netio.LoopConfig{
		Poll: n.cfg.Poll, Dedicated: n.cfg.Dedicated, FullFrame: n.cfg.SegmentSize, Socket: n.cfg.Socket, Logger: n.cfg.Logger,
	})
	if err != nil {
		return err
	}
	server, client, err := n.cfg.tls()
	if err != nil {
		return err
	}
	return n.do(func() error {
		n.receive, err = credit.NewReceivePool(n.pool, credit.ReceivePoolConfig{Name: "inputs", Wake: n.loop.Wake})
		if err != nil {
			return err
		}
		n.client = credit.NewClient(n.loop, credit.ClientOptions{
			Pool:    n.receive,
			Policy:  credit.Batched{}, // a message of credit costs a system call and wakes the sender
			Decoder: credit.DecoderConfig{Profile: n.cfg.Flink, MaxBuffer: n.cfg.SegmentSize},
			TLS:     client,
		})
		n.registry = credit.NewRegistry(credit.RegistryConfig{
			Timeout: n.cfg.RequestTimeout,
			Clock:   func() time.Duration { return n.loop.Now().Sub(n.began) },
		})
		if n.cfg.Listen == "" {
			return nil
		}
		n.server = credit.NewServer(n.loop, n.registry, credit.ServerOptions{
			Profile: n.cfg.Flink, NoPacking: n.cfg.NoPacking, OnLost: n.consumerLost, OnError: n.refused, TLS: server,
			MaxConnections: n.cfg.MaxConnections, FirstMessage: n.cfg.HandshakeTimeout,
		})
		n.addr, err = n.server.Listen("tcp", n.cfg.Listen)
		return err
	})
}

// do runs f as holder of the loop's token and returns its error.
func (n *Node) do(f func() error) error {
	done := make(chan error, 1)
	if !n.loop.Post(func() { done <- f() }) {
		return ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-time.After(openLimit):
		return errors.New("the node's loop does not turn: something in it blocks")
	}
}

// Addr is where the node listens; nil if it does not.
func (n *Node) Addr() net.Addr { return n.addr }

// Loop is the node's loop, for those that drive or watch it themselves.
func (n *Node) Loop() *netio.Loop { return n.loop }

// Usage is what the node's memory is used for at the moment.
func (n *Node) Usage() segment.PoolUsage { return n.pool.Usage() }

// Memory is the node's budget in bytes.
func (n *Node) Memory() int64 { return int64(n.pool.Segments()) * int64(n.pool.SegmentSize()) }

// Stats is what a node did so far.
type Stats struct {
	// Loop is the network's work: system calls and bytes.
	Loop netio.Stats
	// Frames and Bytes of data that inputs received (a frame may be several small buffers); Credits granted to senders, in Grants messages.
	Frames, Bytes, Credits, Grants uint64
	// Sent is frames of data that outputs sent, Packed those of several buffers.
	Sent, Packed uint64
}

// Stats returns what the node did so far.
func (n *Node) Stats() (st Stats) {
	_ = n.do(func() error {
		st.Loop = n.loop.Stats()
		c := n.client.Stats()
		st.Frames, st.Bytes, st.Credits, st.Grants = c.Data, c.Bytes, c.Credits, c.Grants
		if n.server != nil {
			s := n.server.Stats()
			st.Sent, st.Packed = s.Data, s.Packed
		}
		return nil
	})
	return st
}

// consumerLost passes on that a consumer went. On the loop.
func (n *Node) consumerLost(id PartitionID, sub int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.open {
		if o, ok := c.(*Output); ok && *o.cfg.ID == id {
			o.consumerLost(sub, err)
		}
	}
}

// warn logs what no input or output gets an error of.
func (n *Node) warn(what string, err error) {
	if n.cfg.Logger != nil {
		n.cfg.Logger.Warn("weir: "+what, "error", err)
	}
}

// refused logs what ended a consumer's connection, as no output may be concerned. On the loop.
func (n *Node) refused(err error) {
	n.warn("connection refused", err)
}

// add notes an output or input to be closed with the node.
func (n *Node) add(c closer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return fmt.Errorf("weir: node is %w", ErrClosed)
	}
	n.open[c] = struct{}{}
	return nil
}

func (n *Node) remove(c closer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, c)
}

// Close closes the outputs and inputs that are still open, the connections and the loop, and gives the memory back. Who waits in
// one of them gets an error, but no goroutine may be at work in one otherwise. Its error names each buffer that did not come
// home.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	open := make([]closer, 0, len(n.open))
	for c := range n.open {
		open = append(open, c)
	}
	n.mu.Unlock()
	for _, c := range open { // first: who waits in one of them may look at others
		if t, ok := c.(*Task); ok {
			t.end() // before its outputs: they count as settled then
		}
	}
	for _, c := range open {
		c.end()
	}
	var errs []error
	for _, c := range open {
		errs = append(errs, c.Close())
	}
	if n.loop != nil {
		errs = append(errs, n.do(func() error {
			if n.server != nil {
				n.server.Close()
			}
			if n.client != nil {
				n.client.Close()
			}
			return nil
		}))
		ctx, cancel := context.WithTimeout(context.Background(), openLimit)
		defer cancel()
		errs = append(errs, n.loop.Close(ctx))
	}
	// Nobody runs turns any more: what belonged to the loop is ours.
	if n.receive != nil {
		n.receive.Poll()
		n.receive.Close()
	}
	return errors.Join(append(errs, n.pool.Close())...)
}
