package align

import (
	"errors"
	"fmt"
	"sync"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// DefaultSubtasksPerFile is how many subtasks share a file of channel state by default. Flink:
// execution.checkpointing.unaligned.max-subtasks-per-channel-state-file.
const DefaultSubtasksPerFile = 5

// maxStateResults bounds the results that a subtask keeps and nobody fetched.
const maxStateResults = 1000

// StateResult is what a subtask wrote for a checkpoint, once it is known (Flink: ChannelStateWriteResult). Any goroutine
// may use it.
type StateResult struct {
	done    chan struct{}
	once    sync.Once
	in, out []StateHandle
	err     error
}

func newStateResult() *StateResult { return &StateResult{done: make(chan struct{})} }

// Done is closed once the result is known.
func (r *StateResult) Done() <-chan struct{} { return r.done }

// Get waits for the result: the handles of input channels and of subpartitions that had something in flight.
func (r *StateResult) Get() (in, out []StateHandle, err error) {
	<-r.done
	return r.in, r.out, r.err
}

// Bytes is what was written, with length fields: Flink's bytesPersistedDuringAlignment. It waits for the result, and is 0
// if that is an error.
func (r *StateResult) Bytes() int64 {
	<-r.done
	n := int64(0)
	for _, hs := range [][]StateHandle{r.in, r.out} {
		for _, h := range hs {
			n += h.Size
		}
	}
	return n
}

func (r *StateResult) finish(in, out []StateHandle) {
	r.once.Do(func() { r.in, r.out = in, out; close(r.done) })
}

func (r *StateResult) fail(err error) { r.once.Do(func() { r.err = err; close(r.done) }) }

// StateExecutorConfig is what NewStateExecutor needs.
type StateExecutorConfig struct {
	Store StateStore
	// Subtasks is how many subtasks may share the files; 0: DefaultSubtasksPerFile.
	Subtasks int
	// Decompress is needed if compressed buffers can be in flight; it takes over its argument's reference.
	Decompress func(segment.Buffer) (segment.Buffer, error)
}

// StateExecutor writes the channel state of a group of subtasks: their requests go through one queue, and one goroutine
// (whoever calls Run) does the I/O. (Flink: ChannelStateWriteRequestExecutorImpl)
//
// None of this is on the path of records: it works only while an unaligned checkpoint runs.
type StateExecutor struct {
	cfg StateExecutorConfig

	mu       sync.Mutex
	wake     sync.Cond
	queue    ringbuf.Deque[*stateRequest] // ready, in order; aborts first
	unready  map[int32][]*stateRequest    // of each subtask: a promise that is open, and what came behind it
	subtasks map[int32]bool
	sealed   bool // no more subtasks
	stopped  bool
	err      error // what stopped it, nil if all subtasks were closed

	d *stateDispatcher // owned by Run
}

// NewStateExecutor makes one. Nothing is written before Run is called.
func NewStateExecutor(cfg StateExecutorConfig) *StateExecutor {
	if cfg.Subtasks <= 0 {
		cfg.Subtasks = DefaultSubtasksPerFile
	}
	e := &StateExecutor{cfg: cfg, unready: map[int32][]*stateRequest{}, subtasks: map[int32]bool{}}
	e.wake.L = &e.mu
	e.d = newStateDispatcher(cfg.Store, cfg.Decompress)
	return e
}

// Run writes until the last subtask is closed or a request fails in a way that no correct caller provokes. It returns
// what stopped it, nil for the first. It is to be called once.
func (e *StateExecutor) Run() error {
	for {
		e.mu.Lock()
		for e.queue.Len() == 0 && !e.stopped {
			e.wake.Wait()
		}
		r, ok := e.queue.PopFront()
		e.mu.Unlock()
		if !ok {
			e.d.close(ErrNotRunning)
			return nil
		}
		if err := e.d.dispatch(r); err != nil {
			e.stop(err)
			e.d.close(err)
			return err
		}
	}
}

// stop ends the executor and cancels what is queued.
func (e *StateExecutor) stop(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped, e.err = true, err
	e.queue.Clear(func(r *stateRequest) { r.cancel(err) })
	for _, rs := range e.unready {
		for _, r := range rs {
			r.cancel(err)
		}
	}
	e.unready = map[int32][]*stateRequest{}
	e.wake.Broadcast()
}

// Writer registers a subtask and makes its writer. No more than the configured number can be registered, and none after
// the first checkpoint started or a writer was closed; the error wraps ErrState.
func (e *StateExecutor) Writer(subtask int32) (*StateWriter, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.stopped:
		return nil, e.notRunning()
	case e.sealed:
		return nil, fmt.Errorf("%w: subtask %d comes too late to share the channel-state files", ErrState, subtask)
	case e.subtasks[subtask]:
		return nil, fmt.Errorf("%w: subtask %d is registered already", ErrState, subtask)
	}
	e.subtasks[subtask] = true
	e.sealed = len(e.subtasks) == e.cfg.Subtasks
	e.push(&stateRequest{kind: askRegister, subtask: subtask})
	return &StateWriter{e: e, subtask: subtask, results: map[int64]*StateResult{}, promises: map[promiseKey]*stateRequest{}}, nil
}

