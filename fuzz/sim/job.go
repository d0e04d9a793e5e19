package sim

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/weirflow/weir/credit"
)

// edge is one channel: subpartition sub of a task is channel ch of another.
type edge struct {
	name     string
	id       credit.ChannelID
	from, to *vertex
	sub, ch  int
	remote   *credit.RemoteChannel // nil for a local channel
	local    *credit.LocalChannel
	client   *client
	wire     wire

	seen  int   // for the monitor: what arrived or was consumed at its last look
	since int64 // since when it could move and does not
}

// job is one attempt to run the whole graph.
type job struct {
	w        *world
	attempt  int
	vertices []*vertex
	stages   [][]*vertex
	edges    map[credit.ChannelID]*edge
	order    []*edge
	conns    []*connection
	failed   error
	closed   bool
	chaos    []mishap
	killed   bool // channels of this attempt were killed
	consumed int  // records in this attempt

	coord coordinator
}

// mishap is something that goes wrong once a number of records has been consumed.
type mishap struct {
	at   int
	what func()
}

// newJob makes the tasks of an attempt, with the state of the last good checkpoint of the one before.
func newJob(w *world, attempt int, last *job) *job {
	j := &job{w: w, attempt: attempt, edges: map[credit.ChannelID]*edge{}}
	for s, count := range w.plan.stages {
		var stage []*vertex
		for i := range count {
			v := &vertex{w: w, job: j, stage: s, index: i, name: fmt.Sprintf("s%d.%d", s, i), node: w.place(s, i)}
			v.flights = map[int64]*flight{}
			stage = append(stage, v)
			j.vertices = append(j.vertices, v)
		}
		j.stages = append(j.stages, stage)
	}
	for _, v := range j.vertices {
		if v.stage > 0 {
			v.consumed = make([]int, len(j.stages[v.stage-1]))
		}
		if v.stage+1 < len(j.stages) {
			v.logs = make([][]record, len(j.stages[v.stage+1]))
		}
	}
	j.coord.job = j
	if last != nil {
		j.coord.id = last.coord.id
		j.coord.good = last.coord.good
		j.restore(last, last.coord.good)
		w.note("job", "restarts", attempt)
	}
	return j
}

// place puts a task on a node, the same one in each attempt.
func (w *world) place(stage, index int) *node {
	return w.nodes[(stage*7+index*3+int(w.seed%5))%len(w.nodes)]
}

func (j *job) isLocal(from, to *vertex) bool { return j.w.plan.local && from.node == to.node }

// start makes everything and lets it run.
func (j *job) start() {
	p := &j.w.plan
	for _, n := range j.w.nodes {
		recv, send := 0, 0
		for _, v := range j.vertices {
			if v.node == n {
				recv += v.receives()
				send += v.sends()
			}
		}
		recv = max(recv, 1)
		n.provide(recv + send + p.extra)
		n.open(recv)
	}
	for _, v := range j.vertices {
		if v.logs != nil {
			v.openOutput()
		}
	}
	for _, v := range j.vertices {
		if v.consumed != nil {
			v.openInput()
		}
		v.schedule()
	}
	if p.slow {
		j.vertices[j.w.rng.IntN(len(j.vertices))].slow = 1 + j.w.rng.Int64N(10_000)
	}
	j.plotMishaps()
	j.w.after(monitorEvery, j.monitor)
	if p.mode != modeNone {
		j.w.after(1+j.w.rng.Int64N(p.interval), j.coord.tick)
	}
}

// channelID is the id of a channel, new in each attempt.
func channelID(attempt, from, to int) (id credit.ChannelID) {
	binary.BigEndian.PutUint32(id[4:], uint32(attempt)+1)
	binary.BigEndian.PutUint32(id[8:], uint32(from))
	binary.BigEndian.PutUint32(id[12:], uint32(to))
	return id
}

func partitionID(attempt, stage, index int) credit.PartitionID {
	return credit.MakePartitionID(credit.ID{1, byte(stage)}, int32(index), credit.ID{2}, credit.ID{3, byte(stage)}, int32(index), int32(attempt))
}

// finished reports whether every task is done.
func (j *job) finished() bool {
	for _, v := range j.vertices {
		if !v.done {
			return false
		}
	}
	return true
}

