package serde

import (
	"encoding/binary"
	"iter"

	"github.com/weirflow/weir/segment"
)

// Result says what one call of [Deserializer.Next] did: whether it handed out
// a record, and whether the buffer is used up (Flink:
// RecordDeserializer.DeserializationResult).
type Result uint8

const (
	// Partial: no whole record was left, the buffer is used up. The bytes of
	// the unfinished record are kept.
	Partial Result = iota
	// Intermediate: a record, and the buffer has more.
	Intermediate
	// Last: a record, and its last byte was the buffer's last.
	Last
)

// Record reports whether a record came with the result.
func (r Result) Record() bool { return r != Partial }

// Consumed reports whether the buffer is used up, so that the next call must
// be [Deserializer.SetBuffer].
func (r Result) Consumed() bool { return r != Intermediate }

// String gives Flink's name of the result.
func (r Result) String() string {
	switch r {
	case Partial:
		return "PARTIAL_RECORD"
	case Intermediate:
		return "INTERMEDIATE_RECORD_FROM_BUFFER"
	case Last:
		return "LAST_RECORD_FROM_BUFFER"
	}
	return "UNKNOWN_RESULT"
}

// lengthSize is the size of the length that precedes each record.
const lengthSize = 4

// Deserializer takes the records out of the buffers of one channel, as Flink's
// SpillingAdaptiveSpanningRecordDeserializer does. A record that lies inside a
// buffer is handed out where it lies; one that spans buffers is gathered in a
// reused array, or in a file when it is very large.
//
// Use: SetBuffer, then Next until its result says that the buffer is used up,
// then the next SetBuffer. When Next returned Last, call Done as soon as the
// record is no longer needed: the record lies in the buffer, and the buffer
// is the sender's next credit. (SetBuffer, Next, Clear and Close do it too.)
//
// A record is valid until the next call of any of these methods, and must not
// be written to. A Deserializer belongs to one goroutine; channels have one
// each. The methods on the path of records that fit allocate nothing.
//
// After an error the stream cannot be read on: the same error comes again until Clear.
type Deserializer struct {
	// The readable part of the current buffer is data[pos:]. Next's short path
	// looks at nothing else, so data is nil whenever something else has to be
	// done first.
	data  []byte
	pos   int
	limit uint   // longest record allowed, in bytes
	count uint64 // records handed out

	rest []byte // what follows the spanning record in the current buffer; becomes data
	buf  segment.Buffer
	hold hold
	err  error
	span spanning
	cfg  DeserializerConfig

	releaser *segment.Releaser // cfg's
}

// hold says why buf is held.
type hold uint8

const (
	holdNone    hold = iota // buf is the zero Buffer
	holdCurrent             // it is being read
	holdSpent               // it is used up, but the last record handed out lies in it
	holdClosed              // the deserializer is closed
)

// NewDeserializer returns a deserializer for one channel. It allocates its
// arrays when the first record spans.
func NewDeserializer(cfg DeserializerConfig) *Deserializer {
	d := &Deserializer{cfg: cfg.withDefaults()}
	d.limit = uint(d.cfg.MaxRecord)
	d.releaser = d.cfg.Releaser
	d.span.init(&d.cfg)
	return d
}

// SetBuffer gives the next buffer of the channel to read from. It takes
// ownership of b, whatever it returns. An empty buffer is legal; Next returns
// Partial for it.
//
// Errors: [ErrBufferPending] when the last buffer is not used up (b is
// released, the stream is not hurt), [ErrClosed], [ErrUnreadable]; and those of Next for a
// record that b continues, for example [ErrSpill] when a disk is full.
func (d *Deserializer) SetBuffer(b segment.Buffer) error {
	switch d.hold {
	case holdCurrent:
		d.release(b)
		return ErrBufferPending
	case holdClosed:
		d.release(b)
		return ErrClosed
	case holdSpent:
		d.releaseBuffer()
	}
	d.span.retire()
	d.buf, d.hold = b, holdCurrent
	if d.err != nil {
		return d.err
	}
	p := b.Bytes()
	if len(p) != b.Len() || b.Compressed() {
		return d.fail(ErrUnreadable)
	}
	if !d.span.active() {
		d.data, d.pos = p, 0
		return nil
	}
	rest, err := d.span.add(p)
	if err != nil {
		return d.fail(err)
	}
	d.rest = rest
	return nil
}

