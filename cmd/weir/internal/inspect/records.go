package inspect

import (
	"errors"
	"fmt"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// maxVirtual bounds the virtual channels of a channel that restores its state.
const maxVirtual = 1024

var errMissing = errors.New("bytes before are missing")

// records takes the records out of a channel's data. While channel state is restored, several virtual channels share a
// channel, and each has a stream of records of its own (SubtaskConnectionDescriptor selects one).
type records struct {
	session *Session
	name    string
	main    *serde.Deserializer
	now     *serde.Deserializer
	virtual map[[2]int32]*serde.Deserializer
	err     error // why the records cannot be read on; said once
	said    bool
}

func newRecords(s *Session, name string) *records {
	r := &records{session: s, name: name}
	r.main = r.make(1)
	r.now = r.main
	return r
}

func (r *records) make(parts int) *serde.Deserializer {
	return serde.NewDeserializer(serde.DeserializerConfig{Channel: r.name, MaxRecord: r.session.cfg.MaxRecord}.PerVirtualChannel(parts))
}

// decompressor is the session's.
func (s *Session) decompressor() (*credit.Decompressor, error) {
	if s.cfg.Codec == credit.NoCompression {
		return nil, errors.New("compressed; the codec is not on the wire, say which with --compress")
	}
	var err error
	if s.dec == nil {
		s.dec, err = credit.NewDecompressor(s.cfg.Codec, s.cfg.MaxBuffer)
	}
	return s.dec, err
}

// buffer gives each record that the payload completes to f. An error of the records is for the sink, as one Element
// with Length -1; an error of f is returned.
func (r *records) buffer(h *credit.BufferHeader, payload []byte, f func(e *Element) error) error {
	sizes := h.PartialSizes
	if h.Partial == 0 {
		sizes = []int32{h.Size}
	}
	for _, n := range sizes {
		p := payload[:n]
		payload = payload[n:]
		if stop, err := r.part(h, p, f); stop || err != nil {
			return err
		}
	}
	return nil
}

// part reads one buffer. stop: the error was said, and nothing more can be read.
func (r *records) part(h *credit.BufferHeader, p []byte, f func(e *Element) error) (stop bool, err error) {
	fail := func(err error) (bool, error) {
		if r.err = err; r.said {
			return true, nil
		}
		r.said = true
		return true, f(&Element{Length: -1, Err: err})
	}
	if r.err != nil {
		return fail(r.err)
	}
	b := segment.Wrap(p, h.Type)
	if h.Compressed {
		dec, err := r.session.decompressor()
		if err != nil {
			return fail(err)
		}
		if b, err = dec.Buffer(b); err != nil {
			return fail(err)
		}
	}
	if err := r.now.SetBuffer(b); err != nil {
		return fail(err)
	}
	for {
		rec, res, err := r.now.Next()
		if err != nil {
			return fail(err)
		}
		if res.Record() {
			e := Element{Length: len(rec)}
			e.Err = serde.DecodeElement(rec, &e.Element)
			if err := f(&e); err != nil {
				return true, err
			}
		}
		if res.Consumed() {
			r.now.Done() // the payload's memory is used again
			return false, nil
		}
	}
}

// event follows the selection of virtual channels.
func (r *records) event(e *event.Event) {
	switch e.Kind {
	case event.SubtaskConnection:
		key := [2]int32{e.InputSubtask, e.OutputSubtask}
		d, ok := r.virtual[key]
		if !ok {
			if len(r.virtual) == maxVirtual {
				r.err = fmt.Errorf("more than %d virtual channels", maxVirtual)
				return
			}
			if r.virtual == nil {
				r.virtual = make(map[[2]int32]*serde.Deserializer)
			}
			d = r.make(maxVirtual)
			r.virtual[key] = d
		}
		r.now = d
	case event.EndOfOutputChannelState:
		r.now = r.main
		r.closeVirtual()
	}
}

// lost gives up: without the lengths before, no later one can be found.
func (r *records) lost() {
	if r.err == nil {
		r.err = errMissing
	}
}

// fresh takes that back: the channel begins only now.
func (r *records) fresh() {
	if r.err == errMissing {
		r.err = nil
	}
}

func (r *records) closeVirtual() {
	for _, d := range r.virtual {
		d.Close()
	}
	r.virtual = nil
}

func (r *records) close() {
	r.closeVirtual()
	r.main.Close()
}