// fail ends the attempt.
func (j *job) fail(v *vertex, err error) {
	j.w.note(v.name, fmt.Sprint("fails: ", err))
	if j.failed == nil {
		j.failed = err
	}
}

// close ends all tasks and connections and looks whether all memory is home.
func (j *job) close() {
	if j.failed == nil {
		j.checkTotals()
	}
	// The tasks close, the loops go on for a while: they have to tell each other.
	for _, v := range j.vertices {
		v.close()
	}
	j.w.turnUntil(j.w.now + j.w.rng.Int64N(3_000))
	for _, c := range j.conns {
		c.a.close(nil)
		c.b.close(nil)
	}
	j.closed = true
	for _, v := range j.vertices {
		v.closeLoop()
	}
	for _, n := range j.w.nodes {
		for range 3 {
			for _, s := range n.sources {
				s.Poll()
			}
		}
	}
	for _, e := range j.order {
		if e.remote != nil && e.remote.Unread() != 0 {
			j.w.violate("%s: %d buffers have not come home", e.name, e.remote.Unread())
		}
	}
	for _, v := range j.vertices {
		v.checkClosed()
	}
	for _, n := range j.w.nodes {
		n.reg.Close()
		if r := n.recv.Reserved(); r != 0 {
			j.w.violate("%s: %d segments are still reserved", n.name, r)
		}
		n.recv.Close()
		n.checkHome()
		n.dropAll()
	}
}

// checkTotals checks that as many records came through as went in.
func (j *job) checkTotals() {
	for _, e := range j.order {
		if sent, got := len(e.from.logs[e.sub]), e.to.consumed[e.ch]; sent != got && !e.to.left {
			j.w.violate("%s: %d records were sent, %d were consumed", e.name, sent, got)
		}
	}
	for _, v := range j.vertices {
		if v.consumed == nil || v.logs == nil {
			continue
		}
		in := 0
		for _, n := range v.consumed {
			in += n
		}
		if out := int(v.serial); out != in && !(j.w.plan.mode == modeAtLeastOnce && out > in) {
			j.w.violate("%s: took %d records and made %d of them", v.name, in, out)
		}
	}
}

// standstill describes who waits for what.
func (j *job) standstill() string {
	var s strings.Builder
	for _, v := range j.vertices {
		if !v.done {
			fmt.Fprintf(&s, "\n  %s: %s", v.name, v.waitsFor())
		}
	}
	for _, e := range j.order {
		fmt.Fprintf(&s, "\n  %s", e.describe())
	}
	return s.String()
}

func (e *edge) describe() string {
	sub := e.from.out.part.Subpartition(e.sub)
	s := fmt.Sprintf("%s: sent %d, consumed %d; sender: queued %d, backlog %d, blocked %t, released %t", e.name,
		len(e.from.logs[e.sub]), e.to.consumed[e.ch], sub.Queued(), sub.Backlog(), sub.Blocked(), sub.Released())
	if e.remote != nil {
		l := e.remote.Ledger()
		s += fmt.Sprintf("; receiver: free %d+%d, required %d, unannounced %d, waiting %t, unread %d, queued %d; under way: credit %d, data %d",
			l.FreeExclusive(), l.FreeFloating(), l.Required(), l.Unannounced(), l.Waiting(), e.remote.Unread(), e.to.in.gate.Queued(e.ch),
			e.wire.credit, e.wire.data)
		if r := e.reader(); r != nil {
			s += fmt.Sprintf("; credit %d, in line %t", r.Credit(), r.Queued())
		}
	}
	return s
}

// reader is the sender's end of the channel, nil if it is not there.
func (e *edge) reader() *credit.Reader {
	if e.client == nil || e.client.server == nil {
		return nil
	}
	return e.client.server.core.Reader(e.id)
}

// consumedOne counts a record, and lets happen what is due.
func (j *job) consumedOne() {
	j.consumed++
	j.w.exp.Records++
	j.w.progress()
	for len(j.chaos) > 0 && j.chaos[0].at <= j.consumed {
		what := j.chaos[0].what
		j.chaos = j.chaos[1:]
		what()
	}
}