// Next returns the next record of the buffer, without its length. The record
// is valid until the next call, and nil unless the result says that there is
// one (a record of length 0 is empty but not nil).
//
// When the result says that the buffer is used up, the buffer has been
// released; after Last of a record that lies inside the buffer it is released
// by Done or the next call instead.
//
// Errors: [ErrNegativeLength], [ErrTooLarge], [ErrSpill], [ErrNoBuffer], all
// wrapped in a [*RecordError]. A length is checked before memory is taken for it.
func (d *Deserializer) Next() (rec []byte, res Result, err error) {
	if rec, ok := d.Whole(); ok {
		return rec, Intermediate, nil
	}
	return d.next()
}

// Whole is Next for the commonest case, small enough to be inlined: a record
// that lies inside the buffer and is not its last. Else it returns false and
// does nothing, and the caller goes on with Next. The record is valid until the next call.
func (d *Deserializer) Whole() (rec []byte, ok bool) {
	if p := d.data[d.pos:]; len(p) > lengthSize {
		if n := uint(binary.BigEndian.Uint32(p)); n < uint(len(p)-lengthSize) && n <= d.limit {
			d.pos += int(n) + lengthSize
			d.count++
			return p[lengthSize : lengthSize+n : lengthSize+n], true
		}
	}
	return nil, false
}

// WholeElement is Whole for streaming edges: it takes a record only if it is
// a stream record without timestamp, and returns its value, the bytes of the
// edge's type serializer. Else it does nothing: Next hands the record out with its tag.
func (d *Deserializer) WholeElement() (value []byte, ok bool) {
	if p := d.data[d.pos:]; len(p) > lengthSize && p[lengthSize] == tagRecord {
		if n := uint(binary.BigEndian.Uint32(p)); n-1 < uint(len(p)-lengthSize-1) && n <= d.limit { // n is not 0
			d.pos += int(n) + lengthSize
			d.count++
			return p[lengthSize+1 : lengthSize+n : lengthSize+n], true
		}
	}
	return nil, false
}

// Ahead returns what is left of the current buffer, for a caller that takes records out of it itself and tells by Took. It takes only
// whole records that have more bytes behind them and are not longer than DeserializerConfig.MaxRecord; Next does the rest, and
// Ahead is empty while Next has something else to do first. It is valid until the next call.
func (d *Deserializer) Ahead() []byte { return d.data[d.pos:] }

// Took tells that a record of n bytes, its length included, was taken off Ahead.
func (d *Deserializer) Took(n int) {
	d.pos += n
	d.count++
}

// next is all of Next that is not a whole record with more bytes behind it.
func (d *Deserializer) next() ([]byte, Result, error) {
	if d.err != nil {
		return nil, Partial, d.err
	}
	if d.hold != holdCurrent {
		d.Done()
		if d.hold == holdClosed {
			return nil, Partial, ErrClosed
		}
		return nil, Partial, ErrNoBuffer
	}
	if d.span.delivered {
		// The short path was held off so that the memory of a large record
		// goes back as soon as the record is no longer valid.
		d.span.retire()
		d.data, d.pos, d.rest = d.rest, 0, nil
		return d.Next()
	}
	if d.span.full() {
		return d.nextSpanning()
	}
	if d.span.active() { // SetBuffer took all of the buffer for it
		d.consumed()
		return nil, Partial, nil
	}
	p := d.data[d.pos:]
	if len(p) < lengthSize {
		// Nothing, or a part of a length.
		d.span.startLength(p)
		d.consumed()
		return nil, Partial, nil
	}
	length := binary.BigEndian.Uint32(p)
	p = p[lengthSize:]
	if err := d.cfg.checkLength(length); err != nil {
		return nil, Partial, d.fail(err)
	}
	n := int(length)
	if n == len(p) { // n < len(p) was taken by the short path
		d.data, d.pos = nil, 0
		d.hold = holdSpent
		d.count++
		return p[:n:n], Last, nil
	}
	if err := d.span.start(n, p); err != nil {
		return nil, Partial, d.fail(err)
	}
	d.consumed()
	return nil, Partial, nil
}

