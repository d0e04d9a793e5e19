package credit

import "fmt"

// OpenLocal gives a local channel the view of its partition: at once if that is registered, else when it is, however long
// that takes (LocalInputChannel#requestSubpartitions, whose requests are repeated instead). What goes wrong comes to the
// channel's task: ErrPartitionNotFound if the partition was released before it was there. The registry's timeout and limit are
// for peers, and do not count here; see LocalChannel.GiveUp. For the owner of both.
func (g *Registry) OpenLocal(l *LocalChannel) {
	if l.released || l.view != nil || l.err != nil || l.waits != nil {
		return
	}
	id := l.cfg.Partition
	if err := g.attempts.outdated(id); err != nil {
		l.Fail(err)
		return
	}
	if p := g.Lookup(id); p != nil {
		l.open(p)
		return
	}
	if g.closed {
		l.Fail(fmt.Errorf("%w: %w", ErrPartitionNotFound, errRegistryClosed))
		return
	}
	w := &waiter{partition: id, patient: true}
	w.found = func(p Served) {
		l.waits = nil
		l.open(p)
	}
	w.gone = func(error) {
		l.waits = nil
		l.Fail(ErrPartitionNotFound)
	}
	l.registry, l.waits = g, w
	g.wait(w)
}

// open asks a partition for the channel's view.
func (l *LocalChannel) open(p Served) {
	view, err := p.CreateView(l.cfg.Range, l)
	if err != nil {
		l.Fail(err)
		return
	}
	l.Connect(view)
}

// GiveUp ends the wait for a partition that is not there: the channel fails with ErrPartitionNotFound. A channel that has its
// view, or failed, is left alone.
func (l *LocalChannel) GiveUp() {
	if l.waits != nil {
		l.stopWaiting()
		l.Fail(ErrPartitionNotFound)
	}
}

func (l *LocalChannel) stopWaiting() {
	if l.waits != nil {
		l.registry.drop(l.waits)
		l.waits = nil
	}
}
