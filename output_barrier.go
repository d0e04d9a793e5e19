package weir

import (
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// Barrier posts a checkpoint barrier for all subpartitions. It goes out before the next record that is written, or with the
// next Flush or Finish. Any goroutine. Of a task's output it is the task's Trigger.
func (o *Output) Barrier(b Barrier) error {
	if o.closed.Load() {
		return o.error(ErrClosed)
	}
	if o.block != nil {
		return o.error(ErrBlocking)
	}
	if t := o.cfg.Task; t != nil {
		return t.Trigger(b)
	}
	o.postedMu.Lock()
	o.queue = append(o.queue, b)
	o.postedMu.Unlock()
	o.attention.Store(1)
	o.pool.Notifier().Wake() // a writer that waits for memory lets the barrier through
	o.node.loop.Wake()
	return nil
}

// serve sends posted barriers, and tells if there is nobody left to write to.
func (o *Output) serve() error {
	if o.half != nil {
		return o.half
	}
	if o.attention.Load() == 0 {
		return nil
	}
	if o.closed.Load() {
		return o.goneErr()
	}
	if !o.cfg.FlushEach {
		o.attention.Store(0) // before the looks below: what comes later sets it again
	}
	if err := o.serveBarriers(); err != nil {
		return err
	}
	if err := o.serveBlocking(); err != nil {
		return err
	}
	if o.gone() {
		o.attention.Store(1)
		return o.goneErr()
	}
	return nil
}

// serveBarriers sends posted barriers.
func (o *Output) serveBarriers() error {
	if t := o.cfg.Task; t != nil {
		if t.input != nil { // its Next does it, not a Write in the middle of an element
			return nil
		}
		return t.serve()
	}
	for {
		o.postedMu.Lock()
		if len(o.queue) == 0 {
			o.postedMu.Unlock()
			return nil
		}
		b := o.queue[0]
		o.queue = o.queue[1:]
		o.postedMu.Unlock()
		if err := o.emitBarrier(b, nil); err != nil {
			return err
		}
	}
}

// emit broadcasts an event behind everything that was written.
func (o *Output) emit(e *event.Event) error {
	if o.half != nil {
		return o.half
	}
	priority := e.Kind == event.CheckpointBarrier && e.Barrier.Options.IsUnaligned()
	b := segment.Wrap(event.AppendPadded(nil, e), event.DataTypeOf(e, priority))
	if err := o.w.BroadcastEvent(b); err != nil {
		b.Release()
		return o.error(err)
	}
	return nil
}