func (e *StateExecutor) notRunning() error {
	if e.err != nil {
		return fmt.Errorf("%w: %w", ErrNotRunning, e.err)
	}
	return ErrNotRunning
}

func (e *StateExecutor) push(r *stateRequest) {
	e.queue.PushBack(r)
	e.wake.Signal()
}

// submit queues a request behind those of its subtask. An error cancelled it.
func (e *StateExecutor) submit(r *stateRequest) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		err := e.notRunning()
		r.cancel(err)
		return err
	}
	if r.kind == askStart {
		e.sealed = true
	}
	if waiting := e.unready[r.subtask]; len(waiting) > 0 || r.pending {
		e.unready[r.subtask] = append(waiting, r)
		return nil
	}
	e.push(r)
	return nil
}

// submitFirst queues a request before all others.
func (e *StateExecutor) submitFirst(r *stateRequest) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		err := e.notRunning()
		r.cancel(err)
		return err
	}
	e.queue.PushPriority(r)
	e.wake.Signal()
	return nil
}

// settle ends the wait of a promise, and moves what is ready now to the queue.
func (e *StateExecutor) settle(r *stateRequest, bufs []segment.Buffer, cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.pending, r.bufs, r.cause = false, bufs, cause
	if e.stopped || r.dead {
		r.cancel(e.notRunning())
		return
	}
	waiting := e.unready[r.subtask]
	n := 0
	for n < len(waiting) && !waiting[n].pending {
		e.push(waiting[n])
		n++
	}
	if n == len(waiting) {
		delete(e.unready, r.subtask)
	} else {
		e.unready[r.subtask] = waiting[n:]
	}
}

func (e *StateExecutor) release(subtask int32) {
	e.mu.Lock()
	if !e.subtasks[subtask] {
		e.mu.Unlock()
		return
	}
	delete(e.subtasks, subtask)
	e.sealed = true
	if !e.stopped {
		// What the subtask still has queued behind an open promise will never be ready.
		for _, r := range e.unready[subtask] {
			r.cancel(ErrNotRunning)
		}
		delete(e.unready, subtask)
		e.push(&stateRequest{kind: askRelease, subtask: subtask})
	}
	last := len(e.subtasks) == 0 && !e.stopped
	if last {
		e.stopped = true
		e.wake.Broadcast()
	}
	e.mu.Unlock()
}

type promiseKey struct {
	id      int64
	channel StateChannel
}

// StateWriter is one subtask's way to write channel state (Flink: ChannelStateWriterImpl). Methods do not wait for I/O.
// They may be called by the task and by loops at once; an error means that the executor has stopped or that the call broke a
// rule, and buffers handed over were released.
type StateWriter struct {
	e       *StateExecutor
	subtask int32

	mu       sync.Mutex
	results  map[int64]*StateResult
	promises map[promiseKey]*stateRequest
	failed   error // of a call that cannot return it
}

// Start begins a checkpoint. Twice for one id, or with too many results that nobody fetched, wraps ErrState.
func (w *StateWriter) Start(id int64, _ event.Options) error {
	w.mu.Lock()
	if w.results[id] != nil {
		w.mu.Unlock()
		return fmt.Errorf("%w: checkpoint %d was started already", ErrState, id)
	}
	if len(w.results) >= maxStateResults {
		w.mu.Unlock()
		return fmt.Errorf("%w: results of %d checkpoints were not fetched", ErrState, maxStateResults)
	}
	r := newStateResult()
	w.results[id] = r
	w.mu.Unlock()
	return w.e.submit(&stateRequest{kind: askStart, id: id, subtask: w.subtask, result: r})
}

// AddInput writes buffers of an input channel, which it takes over.
func (w *StateWriter) AddInput(id int64, ch StateChannel, bufs ...segment.Buffer) error {
	return w.e.submit(&stateRequest{kind: askWrite, id: id, subtask: w.subtask, channel: ch, bufs: bufs})
}

// AddOutput writes buffers of a subpartition, which it takes over.
func (w *StateWriter) AddOutput(id int64, ch StateChannel, bufs ...segment.Buffer) error {
	return w.e.submit(&stateRequest{kind: askWrite, id: id, subtask: w.subtask, channel: ch, output: true, bufs: bufs})
}

// PromiseOutput says that buffers of a subpartition may follow, by KeepOutput or BreakOutput. Until then everything that
// the subtask submits afterwards waits.
func (w *StateWriter) PromiseOutput(id int64, ch StateChannel) error {
	r := &stateRequest{kind: askPromise, id: id, subtask: w.subtask, channel: ch, output: true, pending: true}
	w.mu.Lock()
	key := promiseKey{id, ch}
	if w.promises[key] != nil {
		w.mu.Unlock()
		return fmt.Errorf("%w: second promise of checkpoint %d for subpartition %v", ErrState, id, ch)
	}
	w.promises[key] = r
	w.mu.Unlock()
	return w.e.submit(r)
}

// KeepOutput brings what was promised; no buffers if the barrier left in order.
func (w *StateWriter) KeepOutput(id int64, ch StateChannel, bufs ...segment.Buffer) error {
	return w.settle(id, ch, bufs, nil)
}

