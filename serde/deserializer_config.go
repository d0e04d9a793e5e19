package serde

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"github.com/weirflow/weir/segment"
)

const (
	// MaxRecordLength is the longest record that the length field and Java's
	// arrays allow, in bytes without the length.
	MaxRecordLength = math.MaxInt32 - lengthSize

	// DefaultSpillThreshold: a spanning record longer than this is kept in a
	// file (Flink: SpillingAdaptiveSpanningRecordDeserializer).
	DefaultSpillThreshold = 5 << 20
	// MinSpillThreshold: smaller thresholds are raised to it, as in Flink.
	MinSpillThreshold = 100 << 10
	// DefaultFileBuffer is the size of the pieces in which a spilled record is
	// given to a snapshot.
	DefaultFileBuffer = 2 << 20
	// MinFileBuffer: smaller sizes are raised to it, as in Flink.
	MinFileBuffer = 50 << 10
)

// Errors of the deserializer. They come wrapped in a [*RecordError] where a
// record is concerned.
var (
	// ErrNegativeLength: a length below zero. No correct peer sends one.
	ErrNegativeLength = errors.New("corrupt stream: negative record length")
	// ErrTooLarge: a record is longer than the limit, or it needs a file and
	// files are switched off.
	ErrTooLarge = errors.New("record too large")
	// ErrSpill: the file of a large record could not be made, written or read.
	ErrSpill = errors.New("cannot spill a large record")
	// ErrNoBuffer: Next without a buffer.
	ErrNoBuffer = errors.New("serde: no buffer to read from: call SetBuffer first")
	// ErrBufferPending: SetBuffer before the last buffer was used up.
	ErrBufferPending = errors.New("serde: the last buffer is not used up: call Next until its result says so, or Clear")
	// ErrUnreadable: a buffer that is compressed, or whose bytes are not in memory.
	ErrUnreadable = errors.New("buffer is compressed, file-backed or released")
	// ErrClosed: a call after Close.
	ErrClosed = errors.New("serde: deserializer is closed")
	// ErrBrokenSerialization: a reader took more or fewer bytes than its record
	// has. The text is Flink's.
	ErrBrokenSerialization = errors.New("Serializer consumed more bytes than the record had. " + //nolint:staticcheck // Flink's words
		"This indicates broken serialization. If you are using custom serialization types (Value or Writable), " +
		"check their serialization methods. If you are using a Kryo-serialized type, check the corresponding Kryo serializer.")
	// ErrUnderread: a reader took fewer bytes than its record has.
	ErrUnderread = errors.New("serializer consumed fewer bytes than the record had")
)

// DeserializerConfig sets up a [Deserializer]. The zero value has Flink's
// defaults.
type DeserializerConfig struct {
	// Channel names the channel in errors.
	Channel string
	// MaxRecord is the longest record allowed, in bytes; 0 is [MaxRecordLength].
	MaxRecord int
	// SpillThreshold: a spanning record longer than this many bytes goes to a
	// file; 0 is [DefaultSpillThreshold], at least [MinSpillThreshold]. A record
	// that lies inside one buffer is never spilled.
	SpillThreshold int
	// NoSpill refuses what would have to be spilled with [ErrTooLarge].
	NoSpill bool
	// SpillDirs are the directories of the files; none means [os.TempDir]. One
	// that fails is not used again while another is left.
	SpillDirs []string
	// FileBuffer is the size in bytes of the pieces that Unconsumed makes of a
	// spilled record; 0 is [DefaultFileBuffer], at least [MinFileBuffer].
	FileBuffer int
	// SkipUnread makes [ReadNext] skip what a reader left of its record; else it
	// is an error.
	SkipUnread bool
	// Releaser takes the buffers that are used up; it may be shared by all
	// deserializers of a goroutine. It holds them back until it has a batch or is
	// flushed: flush it before waiting for data. nil: each buffer goes back at once.
	Releaser *segment.Releaser
	// Random gives the numbers that name the files; nil is math/rand/v2.
	Random func() uint64

	// For tests: exact turns off the floors, keepName and noMap choose what
	// other systems do, openFile replaces the making of a file.
	exact, keepName, noMap bool
	openFile               func(name string) (*os.File, error)
}

// PerVirtualChannel is the configuration for one of n deserializers that share
// a channel during recovery: threshold and file buffer are split among them,
// down to the floors (Flink: RescalingStreamTaskNetworkInput).
func (c DeserializerConfig) PerVirtualChannel(n int) DeserializerConfig {
	c = c.withDefaults()
	if n > 1 {
		c.SpillThreshold /= n
		c.FileBuffer /= n
	}
	return c.withDefaults()
}

