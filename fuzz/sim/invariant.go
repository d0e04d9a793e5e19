package sim

// check looks at what must hold at any time.
func (j *job) check() {
	if j.closed {
		return
	}
	for _, e := range j.order {
		j.checkCredit(e)
	}
	for _, n := range j.w.nodes {
		if n.recv == nil {
			continue
		}
		if r, c := n.recv.Reserved(), n.recv.Capacity(); r > c {
			j.w.violate("%s: %d segments are promised, there are %d", n.name, r, c)
		}
	}
	j.checkMemory()
}

// checkCredit checks for one channel that the credit which the sender has, or will hear of, and the data under way never
// exceed the free buffers that the receiver holds for it.
func (j *job) checkCredit(e *edge) {
	c := e.remote
	if c == nil || c.Released() || c.Err() != nil || e.client == nil || e.client.failed || e.client.end == nil || e.client.end.conn.dead() {
		return
	}
	l := c.Ledger()
	sub := e.from.out.part.Subpartition(e.sub)
	if l.Initial() == 0 && sub.Blocked() {
		return // what credit it has left will be forgotten before it goes on
	}
	sum := l.Unannounced() + e.wire.credit + e.wire.data
	if r := e.reader(); r != nil {
		sum += r.Credit()
	}
	j.w.exp.CreditMost = max(j.w.exp.CreditMost, int(sum))
	if sum > l.Free() {
		j.w.violate("%s: credit without a buffer: %d > %d: %s", e.name, sum, l.Free(), e.describe())
	}
	if e.wire.data < 0 || e.wire.credit < 0 {
		j.w.violate("%s: more arrived than was sent: %s", e.name, e.describe())
	}
}

// checkMemory checks for each node that its receive pool has a segment for each free unit of credit.
func (j *job) checkMemory() {
	for _, n := range j.w.nodes {
		if n.recv == nil {
			continue
		}
		free, window := 0, 0
		for _, e := range j.order {
			if e.remote != nil && e.to.node == n && !e.remote.Released() {
				free += int(e.remote.Ledger().Free())
				window += int(e.remote.Ledger().Window())
			}
		}
		if free == 0 {
			continue
		}
		if idle := n.recv.Local().Stats().Idle; idle < free {
			j.w.violate("%s: %d units of credit are free, and %d segments", n.name, free, idle)
		}
		if r := n.recv.Reserved(); window > r {
			j.w.violate("%s: channels have %d units of credit, and %d are reserved", n.name, window, r)
		}
	}
}

const (
	monitorEvery = 20_000
	// heldLimit is how long a channel that can move may stand still, in µs: shorter than a stall.
	heldLimit = 20_000_000
)

// monitor looks now and then for channels that could move and do not, because of another one.
func (j *job) monitor() {
	if j.closed || j.failed != nil {
		return
	}
	w := j.w
	var moved, stuck map[*connection]bool
	for _, e := range j.order {
		now := e.wire.sent + e.wire.arrived + e.to.consumed[e.ch]
		advanced := now != e.seen
		e.seen = now
		if advanced || !e.couldMove() {
			e.since = w.now
		} else if w.now-e.since > heldLimit {
			w.violate("%s has stood still for %d ms although it could move: %s", e.name, (w.now-e.since)/1000, e.describe())
		}
		if e.client == nil || e.client.end == nil {
			continue
		}
		c := e.client.end.conn
		if advanced {
			set(&moved, c)
		} else if e.to.stalled() && e.from.out.part.Subpartition(e.sub).Queued() > 0 {
			set(&stuck, c)
		}
	}
	for c := range stuck {
		if moved[c] {
			w.exp.Beside++
		}
	}
	for _, v := range j.vertices {
		if v.out != nil {
			if v.out.pool.Stats().Overdraft > 0 {
				w.exp.Overdraft++
			}
			for s := range v.logs {
				if v.out.part.Subpartition(s).Blocked() {
					w.exp.Blocked++
				}
			}
		}
	}
	w.after(monitorEvery, j.monitor)
}

func set[K comparable](m *map[K]bool, k K) {
	if *m == nil {
		*m = map[K]bool{}
	}
	(*m)[k] = true
}

// couldMove reports whether the sender has something that may be sent, or the gate something to take, and nobody that
// belongs to this channel is held up.
func (e *edge) couldMove() bool {
	if e.to.stalled() || e.to.waitsForOutput() || e.to.node.w.now < e.to.node.stallUntil || e.to.node.w.now < e.from.node.stallUntil || e.to.done {
		return false
	}
	if e.to.in.gate.Queued(e.ch) > 0 {
		return true
	}
	if e.remote == nil {
		return false // seen as a standstill of the whole
	}
	r := e.reader()
	if r == nil || e.client.end.conn.dead() || e.client.end.node.w.now < e.client.end.conn.cutUntil {
		return false
	}
	ok, _ := r.View().Available(true)
	return ok
}
