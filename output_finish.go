package weir

import "context"

// Finish ends the output: it sends the end of the data, waits until every consumer has processed all of it, ends all
// subpartitions and waits until the consumers have let go of them. The error says who is missing when ctx ends. Barriers that are
// posted meanwhile go out. Of a task's output it is the task's Finish. Of a blocking one it ends the file, and waits for no consumer.
func (o *Output) Finish(ctx context.Context) error {
	if t := o.cfg.Task; t != nil {
		return t.Finish(ctx)
	}
	if o.block != nil {
		return o.finishBlocking(ctx)
	}
	o.busy.begin()
	defer o.busy.end()
	if err := o.serve(); err != nil {
		return err
	}
	if err := o.endOfData(true); err != nil {
		return err
	}
	done := func() bool { return o.gone() || o.out.Settled() }
	ready := o.busy.looks(func() bool { return done() || o.wanted() })
	for settled := false; !settled; {
		if err := o.busy.wait(ctx, o.node, ready, o.pool.Notifier()); err != nil {
			return o.missing(err)
		}
		if o.closed.Load() {
			return o.goneErr()
		}
		settled = done()
		if err := o.serveBarriers(); err != nil {
			return err
		}
	}
	if err := o.endPartition(); err != nil {
		return err
	}
	return o.awaitGone(ctx)
}

// endPartition ends all subpartitions.
func (o *Output) endPartition() error {
	if o.closed.Load() {
		return o.goneErr()
	}
	if err := o.w.FinishBuffers(); err != nil {
		return o.error(err)
	}
	o.out.FinishAll()
	o.out.Close()
	return nil
}

// awaitGone waits until the consumers have let go of the partition.
func (o *Output) awaitGone(ctx context.Context) error {
	if err := o.busy.wait(ctx, o.node, o.busy.looks(o.gone), o.pool.Notifier()); err != nil {
		return o.missing(err)
	}
	if o.closed.Load() {
		return o.goneErr()
	}
	if lost := o.out.Lost(); len(lost) > 0 {
		return o.lostErr(lost)
	}
	return nil
}
