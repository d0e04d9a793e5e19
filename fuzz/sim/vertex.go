package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// record is the identity of a record that was written: its number at its sender, and its length.
type record struct {
	serial uint64
	n      int
}

// appendValue appends the bytes of a record. Every byte depends on who sent it and which one it is.
func (v *vertex) appendValue(dst []byte, r record) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(v.stage<<8|v.index))
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.serial))
	for i := range r.n {
		dst = append(dst, byte(r.serial*31)+byte(i)+byte(v.index))
	}
	return dst
}

// appendWire appends a record as it lies in the stream of bytes of a channel.
func (v *vertex) appendWire(dst []byte, r record) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(1+4+r.n))
	dst = append(dst, 1) // a record without timestamp
	return v.appendValue(dst, r)
}

// phase is how far a task's output is.
type phase uint8

const (
	writing   phase = iota
	dataEnded       // the end of data was sent: waits for the acknowledgements
	finished        // the end of the partition was sent: waits for the consumers to go
	deserted        // they went
)

// vertex is one task: a source without an input, a sink without an output, or an operator with both.
type vertex struct {
	w            *world
	job          *job
	stage, index int
	name         string
	node         *node

	// State of the task: what a checkpoint takes.
	serial   uint64     // records made
	logs     [][]record // what was written to each subpartition
	consumed []int      // records taken from each channel
	backlog  int        // an operator's records that were taken and not yet written

	out     *output
	in      *input
	flights map[int64]*flight
	posted  []event.Barrier // a source's, from the coordinator

	declined []int64 // checkpoints for which a source is to send a cancel marker
	value    []byte
	scratch  []byte

	scheduled  bool
	stallUntil int64
	slow       int64 // what each turn takes
	wakeFn     func()
	waits      string // for what, in words
	dataEnds   bool   // the end of the data was read
	inputEnded bool
	left       bool // went before the end
	done       bool
	closed     bool
}

// output is the writing half of a task.
type output struct {
	pool   *segment.LocalPool
	part   *credit.Partition
	writer *credit.PartitionWriter
	rw     *serde.RecordWriter[*credit.PartitionWriter]
	phase  phase
	full   bool    // the last write found no memory
	asked  bool    // Reclaim was called for this wait
	settle []int64 // checkpoints whose barrier the loop may not have taken yet
}

// input is the reading half of a task.
type input struct {
	gate     *credit.Gate
	link     *credit.GateLink
	port     *credit.GatePort
	task     *task
	edges    []*edge
	releaser *segment.Releaser
}

func (v *vertex) receives() int {
	if v.consumed == nil {
		return 0
	}
	n := v.w.plan.floating
	for _, from := range v.job.stages[v.stage-1] {
		if !v.job.isLocal(from, v) {
			n += v.w.plan.exclusive
		}
	}
	return n
}

func (v *vertex) sends() int {
	if v.logs == nil {
		return 0
	}
	return len(v.logs) + 1
}

// openOutput makes the partition.
func (v *vertex) openOutput() {
	w, p := v.w, &v.w.plan
	o := &output{}
	v.out = o
	most := v.sends() + p.extra
	if p.extra == 0 {
		w.exp.TinyOutputs++
	}
	var err error
	o.pool, err = v.node.pool.NewLocal(segment.LocalConfig{Name: v.name, Purpose: segment.Send, Required: v.sends(), Max: most,
		Subpartitions: len(v.logs), Quota: p.quota, Overdraft: p.overdraft})
	v.node.must(err)
	v.node.must(o.pool.Reserve(context.Background(), v.sends())) // as weir's outputs do, and for the same reason; it is there
	o.part, o.writer, err = credit.NewPartition(credit.PartitionConfig{ID: partitionID(v.job.attempt, v.stage, v.index),
		Subpartitions: len(v.logs), Pool: o.pool, Segments: most + p.overdraft, Events: pick(w.rng, 1, 4, 0),
		Exclusive: p.exclusive, Profile: p.profile, Sink: (*sink)(v), Wake: v.node.wakeFromOutside})
	v.node.must(err)
	o.rw, err = serde.NewRecordWriter(o.writer, len(v.logs))
	v.node.must(err)
	delay := int64(0)
	if p.late {
		delay = w.rng.Int64N(60_000)
	}
	j := v.job
	w.after(delay, func() {
		if j.closed {
			return
		}
		v.node.post(func() {
			if !o.part.Released() { // it may have been killed meanwhile
				v.node.must(v.node.reg.Register(o.part))
			}
			v.node.sources = append(v.node.sources, o.part)
			for _, e := range j.order {
				if e.from == v && e.local != nil {
					v.connect(e)
				}
			}
			v.node.wake()
		})
	})
	if p.flushEvery > 0 {
		w.after(p.flushEvery, v.tick)
	}
}

