package sim

import "slices"

// plotMishaps decides what goes wrong in this attempt, and when.
func (j *job) plotMishaps() {
	w, p := j.w, &j.w.plan
	total := p.records * p.stages[0]
	add := func(what func()) {
		j.chaos = append(j.chaos, mishap{at: 1 + w.rng.IntN(total), what: what})
	}
	for range p.stalls {
		v := j.vertices[w.rng.IntN(len(j.vertices))]
		d := 25_000_000 + w.rng.Int64N(10_000_000)
		add(func() { v.stall(d) })
	}
	for range p.loopStalls {
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		d := 1_000 + w.rng.Int64N(3_000_000)
		add(func() {
			w.exp.LoopStalls++
			w.note(n.name, "loop stalls for", int(d))
			n.stallUntil = max(n.stallUntil, w.now+d)
		})
	}
	for range p.cuts {
		k := w.rng.IntN(1 << 20)
		d := 1_000 + w.rng.Int64N(5_000_000)
		add(func() {
			if c := j.liveConn(k); c != nil {
				c.cut(d)
			}
		})
	}
	if j.attempt < p.resets {
		k := w.rng.IntN(1 << 20)
		add(func() {
			if c := j.liveConn(k); c != nil {
				c.reset()
			}
		})
	}
	if j.attempt < p.kills {
		k, how := w.rng.IntN(1<<20), killer(w.rng.IntN(int(numKillers)))
		add(func() { w.after(w.soon(), func() { j.kill(k, how) }) })
	}
	for range p.leavers {
		sinks := j.stages[len(j.stages)-1]
		v := sinks[w.rng.IntN(len(sinks))]
		add(func() { w.after(w.soon(), v.leave) })
	}
	slices.SortStableFunc(j.chaos, func(a, b mishap) int { return a.at - b.at })
}

func (j *job) liveConn(k int) *connection {
	for i := range j.conns {
		if c := j.conns[(k+i)%len(j.conns)]; !c.dead() {
			return c
		}
	}
	return nil
}

// stall makes a task stay in user code for a while.
func (v *vertex) stall(d int64) {
	v.w.exp.Stalls++
	v.w.note(v.name, "stalls for", int(d))
	v.stallUntil = max(v.stallUntil, v.w.now+d)
	if v.out != nil && v.out.writer != nil {
		v.out.writer.Publish() // a writer calls it before it does anything that takes time
	}
}

// leave makes a sink go before the end: nobody will read what is still written for it, and nobody may wait for it.
func (v *vertex) leave() {
	if v.closed || v.done {
		return
	}
	for _, e := range v.in.edges {
		if !e.from.out.part.Subpartition(e.sub).HadView() {
			v.w.after(10_000, v.leave) // for one that never came a writer waits
			return
		}
	}
	v.w.exp.Left++
	v.w.note(v.name, "leaves")
	v.left, v.inputEnded, v.done = true, true, true
	v.closeInput()
}
