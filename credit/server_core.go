package credit

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/serde/event"
)

// ErrCloseRequested ends Feed when the client asked to close the connection: an orderly end.
var ErrCloseRequested = errors.New("close requested")

// ServerCore is the server's end of one connection (PartitionRequestServerHandler and PartitionRequestQueue): it does
// what the client's frames ask for and lets its readers send. It is the ServerHandler of the connection's decoder. All
// methods belong to the connection's owner, which is that of the partitions' loop halves.
//
// A driver: feeds a ServerDecoder with it; calls Run when Outbound.WantFlush asked for it and when the connection becomes
// writable; on any error, also Feed's, calls Fail and closes the connection after what was written; on the end of the
// connection calls Disconnected.
type ServerCore struct {
	registry *Registry
	out      Outbound
	sched    *Scheduler
	readers  channelTable[Reader]
	waiting  map[ChannelID]*waiter
	fatal    bool
	flooder  Flooder // out, if it is one
	// TaskEvent publishes an event to the producer of a partition and reports whether it has somebody who takes it. Nil: no
	// producer has. Streaming jobs send none.
	TaskEvent func(e *event.Event, partition *PartitionID) bool
	// MaxChannels bounds the readers and waiting requests of the connection; further requests are answered with an error.
	MaxChannels int
}

// DefaultMaxChannels is the default of ServerCore.MaxChannels: a waiting request costs some 300 bytes, so that a peer can
// make a connection cost 40 MB at most.
const DefaultMaxChannels = 1 << 17

var _ ServerHandler = (*ServerCore)(nil)

// NewServerCore makes the core of a connection whose requests go to registry and whose frames go to out.
func NewServerCore(registry *Registry, out Outbound) *ServerCore {
	c := &ServerCore{registry: registry, out: out, sched: newScheduler(out), MaxChannels: DefaultMaxChannels,
		waiting: map[ChannelID]*waiter{}}
	c.flooder, _ = out.(Flooder)
	return c
}

func (c *ServerCore) flooded() bool { return c.flooder != nil && c.flooder.Flooded() }

// Flooder is an Outbound that knows when the peer asks for errors and does not read them. The connection then fails with
// ErrFlood, rather than keep them all.
type Flooder interface {
	Flooded() bool
}

// Run lets the readers send; see Scheduler.Run.
func (c *ServerCore) Run() (int, error) { return c.sched.Run() }

// Scheduler returns the connection's scheduler.
func (c *ServerCore) Scheduler() *Scheduler { return c.sched }

// Reader returns the reader of a channel, nil if there is none (also while it waits for its partition).
func (c *ServerCore) Reader(id ChannelID) *Reader { return c.readers.get(&id) }

// Readers returns the number of readers, and of requests that wait for their partition.
func (c *ServerCore) Readers() (readers, waiting int) { return c.readers.len(), len(c.waiting) }

// OnPartitionRequest opens a reader, or waits for the partition; nothing is sent then. Any error is answered without
// closing the connection. Flink answers all of them in the form that a client takes for the end of the connection, and
// so do we: what it means to other channels is the client's affair.
func (c *ServerCore) OnPartitionRequest(r *PartitionRequest) error {
	if c.fatal {
		return nil
	}
	if r.Credit < 0 {
		return c.answer(&Throwable{Class: ClassIllegalArgument, Message: "Must be non-negative.", HasMessage: true})
	}
	if n := c.readers.len() + len(c.waiting); n >= c.MaxChannels {
		return c.answer(illegalState(fmt.Sprintf("Connection has %d channels, the limit.", n)))
	}
	if err := c.registry.attempts.outdated(r.Partition); err != nil { // it will not come again: no reason to wait, or to ask again
		if c.flooded() {
			return ErrFlood
		}
		c.out.WriteFrame(AppendErrorResponse(nil, AppendThrowable(nil, ClassIllegalState, err.Error()), r.Receiver, false))
		return nil
	}
	reader := &Reader{id: r.Receiver, sched: c.sched, credit: r.Credit, initial: r.Credit}
	if p := c.registry.Lookup(r.Partition); p != nil {
		if err := c.open(reader, p, r.Range); err != nil {
			return c.answer(err)
		}
		return nil
	}
	if c.waiting[r.Receiver] != nil {
		return c.answer(illegalState(fmt.Sprintf("Channel %s already waits for a partition.", r.Receiver)))
	}
	if g := c.registry; g.count >= g.cfg.MaxWaiting {
		return c.answer(illegalState(fmt.Sprintf("%d requests wait for their partitions, the limit.", g.count)))
	}
	subpartitions := r.Range
	w := &waiter{partition: r.Partition}
	w.found = func(p Served) {
		delete(c.waiting, reader.id)
		if err := c.open(reader, p, subpartitions); err != nil {
			_ = c.answer(err)
		}
	}
	w.gone = func(err error) {
		delete(c.waiting, reader.id)
		c.out.WriteFrame(AppendErrorResponse(nil, AppendThrowable(nil, ClassPartitionNotFound, err.Error()), reader.id, false))
	}
	c.waiting[reader.id] = w
	c.registry.wait(w)
	return nil
}