// connect gives a local channel its view.
func (v *vertex) connect(e *edge) {
	view, err := v.out.part.CreateView(credit.One(int32(e.sub)), e.local)
	if err != nil {
		e.local.Fail(err)
		return
	}
	e.local.Connect(view)
}

// tick flushes what lies in buffers that are not full.
func (v *vertex) tick() {
	if v.job.closed || v.out.part.Done() {
		return
	}
	v.node.post(func() { v.out.part.FlushDirty() })
	v.w.after(v.w.plan.flushEvery, v.tick)
}

// openInput makes the gate and requests its channels.
func (v *vertex) openInput() {
	w, p, j := v.w, &v.w.plan, v.job
	if p.exclusive <= 1 {
		w.exp.TinyInputs++
	}
	in := &input{}
	v.in = in
	in.gate = credit.NewGate(credit.GateConfig{Channels: len(v.consumed), Sink: (*sink)(v), Guard: credit.GuardFail})
	in.link = in.gate.NewLink(max(v.receives(), 1)+len(v.consumed), v.node.wakeFromOutside)
	var err error
	in.port, err = credit.NewGatePort(credit.GatePortConfig{Link: in.link, Pool: v.node.recv, Floating: p.floating})
	v.node.must(err)
	v.node.sources = append(v.node.sources, in.port)
	if p.releaser {
		in.releaser = v.node.recv.Local().NewReleaser()
	}
	for ch, from := range j.stages[v.stage-1] {
		e := &edge{name: fmt.Sprintf("%s-%s", from.name, v.name), from: from, to: v, sub: v.index, ch: ch, since: w.now,
			id: channelID(j.attempt, from.stage<<8|from.index, v.stage<<8|v.index)}
		j.edges[e.id] = e
		j.order = append(j.order, e)
		in.edges = append(in.edges, e)
		in.gate.SetUpstream(ch, in.link)
		id := partitionID(j.attempt, from.stage, from.index)
		in.gate.Describe(ch, from.node.name, id, e.id)
		if j.isLocal(from, v) {
			e.local, err = in.port.NewLocalChannel(credit.LocalConfig{Index: ch, Partition: id, Range: credit.One(int32(v.index)), Window: 1 + w.rng.IntN(4)})
			v.node.must(err)
			w.exp.LocalChannels++
			if from.node.reg.Lookup(id) != nil {
				from.connect(e)
			}
			continue
		}
		e.remote, err = in.port.NewChannel(credit.RemoteConfig{Index: ch, ID: e.id, Partition: id, Range: credit.One(int32(v.index)), Exclusive: p.exclusive})
		v.node.must(err)
		e.client = v.node.dial(from.node)
		v.node.post(func() { e.client.request(e.remote) })
	}
	in.task = newTask(v)
}

func (v *vertex) stalled() bool { return v.w.now < v.stallUntil }

// waitsForOutput reports whether the task does not read because its output takes nothing.
func (v *vertex) waitsForOutput() bool { return v.out != nil && (v.out.full || v.out.rw.Pending()) }

func (v *vertex) waitsFor() string {
	s := v.waits
	if v.out != nil {
		s += fmt.Sprintf("; output in phase %d, memory %+v", v.out.phase, v.out.pool.Stats())
	}
	return s
}

// schedule lets the task run soon.
func (v *vertex) schedule() {
	if v.scheduled || v.closed {
		return
	}
	v.scheduled = true
	if v.slow > 0 {
		v.w.exp.Slow++
	}
	v.w.after(max(v.w.soon()+v.slow, v.stallUntil-v.w.now), v.step)
}