// nextSpanning hands out the record that the last SetBuffer completed.
func (d *Deserializer) nextSpanning() ([]byte, Result, error) {
	rec, err := d.span.record()
	if err != nil {
		return nil, Partial, d.fail(err)
	}
	d.count++
	if len(d.rest) == 0 {
		d.consumed()
		return rec, Last, nil
	}
	if !d.span.delivered {
		d.data, d.pos, d.rest = d.rest, 0, nil
	}
	return rec, Intermediate, nil
}

// consumed releases the current buffer, of which nothing is needed any more.
func (d *Deserializer) consumed() {
	d.data, d.pos, d.rest = nil, 0, nil
	d.releaseBuffer()
}

// Done says that the last record is no longer needed. If it was the last one
// of its buffer, the buffer is released; a large record's memory or file goes
// back. Call it when a record that came with Last has been processed, before waiting for more.
func (d *Deserializer) Done() {
	if d.hold == holdSpent {
		d.releaseBuffer()
	}
	if d.span.delivered {
		d.span.retire()
		d.data, d.pos, d.rest = d.rest, 0, nil
	}
}

func (d *Deserializer) releaseBuffer() {
	b := d.buf
	d.buf, d.hold = segment.Buffer{}, holdNone
	d.release(b)
}

func (d *Deserializer) release(b segment.Buffer) {
	if d.releaser != nil {
		d.releaser.Release(b)
		return
	}
	b.Release()
}

// Clear forgets everything: it releases the buffer, drops the record so far,
// deletes its file and ends an error. The next buffer starts with a record's
// length (Flink: at the end of the channel). It may be called at any time, also twice.
func (d *Deserializer) Clear() {
	d.data, d.pos, d.rest = nil, 0, nil
	d.span.reset()
	d.err = nil
	if d.hold == holdCurrent || d.hold == holdSpent {
		d.releaseBuffer()
	}
}

// Close is Clear for the last time; it also gives the reused array to the
// collector. It may be called twice. Iterators that [Deserializer.Unconsumed]
// returned stay valid.
func (d *Deserializer) Close() {
	d.Clear()
	d.span.scratch = nil
	d.hold = holdClosed
}

// Count returns how many records were handed out since the start. Clear does
// not reset it.
func (d *Deserializer) Count() uint64 { return d.count }

// NeedsBuffer reports whether the next call must be SetBuffer: there is no
// buffer, or all of it has been taken.
func (d *Deserializer) NeedsBuffer() bool { return d.hold != holdCurrent }

// Records sets b and yields its records, each valid until the next turn, and
// at last an error if there was one. b is taken over when the loop begins, and
// released at its end. When
// the caller breaks off, the rest of the buffer stays current: Next goes on with it.
func (d *Deserializer) Records(b segment.Buffer) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := d.SetBuffer(b); err != nil {
			yield(nil, err)
			return
		}
		for {
			if !d.yieldWhole(yield) {
				return
			}
			rec, res, err := d.Next()
			switch {
			case err != nil:
				yield(nil, err)
				return
			case res == Partial:
				return
			}
			if !yield(rec, nil) {
				return
			}
			if res == Last {
				d.Done()
				return
			}
		}
	}
}

// yieldWhole is Whole in a loop whose position is in a register; d.pos only
// follows it, for whoever looks at d meanwhile. It returns false when the
// caller of the iterator breaks off.
func (d *Deserializer) yieldWhole(yield func([]byte, error) bool) bool {
	data, pos, limit := d.data, d.pos, d.limit
	for {
		p := data[pos:]
		if len(p) <= lengthSize {
			return true
		}
		n := uint(binary.BigEndian.Uint32(p))
		if n >= uint(len(p)-lengthSize) || n > limit {
			return true
		}
		pos += int(n) + lengthSize
		d.pos = pos
		d.count++
		if !yield(p[lengthSize:lengthSize+n:lengthSize+n], nil) {
			return false
		}
		if d.pos != pos { // the loop's body used d; go on from where it is now
			return true
		}
	}
}

// fail makes err final until Clear.
func (d *Deserializer) fail(err error) error {
	d.err = d.recordError(err)
	d.data, d.pos, d.rest = nil, 0, nil
	return d.err
}