func (c DeserializerConfig) withDefaults() DeserializerConfig {
	if c.MaxRecord <= 0 || c.MaxRecord > MaxRecordLength {
		c.MaxRecord = MaxRecordLength
	}
	if c.SpillThreshold <= 0 {
		c.SpillThreshold = DefaultSpillThreshold
	}
	if c.FileBuffer <= 0 {
		c.FileBuffer = DefaultFileBuffer
	}
	if !c.exact {
		c.SpillThreshold = max(c.SpillThreshold, MinSpillThreshold)
		c.FileBuffer = max(c.FileBuffer, MinFileBuffer)
	}
	if c.Random == nil {
		c.Random = rand.Uint64
	}
	return c
}

// checkLength refuses a length before anything is done with it.
func (c *DeserializerConfig) checkLength(length uint32) error {
	if int32(length) < 0 {
		return fmt.Errorf("%w %d", ErrNegativeLength, int32(length))
	}
	if int(length) > c.MaxRecord {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, length, c.MaxRecord)
	}
	return nil
}

// RecordError says at which record of which channel reading failed.
type RecordError struct {
	// Channel is the name from the configuration.
	Channel string
	// Record is the number of the record in the channel, from 0.
	Record uint64
	// Err is what happened.
	Err error
}

func (e *RecordError) Error() string {
	if e.Channel == "" {
		return fmt.Sprintf("serde: record %d: %v", e.Record, e.Err)
	}
	return fmt.Sprintf("serde: can't get next record for channel %s: record %d: %v", e.Channel, e.Record, e.Err)
}

// Unwrap returns what happened.
func (e *RecordError) Unwrap() error { return e.Err }

func (d *Deserializer) recordError(err error) error {
	return &RecordError{Channel: d.cfg.Channel, Record: d.count, Err: err}
}

// LengthError says that a reader did not take exactly the bytes of its record.
type LengthError struct {
	// Length and Consumed are in bytes; Consumed is more than Length when the
	// reader wanted to read on.
	Length, Consumed int
}

func (e *LengthError) Error() string {
	if e.Consumed > e.Length {
		return fmt.Sprintf("record length %d, consumed %d: %v", e.Length, e.Consumed, ErrBrokenSerialization)
	}
	return fmt.Sprintf("record length %d, consumed %d: %v", e.Length, e.Consumed, ErrUnderread)
}

// Unwrap is [ErrBrokenSerialization] or [ErrUnderread].
func (e *LengthError) Unwrap() error {
	if e.Consumed > e.Length {
		return ErrBrokenSerialization
	}
	return ErrUnderread
}

// ReadNext takes the next record and has read decode it. read returns the
// value and how many bytes it took; it sees the record's bytes and no others,
// and returns a number larger than their count, or an error, when it needs
// more. A count that is not the record's length is an error (a [*LengthError]
// in a [*RecordError]); the stream stays in step, so the caller may go on with
// the next record. The value is the zero V unless the result has a record and err is nil.
func ReadNext[V any](d *Deserializer, read func(rec []byte) (v V, n int, err error)) (V, Result, error) {
	return ReadValue(d, decodeFunc[V](read))
}

type decodeFunc[V any] func(rec []byte) (V, int, error)

func (f decodeFunc[V]) Decode(rec []byte) (V, int, error) { return f(rec) }

// ValueDecoder is the reading half of a [Serializer].
type ValueDecoder[V any] interface {
	Decode(p []byte) (v V, n int, err error)
}

// ReadValue is ReadNext with a serializer as a type parameter, so that the
// call is direct. A record that ends too early for s is [ErrBrokenSerialization].
func ReadValue[V any, S ValueDecoder[V]](d *Deserializer, s S) (V, Result, error) {
	var none V
	rec, res, err := d.Next()
	if err != nil || res == Partial {
		return none, res, err
	}
	v, n, err := s.Decode(rec)
	switch {
	case err != nil:
		if errors.Is(err, ErrTruncated) {
			err = fmt.Errorf("record length %d: %w: %w", len(rec), err, ErrBrokenSerialization)
		}
	case n > len(rec), n < len(rec) && !d.cfg.SkipUnread:
		err = &LengthError{Length: len(rec), Consumed: n}
	}
	if err != nil {
		return none, res, &RecordError{Channel: d.cfg.Channel, Record: d.count - 1, Err: err}
	}
	return v, res, nil
}
