package task

// MultiInput reads several inputs for one operator, as a Selector says (Flink: StreamMultipleInputProcessor). Each call reads one
// element at most, so that the operator's selection is asked after each.
//
// Priority events are handled on all inputs, also on those that are not selected: an unaligned checkpoint waits for nobody.
type MultiInput struct {
	sel      *Selector
	procs    []*Processor
	last     int
	prepared bool
}

// NewMultiInput makes the processors of inputs, which NewInputs made together, and the selector over them; cfg.Inputs does not
// count. Errors as from NewSelector.
func NewMultiInput(op Operator, cfg SelectorConfig, inputs ...*Input) (*MultiInput, error) {
	cfg.Inputs = len(inputs)
	sel, err := NewSelector(cfg)
	if err != nil {
		return nil, err
	}
	m := &MultiInput{sel: sel, last: 1}
	for i, in := range inputs {
		m.procs = append(m.procs, NewProcessor(in, op, i, nil))
	}
	return m, nil
}

// Selector is the one that the inputs are chosen by.
func (m *MultiInput) Selector() *Selector { return m.sel }

// Process reads the next input for one element or event. It returns More, Nothing, EndOfData, Stopped or EndOfInput. Nothing is
// forgotten by Nothing: call it again when Available.
func (m *MultiInput) Process() (Status, error) {
	if !m.prepared {
		m.sel.Next()
		m.prepared = true
	}
	if err := m.procs[0].in.cp.processPriority(); err != nil {
		return Nothing, err
	}
	if st, err := m.notice(); st == More || err != nil {
		return st, err
	}
	if !m.sel.AnyAvailable() {
		m.look()
	}
	i := m.sel.Select(m.last)
	if i < 0 {
		if m.sel.Stuck() {
			return Nothing, ErrNoProgress
		}
		return Nothing, nil
	}
	if m.sel.Starving() {
		m.look()
	}
	m.last = i
	st, err := m.procs[i].Process()
	if err != nil {
		return Nothing, err
	}
	return m.sel.Update(st, i)
}

// notice tells of a checkpoint that priority events brought, whichever inputs are selected.
func (m *MultiInput) notice() (Status, error) {
	cp := m.procs[0].in.cp
	if len(cp.notices) == 0 {
		return Nothing, nil
	}
	cp.take()
	return More, m.procs[0].op.Notice(&cp.notice)
}

// look marks every input that has something.
func (m *MultiInput) look() {
	for i, p := range m.procs {
		if p.Available() {
			m.sel.SetAvailable(i)
		}
	}
}

// Available reports whether Process has something to do: an input that may be read has something, a priority event waits
// anywhere, or all has ended.
func (m *MultiInput) Available() bool {
	if !m.prepared || m.sel.AllFinished() {
		return true
	}
	for i, p := range m.procs {
		if p.in.gate.HasPriority() || m.sel.Selected(i) && p.Available() {
			return true
		}
	}
	return false
}

// Close closes all inputs.
func (m *MultiInput) Close() {
	for _, p := range m.procs {
		p.in.Close()
	}
}