// open gives a reader its view and lets it send.
func (c *ServerCore) open(r *Reader, p Served, subpartitions SubpartitionRange) error {
	view, err := p.CreateView(subpartitions, r)
	if err != nil {
		return err
	}
	r.view = view
	if old := c.readers.get(&r.id); old != nil { // Flink forgets it without a word; it would never be released
		c.release(old)
	}
	c.readers.put(r.id, r)
	c.sched.notify(r)
	return nil
}

// answer reports an error that a request caused, in the form without a receiver. The connection stays open, unless too many of them
// are not read: that is the only error that it returns.
func (c *ServerCore) answer(err error) error {
	if c.flooded() {
		return ErrFlood
	}
	c.out.WriteFrame(AppendErrorResponse(nil, AppendThrowable(nil, requestClass(err), err.Error()), ChannelID{}, true))
	return nil
}

// requestClass is the Java class that Flink throws for what a request can do wrong.
func requestClass(err error) string {
	switch {
	case errors.Is(err, errConsumed), errors.Is(err, errNotBlocked), errors.Is(err, ErrReleased):
		return ClassIllegalState
	case errors.Is(err, errNoSubpartition):
		return ClassIllegalArgument
	}
	return classOf(err)
}

func illegalState(message string) error {
	return &Throwable{Class: ClassIllegalState, Message: message, HasMessage: true}
}

// known finds a reader, or answers that there is none. It returns nil also when the connection has failed.
func (c *ServerCore) known(id ChannelID) (*Reader, error) {
	if c.fatal {
		return nil, nil
	}
	r := c.readers.get(&id)
	if r == nil {
		return nil, c.answer(illegalState(fmt.Sprintf("No reader for receiverId = %s exists.", id)))
	}
	return r, nil
}

// OnAddCredit lets a reader send more.
func (c *ServerCore) OnAddCredit(id ChannelID, n int32) error {
	r, err := c.known(id)
	if r != nil {
		r.addCredit(n)
		c.sched.notify(r)
	}
	return err
}

// OnResumeConsumption ends the block of a reader. Without a block it is an error that is answered.
func (c *ServerCore) OnResumeConsumption(id ChannelID) error {
	r, err := c.known(id)
	if r == nil {
		return err
	}
	if err := r.resume(); err != nil {
		return c.answer(err)
	}
	c.sched.notify(r)
	return nil
}

// OnAckAllUserRecordsProcessed tells the partition.
func (c *ServerCore) OnAckAllUserRecordsProcessed(id ChannelID) error {
	r, err := c.known(id)
	if r != nil {
		r.view.AckAll()
	}
	return err
}

// OnNewBufferSize tells the writer. It may come before the reader exists and is ignored then.
func (c *ServerCore) OnNewBufferSize(id ChannelID, n int32) error {
	if r := c.readers.get(&id); r != nil && !c.fatal {
		r.view.NewBufferSize(n)
	}
	return nil
}

// OnSegmentID is ignored: no partition here has tiers.
func (c *ServerCore) OnSegmentID(ChannelID, int32, int32) error { return nil }

// OnCancelPartitionRequest releases a reader, or forgets a request that waits. An unknown one is ignored: a client
// cancels once for each late message.
func (c *ServerCore) OnCancelPartitionRequest(id ChannelID) error {
	if r := c.readers.get(&id); r != nil {
		r.leaves()
		c.release(r)
	}
	c.stopWaiting(id)
	return nil
}

// OnTaskEvent publishes an event to a producer.
func (c *ServerCore) OnTaskEvent(e *event.Event, partition *PartitionID, id ChannelID) error {
	if c.TaskEvent != nil && c.TaskEvent(e, partition) {
		return nil
	}
	if c.flooded() {
		return ErrFlood
	}
	c.out.WriteFrame(AppendErrorResponse(nil, AppendThrowable(nil, ClassIllegalArgument, "Task event receiver not found."), id, false))
	return nil
}

// OnCloseRequest releases everything; Feed returns ErrCloseRequested, and the driver closes the connection.
func (c *ServerCore) OnCloseRequest() error {
	for r := range c.readers.values() {
		r.leaves()
	}
	c.Disconnected()
	return ErrCloseRequested
}

// Fail ends the connection because of err: a malformed frame, a failed write, a broken invariant. All readers are released
// and, if the connection still takes it, the client is told; the driver then closes it once that was written.
func (c *ServerCore) Fail(err error) {
	if c.fatal {
		return
	}
	c.Disconnected()
	c.out.WriteFrame(AppendError(nil, err, ChannelID{}, true))
}

// Disconnected releases all readers and forgets all requests: the connection is gone. Their subpartitions count as
// consumed; there is no reconnect. It may be called again.
func (c *ServerCore) Disconnected() {
	c.fatal = true
	c.sched.stop()
	for r := range c.readers.values() {
		c.release(r)
	}
	for id := range c.waiting {
		c.stopWaiting(id)
	}
}

// release takes a reader out of everything.
func (c *ServerCore) release(r *Reader) {
	c.sched.dequeue(r)
	if c.readers.get(&r.id) == r {
		c.readers.remove(r.id)
	}
	r.view.Release()
}

func (c *ServerCore) stopWaiting(id ChannelID) {
	if w := c.waiting[id]; w != nil {
		delete(c.waiting, id)
		c.registry.drop(w)
	}
}
