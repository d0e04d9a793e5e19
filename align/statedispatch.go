package align

import (
	"fmt"

	"github.com/weirflow/weir/segment"
)

// requestKind is what is asked of the writer of channel state (Flink: ChannelStateWriteRequest and its subclasses).
type requestKind uint8

const (
	askRegister requestKind = iota
	askRelease
	askStart
	askWrite
	askPromise // a write whose buffers come later
	askComplete
	askAbort
)

var requestNames = [...]string{"Register", "Release", "Start", "write", "writeOutputFuture", "complete", "Abort"}

// stateRequest is one request. It owns references on bufs.
type stateRequest struct {
	kind    requestKind
	id      int64
	subtask int32
	channel StateChannel
	output  bool
	bufs    []segment.Buffer
	result  *StateResult // askStart
	cause   error        // askAbort, and a promise that was broken
	pending bool         // askPromise: not kept or broken yet
	dead    bool         // cancelled
}

func (r *stateRequest) String() string {
	return fmt.Sprintf("%s(checkpoint %d, subtask %d)", requestNames[r.kind], r.id, r.subtask)
}

// cancel gives back what the request holds and fails its result, if it has one.
func (r *stateRequest) cancel(cause error) {
	r.dead = true
	for _, b := range r.bufs {
		b.Release()
	}
	r.bufs = nil
	if r.result != nil {
		r.result.fail(cause)
	}
}

// stateDispatcher decides what becomes of each request, in their order (Flink: ChannelStateWriteRequestDispatcherImpl). It
// has no goroutine; its store does the I/O.
type stateDispatcher struct {
	store      StateStore
	decompress func(segment.Buffer) (segment.Buffer, error)

	registered map[int32]bool
	ongoing    int64 // newest checkpoint that was started, -1 at first
	file       *stateFile

	aborted      int64 // newest checkpoint that was aborted, -1 at first
	abortedBy    int32
	abortedCause error
}

func newStateDispatcher(store StateStore, decompress func(segment.Buffer) (segment.Buffer, error)) *stateDispatcher {
	return &stateDispatcher{store: store, decompress: decompress, registered: map[int32]bool{}, ongoing: -1, aborted: -1}
}

// dispatch deals with one request. An error cancelled the request and must stop the writer.
func (d *stateDispatcher) dispatch(r *stateRequest) error {
	err := d.deal(r)
	if err != nil {
		err = fmt.Errorf("align: %v: %w", r, err)
		r.cancel(err)
	}
	return err
}

func (d *stateDispatcher) deal(r *stateRequest) error {
	switch r.kind {
	case askRegister:
		if d.registered[r.subtask] {
			return fmt.Errorf("%w: registered already", ErrState)
		}
		d.registered[r.subtask] = true
		return nil
	case askRelease:
		delete(d.registered, r.subtask)
		if d.file != nil {
			d.file.release(r.subtask)
		}
		return nil
	}
	if r.id < d.ongoing || r.id <= d.aborted {
		d.cancelAborted(r)
		return nil
	}
	switch r.kind {
	case askStart:
		return d.start(r)
	case askAbort:
		return d.abort(r)
	}
	if d.file == nil || d.ongoing != r.id {
		return fmt.Errorf("%w: writer not found", ErrState)
	}
	switch r.kind {
	case askWrite, askPromise:
		if r.cause != nil {
			d.file.fail(r.subtask, r.cause)
			return nil
		}
		return d.write(r)
	case askComplete:
		return d.file.complete(r.subtask, r.output)
	}
	return nil
}

// cancelAborted says why nothing comes of a request whose checkpoint is over.
func (d *stateDispatcher) cancelAborted(r *stateRequest) {
	switch {
	case r.id != d.aborted:
		r.cancel(&CheckpointError{Reason: ReasonSubsumed, Newer: max(d.ongoing, d.aborted)})
	case r.subtask == d.abortedBy:
		r.cancel(d.abortedCause)
	default:
		r.cancel(&CheckpointError{Reason: ReasonSharedStream, Err: d.abortedCause})
	}
}

func (d *stateDispatcher) start(r *stateRequest) error {
	if r.id > d.ongoing {
		d.drop(-1, &CheckpointError{Reason: ReasonSubsumed, Newer: r.id})
		d.ongoing = r.id
	}
	if d.file == nil {
		f, err := newStateFile(d.store, r.id, d.registered)
		if err != nil {
			// No file, no checkpoint; later ones may work.
			d.aborted, d.abortedBy, d.abortedCause = r.id, r.subtask, err
			r.cancel(err)
			return nil
		}
		d.file = f
	}
	return d.file.start(r.subtask, r.result)
}

func (d *stateDispatcher) abort(r *stateRequest) error {
	d.aborted, d.abortedBy, d.abortedCause = r.id, r.subtask, r.cause
	if r.id == d.ongoing {
		d.drop(r.subtask, r.cause)
	} else {
		d.drop(-1, &CheckpointError{Reason: ReasonSubsumed, Newer: r.id})
	}
	return nil
}

func (d *stateDispatcher) drop(subtask int32, cause error) {
	if d.file != nil {
		d.file.fail(subtask, cause)
		d.file = nil
	}
}

// write writes the request's buffers, which must be data, and gives them back.
func (d *stateDispatcher) write(r *stateRequest) error {
	for len(r.bufs) > 0 {
		b := r.bufs[0]
		if b.IsZero() || b.Len() == 0 { // all of it was sent already
			b.Release()
			r.bufs = r.bufs[1:]
			continue
		}
		if !b.Type().IsBuffer() {
			return fmt.Errorf("%w: %v is no data", ErrState, b.Type())
		}
		r.bufs = r.bufs[1:]
		if b.Compressed() {
			if d.decompress == nil {
				b.Release()
				return fmt.Errorf("%w: compressed buffer", ErrState)
			}
			plain, err := d.decompress(b)
			if err != nil {
				d.file.fail(r.subtask, err)
				continue
			}
			b = plain
		}
		err := d.file.chunk(r.subtask, r.channel, r.output, b.Bytes())
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// close fails what is not finished.
func (d *stateDispatcher) close(cause error) { d.drop(-1, cause) }
