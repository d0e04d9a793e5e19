package sim

import (
	"bytes"
	"fmt"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// flight is what a task's channels hand over for one checkpoint.
type flight struct {
	in, out  [][]byte // by channel, by subpartition
	lastSeq  []int32
	promises int  // open
	received bool // all barriers are here, so in is complete
	sent     bool // the loop has taken the barriers, so out is complete but for promises
}

func (v *vertex) flight(id int64) *flight {
	f := v.flights[id]
	if f == nil {
		f = &flight{in: make([][]byte, len(v.consumed)), out: make([][]byte, len(v.logs)), lastSeq: make([]int32, len(v.consumed))}
		for i := range f.lastSeq {
			f.lastSeq[i] = -1
		}
		v.flights[id] = f
	}
	return f
}

// sink is where a task's gate and partition put in-flight data (credit.StateSink).
type sink vertex

// InputData is part of credit.InputSink.
func (s *sink) InputData(id int64, ch int, seq int32, b segment.Buffer) {
	v := (*vertex)(s)
	f := v.flight(id)
	if seq < f.lastSeq[ch] || seq >= 0 && seq == f.lastSeq[ch] {
		v.w.violate("%s: checkpoint %d, channel %d: buffer %d is handed over after %d", v.name, id, ch, seq, f.lastSeq[ch])
	}
	f.lastSeq[ch] = seq
	f.in[ch] = append(f.in[ch], b.Bytes()...)
	v.w.note(v.name, "persists input", int(id), ch, int(seq), b.Len())
}

// OutputData is part of credit.OutputSink.
func (s *sink) OutputData(id int64, sub int, bufs []segment.Buffer) {
	v := (*vertex)(s)
	for _, b := range bufs {
		v.flight(id).out[sub] = append(v.flight(id).out[sub], b.Bytes()...)
	}
	v.w.note(v.name, "persists output", int(id), sub, len(bufs))
}

// OutputPromise is part of credit.OutputSink.
func (s *sink) OutputPromise(id int64, _ int) {
	v := (*vertex)(s)
	v.flight(id).promises++
	v.w.exp.Promises++
}

// OutputKept is part of credit.OutputSink.
func (s *sink) OutputKept(id int64, sub int, bufs []segment.Buffer) {
	v := (*vertex)(s)
	v.flight(id).promises--
	if len(bufs) > 0 {
		v.w.exp.Overtaken++
		s.OutputData(id, sub, bufs)
	}
	v.job.coord.look()
}

// OutputBroken is part of credit.OutputSink.
func (s *sink) OutputBroken(id int64, _ int, _ error) {
	v := (*vertex)(s)
	v.flight(id).promises--
	v.w.exp.Broken++
	v.job.coord.abort(id, "promise broken at "+v.name) // the consumer has gone, if it was not given up before
}

// snapshot is the state of a task at a checkpoint.
type snapshot struct {
	serial   uint64
	backlog  int
	consumed []int
	emitted  []int
}

func (v *vertex) state() *snapshot {
	s := &snapshot{serial: v.serial, backlog: v.backlog, consumed: append([]int(nil), v.consumed...)}
	for _, l := range v.logs {
		s.emitted = append(s.emitted, len(l))
	}
	return s
}

// snapshot takes the task's state and sends the barrier on.
func (v *vertex) snapshot(b *event.Barrier) {
	v.job.coord.taken(v, b.ID)
	if v.out != nil && v.out.phase < finished {
		v.emitBarrier(*b)
	} else {
		v.flight(b.ID).sent = true
	}
	if v.in == nil {
		v.flight(b.ID).received = true
	}
	v.job.coord.look()
}

// coordinator starts checkpoints and looks whether they are consistent.
type coordinator struct {
	job     *job
	id      int64
	begun   int
	pending bool
	since   int64
	snaps   map[*vertex]*snapshot
	good    map[string]*snapshot // of the last one that was completed, by name; nil: none
	kills   int                  // since then
}

// tick starts a checkpoint, or gives one up that takes too long.
func (c *coordinator) tick() {
	j, w := c.job, c.job.w
	if j.closed || j.failed != nil || j.finished() {
		return
	}
	if c.pending {
		w.after(max(w.plan.interval, 20_000), c.tick)
		if w.now-c.since > w.plan.ckptLimit {
			w.exp.Expired++
			c.abort(c.id, "expired")
		}
		return
	}
	c.begun++
	slower := int64(1 + c.begun*c.begun/256) // or a stall would be filled with thousands of them
	w.after(slower*(w.plan.interval/2+w.rng.Int64N(w.plan.interval)), c.tick)
	c.begin()
}

// sources are those that can still send a barrier.
func (c *coordinator) sources() (live []*vertex) {
	for _, v := range c.job.stages[0] {
		if v.out.phase < finished && !v.closed {
			live = append(live, v)
		}
	}
	return live
}

// begin starts a checkpoint.
func (c *coordinator) begin() {
	w, live := c.job.w, c.sources()
	if len(live) == 0 {
		return
	}
	c.id++
	c.pending, c.since, c.snaps = true, w.now, map[*vertex]*snapshot{}
	w.note("job", "starts checkpoint", int(c.id))
	b := event.Barrier{ID: c.id, Timestamp: w.clockNow().Millis, Options: w.plan.mode.options(w.plan.alignLimit)}
	for _, v := range live {
		w.after(w.soon(), func() {
			v.posted = append(v.posted, b)
			v.schedule()
		})
	}
	if chance(w.rng, w.plan.ckptKills) {
		id, how := c.id, w.rng.IntN(3)
		w.after(1+w.rng.Int64N(w.plan.interval), func() { c.kill(id, how) })
	}
}

// abort gives a checkpoint up.
func (c *coordinator) abort(id int64, why string) {
	if !c.pending || c.id != id {
		return
	}
	c.pending = false
	c.job.w.note("job", "gives up: "+why, int(id))
	for _, v := range c.job.vertices {
		if v.out != nil {
			v.node.post(func() {
				if !v.job.closed {
					v.out.part.AbortCheckpoint(id, fmt.Errorf("checkpoint %d: %s", id, why))
				}
			})
		}
	}
}

// taken notes the state of a task.
func (c *coordinator) taken(v *vertex, id int64) {
	if !c.pending || c.id != id {
		return // given up meanwhile
	}
	if c.snaps[v] != nil {
		c.job.w.violate("%s takes checkpoint %d twice", v.name, id)
	}
	c.snaps[v] = v.state()
}

// look completes the checkpoint if nothing is missing.
func (c *coordinator) look() {
	if !c.pending || c.job.closed || c.job.failed != nil {
		return
	}
	for _, v := range c.job.vertices {
		f := v.flight(c.id)
		switch {
		case c.snaps[v] == nil:
			if !v.ended() {
				return
			}
		case !f.received && !v.inputEnded, !f.sent && !v.ended(), f.promises > 0:
			return
		}
	}
	c.pending = false
	c.complete()
}

// ended reports whether nothing of the task's state will change any more.
func (v *vertex) ended() bool {
	return (v.in == nil || v.inputEnded) && (v.out == nil || v.out.phase >= finished)
}

// complete checks a checkpoint: on each channel the records that the sender had written and those that the receiver had
// taken differ by what was persisted, and by nothing else.
func (c *coordinator) complete() {
	w := c.job.w
	good := map[string]*snapshot{}
	for _, v := range c.job.vertices {
		if good[v.name] = c.snaps[v]; c.snaps[v] == nil {
			good[v.name] = v.state()
		}
	}
	for _, e := range c.job.order {
		sent, taken := good[e.from.name].emitted[e.sub], good[e.to.name].consumed[e.ch]
		var stored []byte
		if f := e.to.flights[c.id]; f != nil {
			stored = append(stored, f.in[e.ch]...)
			w.exp.InputBytes[w.plan.mode] += len(f.in[e.ch])
		}
		if f := e.from.flights[c.id]; f != nil {
			stored = append(stored, f.out[e.sub]...)
			w.exp.OutputBytes[w.plan.mode] += len(f.out[e.sub])
		}
		if w.plan.mode == modeAtLeastOnce {
			w.exp.Ahead[w.plan.mode] += max(taken-sent, 0)
			if taken < sent || len(stored) > 0 {
				w.violate("%s: checkpoint %d: %d records were sent, %d taken, %d bytes persisted", e.name, c.id, sent, taken, len(stored))
			}
			continue
		}
		if taken > sent {
			w.violate("%s: checkpoint %d: %d records were sent before the barrier, %d taken", e.name, c.id, sent, taken)
		}
		var want []byte
		for _, r := range e.from.logs[e.sub][taken:sent] {
			want = e.from.appendWire(want, r)
		}
		if !bytes.Equal(want, stored) {
			w.violate("%s: checkpoint %d: %d records were sent, %d taken, and between them % x is persisted, want % x", e.name,
				c.id, sent, taken, stored, want)
		}
		w.exp.InFlight[w.plan.mode] += sent - taken
	}
	c.good = good
	if c.kills > 0 {
		w.exp.AfterKill[w.plan.mode]++
		c.kills = 0
	}
	for _, v := range c.job.vertices {
		for id := range v.flights {
			if id <= c.id {
				delete(v.flights, id)
			}
		}
	}
	w.exp.Checkpoints[w.plan.mode]++
	w.note("job", "completes checkpoint", int(c.id))
}

// restore puts the job where a checkpoint was; what was in flight counts as taken.
func (j *job) restore(last *job, good map[string]*snapshot) {
	if good == nil {
		return
	}
	for i, v := range j.vertices {
		s := good[v.name]
		v.serial, v.backlog = s.serial, s.backlog
		for sub := range v.logs {
			v.logs[sub] = append(v.logs[sub], last.vertices[i].logs[sub][:s.emitted[sub]]...)
		}
	}
	for _, v := range j.vertices {
		for ch := range v.consumed {
			from := j.stages[v.stage-1][ch]
			sent := good[from.name].emitted[v.index]
			if v.logs != nil {
				v.backlog += max(sent-good[v.name].consumed[ch], 0)
			}
			v.consumed[ch] = sent
			j.w.exp.Replayed[j.w.plan.mode] += max(sent-good[v.name].consumed[ch], 0)
		}
	}
	j.w.exp.Restored[j.w.plan.mode]++
}