// BreakOutput says that nothing will come. The checkpoint fails with that cause.
func (w *StateWriter) BreakOutput(id int64, ch StateChannel, cause error) error {
	if cause == nil {
		cause = errors.New("align: promised channel state does not come")
	}
	return w.settle(id, ch, nil, cause)
}

func (w *StateWriter) settle(id int64, ch StateChannel, bufs []segment.Buffer, cause error) error {
	w.mu.Lock()
	r := w.promises[promiseKey{id, ch}]
	delete(w.promises, promiseKey{id, ch})
	w.mu.Unlock()
	if r == nil {
		for _, b := range bufs {
			b.Release()
		}
		return fmt.Errorf("%w: no promise of checkpoint %d for subpartition %v", ErrState, id, ch)
	}
	w.e.settle(r, bufs, cause)
	return nil
}

// FinishInput says that all input of the checkpoint was handed over; FinishOutput, all output. Twice is an error that
// stops the executor.
func (w *StateWriter) FinishInput(id int64) error {
	return w.e.submit(&stateRequest{kind: askComplete, id: id, subtask: w.subtask})
}

// FinishOutput: see FinishInput.
func (w *StateWriter) FinishOutput(id int64) error {
	return w.e.submit(&stateRequest{kind: askComplete, id: id, subtask: w.subtask, output: true})
}

// Abort gives the checkpoint up. It goes before everything queued, so that no more is written in vain, and once more
// behind it, for what is being queued now. With forget its result is dropped.
func (w *StateWriter) Abort(id int64, cause error, forget bool) error {
	err := w.e.submitFirst(&stateRequest{kind: askAbort, id: id, subtask: w.subtask, cause: cause})
	if err == nil {
		err = w.e.submit(&stateRequest{kind: askAbort, id: id, subtask: w.subtask, cause: cause})
	}
	if forget {
		w.mu.Lock()
		delete(w.results, id)
		w.mu.Unlock()
	}
	return err
}

// Result takes the result of a checkpoint that was started. A second time, or for an unknown id, wraps ErrState.
func (w *StateWriter) Result(id int64) (*StateResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.results[id]
	if r == nil {
		return nil, fmt.Errorf("%w: no result of checkpoint %d", ErrState, id)
	}
	delete(w.results, id)
	return r, nil
}

// Err is the first error of a GateSink or PartitionSink of this writer, whose methods return none.
func (w *StateWriter) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

func (w *StateWriter) note(err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	if w.failed == nil {
		w.failed = err
	}
	w.mu.Unlock()
}

// Close ends the subtask's part. The executor stops with the last one.
func (w *StateWriter) Close() { w.e.release(w.subtask) }

// GateSink is what gate number gate hands its in-flight data to: a credit.InputSink.
func (w *StateWriter) GateSink(gate int32) GateSink { return GateSink{w, gate} }

// GateSink hands in-flight data of a gate's channels to a StateWriter.
type GateSink struct {
	w    *StateWriter
	gate int32
}

// InputData is part of credit.InputSink. What tells of several subpartitions in one channel is not data and not stored.
func (s GateSink) InputData(checkpoint int64, channel int, _ int32, b segment.Buffer) {
	if b.Type().IsBuffer() {
		s.w.note(s.w.AddInput(checkpoint, StateChannel{s.gate, int32(channel)}, b.Retain()))
	}
}

// PartitionSink is what partition number partition hands its in-flight data to: a credit.OutputSink.
func (w *StateWriter) PartitionSink(partition int32) PartitionSink {
	return PartitionSink{w, partition}
}

// PartitionSink hands in-flight data of a partition's subpartitions to a StateWriter.
type PartitionSink struct {
	w         *StateWriter
	partition int32
}

func (s PartitionSink) channel(sub int) StateChannel { return StateChannel{s.partition, int32(sub)} }

// OutputData is part of credit.OutputSink, and so are the methods below.
func (s PartitionSink) OutputData(checkpoint int64, sub int, bufs []segment.Buffer) {
	s.w.note(s.w.AddOutput(checkpoint, s.channel(sub), retained(bufs)...))
}

// OutputPromise announces data that may come.
func (s PartitionSink) OutputPromise(checkpoint int64, sub int) {
	s.w.note(s.w.PromiseOutput(checkpoint, s.channel(sub)))
}

// OutputKept brings it.
func (s PartitionSink) OutputKept(checkpoint int64, sub int, bufs []segment.Buffer) {
	s.w.note(s.w.KeepOutput(checkpoint, s.channel(sub), retained(bufs)...))
}

// OutputBroken tells that it does not come.
func (s PartitionSink) OutputBroken(checkpoint int64, sub int, cause error) {
	s.w.note(s.w.BreakOutput(checkpoint, s.channel(sub), cause))
}

func retained(bufs []segment.Buffer) []segment.Buffer {
	kept := make([]segment.Buffer, 0, len(bufs))
	for _, b := range bufs {
		if !b.IsZero() {
			kept = append(kept, b.Retain())
		}
	}
	return kept
}