// step is one turn of the task: some records, then it looks whether it must wait.
func (v *vertex) step() {
	v.scheduled = false
	switch {
	case v.closed:
		return
	case v.stalled():
		v.schedule()
		return
	}
	if v.run() {
		v.schedule()
		return
	}
	if !v.done && !v.closed {
		v.sleep()
	}
}

// run does some work and reports whether there is more to do at once.
func (v *vertex) run() bool {
	if v.out != nil && v.job.killed {
		if _, cause := v.out.writer.Gone(); cause != nil {
			v.closed = true
			v.closeInput()
			v.job.fail(v, cause)
			return false
		}
	}
	if v.out != nil && !v.runOutput() {
		return v.readPriority() // an unaligned barrier does not wait for the output
	}
	if v.in == nil {
		return v.runSource()
	}
	more := v.runInput()
	if v.out == nil {
		if v.inputEnded && !v.done {
			v.done = true
			v.closeInput()
			v.job.coord.look()
		}
		return more
	}
	return v.endOutput() || more
}

// sleep prepares to be woken, looks once more, and leaves.
func (v *vertex) sleep() {
	if v.wakeFn == nil {
		v.wakeFn = func() {
			v.w.exp.Wakes++
			v.schedule()
		}
	}
	if v.in != nil && v.in.gate != nil {
		if v.in.releaser != nil && v.in.task != nil {
			v.in.releaser.Flush()
		}
		v.in.gate.Flush()
		v.in.gate.Notifier().PrepareHook(&v.wakeFn)
	}
	if v.out != nil {
		if waits := v.waitsForOutput(); waits != v.out.asked {
			if v.out.asked = waits; waits {
				v.out.writer.Reclaim() // once for each wait
			}
		}
		v.out.writer.Publish()
		v.out.pool.Notifier().PrepareHook(&v.wakeFn)
	}
	if v.ready() {
		if v.in != nil {
			v.in.gate.Notifier().CancelHook()
		}
		if v.out != nil {
			v.out.pool.Notifier().CancelHook()
		}
		v.schedule()
	}
}

// ready reports whether the task has something to do.
func (v *vertex) ready() bool {
	if o := v.out; o != nil {
		if o.rw.Pending() {
			return !errors.Is(o.resume(), serde.ErrUnfinished) || o.writer.Deserted()
		}
		switch {
		case len(v.posted) > 0 || len(v.declined) > 0 && o.phase < finished:
			return true
		case len(o.settle) > 0 && o.writer.Publish():
			return true
		case o.phase == writing && o.full:
			if v.in != nil && (v.in.gate.HasPriority() || v.in.task.due >= 0) {
				return true
			}
			return o.pool.Available() || o.writer.Deserted()
		case o.phase == dataEnded && o.writer.Settled() && (v.in == nil || v.inputEnded):
			return true
		case o.phase == finished && o.writer.Deserted():
			return true
		}
	}
	return v.in != nil && !v.inputEnded && (v.in.task.due >= 0 || v.in.task.in.Available())
}

// close ends the task, done or not.
func (v *vertex) close() {
	v.closed = true
	v.closeInput()
	if v.out != nil {
		v.out.rw.Close()
		v.out.writer.Close()
	}
}

func (v *vertex) closeInput() {
	if v.in == nil || v.in.task == nil {
		return
	}
	v.in.task.close()
	v.in.task.in.Close()
	if v.in.releaser != nil {
		v.in.releaser.Close()
	}
	v.in.task = nil
	v.in.gate.Close()
}

// closeLoop ends the loop's halves.
func (v *vertex) closeLoop() {
	if v.out != nil {
		v.out.part.Release()
		for all := false; !all; { // what found no room in the ring must go, too
			all = v.out.writer.Publish()
			v.out.part.Poll()
		}
		v.out.pool.Close()
	}
	if v.in != nil {
		v.in.port.Close()
	}
}

func (v *vertex) checkClosed() {
	if v.in != nil {
		if n := v.in.port.Budget().Out(); n != 0 {
			v.w.violate("%s: %d floating buffers did not come back", v.name, n)
		}
	}
	if v.out != nil && !v.out.part.Done() {
		v.w.violate("%s: the partition is not done after the end", v.name)
	}
}

// clockNow is the virtual clock as an aligner reads it.
func (w *world) clockNow() align.Now { return align.Now{Millis: w.now / 1000, Nanos: w.now * 1000} }
