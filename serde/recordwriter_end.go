package serde

import (
	"fmt"

	"github.com/weirflow/weir/segment"
)

// FinishBuffers finishes all open buffers, so that their readers may take them
// to the end: at a flush of a blocking partition, and before whatever is put
// into the queues past the writer. [ErrUnfinished] within a record.
func (w *RecordWriter[O]) FinishBuffers() error {
	if w.op.begun {
		return ErrUnfinished
	}
	w.finishUnicast()
	w.finishShared()
	return nil
}

// BroadcastEvent finishes all open buffers and hands the event to each
// subpartition, as it is: encoded, padded and with its data type. It takes
// over one reference of b if it returns nil. Errors: [ErrUnfinished] within a
// record, which an event never splits; [ErrFinished].
func (w *RecordWriter[O]) BroadcastEvent(b segment.Buffer) error {
	if err := w.eventAllowed(); err != nil {
		return err
	}
	w.finishUnicast()
	w.finishShared()
	for sub := range w.slots {
		w.out.AddEvent(sub, b.Retain())
	}
	b.Release()
	return nil
}

// WriteEvent is BroadcastEvent for one subpartition: it finishes the open
// buffer of sub, or the shared one.
func (w *RecordWriter[O]) WriteEvent(sub int, b segment.Buffer) error {
	if err := w.eventAllowed(); err != nil {
		return err
	}
	if sub < 0 || sub >= len(w.slots) {
		return fmt.Errorf("%w: %d of %d", ErrSubpartition, sub, len(w.slots))
	}
	w.finish(&w.slots[sub])
	w.finishShared()
	w.out.AddEvent(sub, b)
	return nil
}

func (w *RecordWriter[O]) eventAllowed() error {
	if w.op.begun {
		return ErrUnfinished
	}
	if w.finished {
		return ErrFinished
	}
	return nil
}

// Finish hands the last event, end of partition, to each subpartition; after
// it nothing can be written. It takes over b's reference if it returns nil.
func (w *RecordWriter[O]) Finish(b segment.Buffer) error {
	if err := w.BroadcastEvent(b); err != nil {
		return err
	}
	w.finished = true
	w.open = nil
	w.unshare()
	return nil
}

// Flush makes what was written to sub visible to its reader now. It does not
// finish the buffer: writing goes on in it.
func (w *RecordWriter[O]) Flush(sub int) {
	if sub >= 0 && sub < len(w.slots) {
		w.out.Flush(sub)
	}
}

// FlushAll is Flush for each subpartition.
func (w *RecordWriter[O]) FlushAll() {
	for sub := range w.slots {
		w.out.Flush(sub)
	}
}

// Close gives up the open buffers without finishing them: their readers see
// what was written and no end. It may be called twice.
func (w *RecordWriter[O]) Close() {
	w.finished = true
	w.open = nil
	w.op = writeOp{}
	w.broadcast = false
	w.unshare()
	closeBuilder(&w.shared)
	for i := range w.slots {
		closeBuilder(&w.slots[i])
	}
}

func closeBuilder(b *segment.Builder) {
	if isOpen(b) {
		b.Close()
		*b = segment.Builder{}
	}
}
