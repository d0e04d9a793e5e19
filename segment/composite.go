package segment

import (
	"errors"
	"fmt"
)

// ErrComposite: a part does not fit into a Composite.
var ErrComposite = errors.New("segment: part does not fit")

// Composite collects the parts of one transport buffer that arrives in pieces (Flink: CompositeBuffer), or several whole
// buffers that travel as one (Flink: FullyFilledBuffer). It holds the references of its parts and gives each up once. It
// belongs to one goroutine; its list of parts is kept for the next use, so that it allocates nothing in steady state.
type Composite struct {
	parts      []Buffer
	typ        DataType
	compressed bool
	want, have int
	same       bool
}

// Reset releases what is left and starts a buffer of n bytes. Parts take over its type and flag.
func (c *Composite) Reset(t DataType, compressed bool, n int) {
	c.Release()
	c.typ, c.compressed, c.want, c.same = t, compressed, n, false
}

// ResetSame releases what is left and starts a buffer of up to n bytes, whose parts must have the given type and flag
// already.
func (c *Composite) ResetSame(t DataType, compressed bool, n int) {
	c.Reset(t, compressed, n)
	c.same = true
}

// Add appends b and takes its reference over. On an error, which wraps ErrComposite, b stays the caller's and nothing was
// changed.
func (c *Composite) Add(b Buffer) error {
	switch {
	case b.IsZero():
		return fmt.Errorf("%w: no buffer", ErrComposite)
	case b.Len() > c.want-c.have:
		return fmt.Errorf("%w: %d bytes where %d are missing", ErrComposite, b.Len(), c.want-c.have)
	case c.same && (b.Type() != c.typ || b.Compressed() != c.compressed):
		return fmt.Errorf("%w: %v, compressed %v, among %v, compressed %v", ErrComposite, b.Type(), b.Compressed(), c.typ, c.compressed)
	}
	c.parts = append(c.parts, b.WithType(c.typ).WithCompressed(c.compressed))
	c.have += b.Len()
	return nil
}

// Len returns how many bytes are there.
func (c *Composite) Len() int { return c.have }

// Missing returns how many bytes are not there yet.
func (c *Composite) Missing() int { return c.want - c.have }

// Parts returns the parts, whose references stay the Composite's. Valid until the next call that changes it.
func (c *Composite) Parts() []Buffer { return c.parts }

// Whole returns the bytes as one buffer and empties the Composite. A single part is returned as it is, and target stays
// the caller's (used is false). Several are copied into target's segment and released; then the result is target's
// handle. On an error, ErrRange if target is too small or ErrComposite if there are no parts or target can't be
// written, nothing was changed.
func (c *Composite) Whole(target Buffer) (b Buffer, used bool, err error) {
	switch len(c.parts) {
	case 0:
		return Buffer{}, false, fmt.Errorf("%w: no parts", ErrComposite)
	case 1:
		b = c.parts[0]
		c.forget()
		return b, false, nil
	}
	if target.IsZero() || target.ReadOnly() {
		return Buffer{}, false, fmt.Errorf("%w: target can't be written", ErrComposite)
	}
	mem := target.Memory()
	if c.have > len(mem) {
		return Buffer{}, false, ErrRange
	}
	n := 0
	for _, p := range c.parts {
		n += copy(mem[n:], p.Bytes())
	}
	b = target.Resized(n).WithType(c.typ).WithCompressed(c.compressed)
	c.Release()
	return b, true, nil
}

// Release releases all parts and empties the Composite. It may be called again.
func (c *Composite) Release() {
	for _, p := range c.parts {
		p.Release()
	}
	c.forget()
}

func (c *Composite) forget() {
	clear(c.parts)
	c.parts, c.have = c.parts[:0], 0
}
