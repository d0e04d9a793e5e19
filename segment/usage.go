package segment

import "sync/atomic"

// Usage is a snapshot of a LocalPool, in segments.
type Usage struct {
	Name      string
	Purpose   Purpose
	Required  int // guaranteed
	Max       int
	Size      int // allowed at present, without overdraft
	Requested int // held, idle or handed out
	Idle      int
	InUse     int // Requested - Idle
	Overdraft int // held beyond Size
	Over      int // subpartitions at or over their quota
}

// PurposeUsage sums the local pools of one purpose, in segments.
type PurposeUsage struct {
	Pools, Required, Requested, Idle, InUse, Overdraft int
}

// PoolUsage is a snapshot of a Pool, in segments unless it says bytes.
type PoolUsage struct {
	Segments    int // the budget
	SegmentSize int // bytes
	Free        int // held by nobody, whether mapped at present or not
	Guaranteed  int // to local pools and unpooled requests
	Unpooled    int // of Request: handed out or waited for
	Blocked     int // calls of Request that wait
	LocalPools  int // open
	Closing     int // local pools that are closed and have segments out
	Slabs       int // mapped
	Memory      MemoryUsage
	Misuse      Misuse
	ByPurpose   [numPurposes]PurposeUsage // index by Purpose
}

// published is what the owner lets others read of a LocalPool. It is written when the owner drains, and when the pool
// fetches or gives back: not on every take, as each store would cost as much as the take.
type published struct {
	requested, idle, size, over atomic.Int32
}

// set stores v if it is new.
func set(a *atomic.Int32, v int) {
	if a.Load() != int32(v) {
		a.Store(int32(v))
	}
}

func (l *LocalPool) publish() {
	set(&l.seen.requested, l.requested)
	set(&l.seen.idle, l.idleCount())
	set(&l.seen.size, l.size)
	set(&l.seen.over, l.over)
}

func (l *LocalPool) idleCount() int {
	n := len(l.idle)
	if l.hot != nil {
		n++
	}
	return n
}

func (l *LocalPool) usage(requested, idle, size, over int) Usage {
	return Usage{Name: l.cfg.Name, Purpose: l.cfg.Purpose, Required: l.cfg.Required, Max: l.cfg.Max, Size: size,
		Requested: requested, Idle: idle, InUse: max(requested-idle, 0), Overdraft: max(requested-size, 0), Over: over}
}

// Stats returns the present state. It allocates nothing. For other goroutines see Pool.AppendUsage.
func (l *LocalPool) Stats() Usage {
	if l.isClosed {
		l.pool.mu.Lock()
		defer l.pool.mu.Unlock()
	}
	return l.usage(l.requested, l.idleCount(), l.size, l.over)
}

// Usage returns the present state of the pool, with the sums of local pools as their owners last published them (in
// Drain, and when they fetch or give back). Any goroutine may call it; it allocates nothing.
func (p *Pool) Usage() PoolUsage {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := PoolUsage{
		Segments:    p.cfg.Segments,
		SegmentSize: p.cfg.SegmentSize,
		Free:        p.cfg.Segments - p.mem.out,
		Guaranteed:  p.required,
		Unpooled:    p.unpooled,
		Blocked:     len(p.requests),
		LocalPools:  len(p.locals),
		Closing:     len(p.closing),
		Slabs:       p.mem.mapped,
		Memory:      p.mem.stats,
		Misuse:      p.misused.snapshot(),
	}
	for _, l := range p.locals {
		if l.cfg.Purpose < numPurposes {
			u.ByPurpose[l.cfg.Purpose].add(l.lastUsage())
		}
	}
	return u
}

// lastUsage is what the owner last published. The caller holds mu.
func (l *LocalPool) lastUsage() Usage {
	s := &l.seen
	return l.usage(int(s.requested.Load()), int(s.idle.Load()), int(s.size.Load()), int(s.over.Load()))
}

func (s *PurposeUsage) add(u Usage) {
	s.Pools++
	s.Required += u.Required
	s.Requested += u.Requested
	s.Idle += u.Idle
	s.InUse += u.InUse
	s.Overdraft += u.Overdraft
}

// AppendUsage appends what each open local pool last published to dst, in order of creation. Any goroutine may call it; it
// allocates nothing if dst has room.
func (p *Pool) AppendUsage(dst []Usage) []Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.locals {
		dst = append(dst, l.lastUsage())
	}
	return dst
}
