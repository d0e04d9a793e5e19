package segment

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
	Listeners int
	Over      int // subpartitions at or over their quota
}

// published is what others may read of a LocalPool.
type published struct{}

func (l *LocalPool) publish() {}

// Stats returns the present state. Owner only; it allocates nothing.
func (l *LocalPool) Stats() Usage {
	return Usage{Name: l.cfg.Name, Purpose: l.cfg.Purpose, Required: l.cfg.Required, Max: l.cfg.Max, Size: l.size,
		Requested: l.requested, Idle: len(l.idle), InUse: l.requested - len(l.idle), Overdraft: max(l.requested-l.size, 0),
		Listeners: len(l.listeners), Over: l.over}
}
