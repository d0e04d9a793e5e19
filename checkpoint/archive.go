package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"
)

// Metadata says what a completed checkpoint consists of.
type Metadata struct {
	ID    int64 `json:"id"`
	Epoch int32 `json:"epoch"`
	// Time is when it was triggered.
	Time time.Time `json:"time"`
	// Last: all members had reached the end of their data. Nothing follows it.
	Last    bool          `json:"last,omitempty"`
	Members []MemberState `json:"members"`
}

// MemberState is what a member put into a checkpoint.
type MemberState struct {
	Name string `json:"name"`
	// Final: the member had reached the end of its data.
	Final bool   `json:"final,omitempty"`
	Parts []Part `json:"parts,omitempty"`
}

// Part is a part as it is stored.
type Part struct {
	Name string `json:"name"`
	// Size in bytes and CRC-32C of what is stored, which is a little more than what was put in.
	Size int64  `json:"size"`
	Sum  uint32 `json:"sum"`
}

// Member returns the state of a member, nil if there is none.
func (m *Metadata) Member(name string) *MemberState {
	for i := range m.Members {
		if m.Members[i].Name == name {
			return &m.Members[i]
		}
	}
	return nil
}

// Size is the size of all parts, in bytes.
func (m *Metadata) Size() (total int64) {
	for _, s := range m.Members {
		for _, p := range s.Parts {
			total += p.Size
		}
	}
	return total
}

const (
	metadataKind = "weir-checkpoint"
	stateKind    = "weir-coordinator"
)

// ErrNoneWhole is in the error when there are completed checkpoints, and none of them can be used. To start from the beginning then
// would do everything twice, so it takes a person to remove them.
var ErrNoneWhole = errors.New("no completed checkpoint is whole")

// Archive is the checkpoints in a Store: it knows their format, tells whole ones from damaged ones, and removes old ones.
// All methods are for any goroutine.
type Archive struct {
	store Store
}

// NewArchive makes an archive of what a store has.
func NewArchive(store Store) *Archive { return &Archive{store: store} }

// Metadata reads what checkpoint id consists of.
func (a *Archive) Metadata(ctx context.Context, id int64) (*Metadata, error) {
	data, err := a.store.Metadata(ctx, id)
	if err != nil {
		return nil, err
	}
	m := new(Metadata)
	if err := unseal(metadataKind, data, m); err != nil {
		return nil, fmt.Errorf("checkpoint: checkpoint %d, metadata: %w", id, err)
	}
	if m.ID != id {
		return nil, fmt.Errorf("checkpoint: checkpoint %d, metadata: %w", id, damaged("it is that of checkpoint %d", m.ID))
	}
	return m, nil
}

// Complete makes a checkpoint exist, all of whose parts were put. It looks whether the store has them.
func (a *Archive) Complete(ctx context.Context, m *Metadata) error {
	data, err := seal(metadataKind, m)
	if err != nil {
		return fmt.Errorf("checkpoint: checkpoint %d, metadata: %w", m.ID, err)
	}
	have, err := a.store.Parts(ctx, m.ID)
	if err != nil {
		return err
	}
	for _, s := range m.Members {
		for _, p := range s.Parts {
			part := s.Name + "/" + p.Name
			size, ok := have[part]
			if !ok {
				return fmt.Errorf("checkpoint: checkpoint %d, part %s: %w in the store, although member %s put it: does it write to another one?",
					m.ID, part, fs.ErrNotExist, s.Name)
			}
			if size != p.Size {
				return fmt.Errorf("checkpoint: checkpoint %d, part %s: %w", m.ID, part, damaged("%d bytes instead of %d", size, p.Size))
			}
		}
	}
	return a.store.Complete(ctx, m.ID, data)
}

// Verify reads checkpoint id, to the last byte, and returns what it consists of.
func (a *Archive) Verify(ctx context.Context, id int64) (*Metadata, error) {
	m, err := a.Metadata(ctx, id)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, maxChunk)
	for _, s := range m.Members {
		for _, p := range s.Parts {
			r, err := openPart(ctx, a.store, id, s.Name, p)
			if err != nil {
				return nil, err
			}
			_, err = io.CopyBuffer(io.Discard, struct{ io.Reader }{r}, buf)
			if cerr := r.Close(); err == nil {
				err = cerr
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// Latest returns the newest whole checkpoint among those that valid accepts; nil if there is none at all. The ones that it passed
// over are refused, with why. ErrNoneWhole: there are some, and all are damaged.
func (a *Archive) Latest(ctx context.Context, valid func(*Metadata) bool) (m *Metadata, refused []error, err error) {
	list, err := a.store.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range slices.Backward(list) {
		if !e.Complete {
			continue
		}
		m, err := a.Metadata(ctx, e.ID)
		if err == nil {
			if valid != nil && !valid(m) {
				continue
			}
			_, err = a.Verify(ctx, e.ID)
		}
		switch {
		case err == nil:
			return m, refused, nil
		case errors.Is(err, ErrDamaged), errors.Is(err, ErrFormat), errors.Is(err, fs.ErrNotExist):
			refused = append(refused, err)
		default:
			return nil, refused, err // it may be whole: the store cannot be read now
		}
	}
	if len(refused) > 0 {
		return nil, refused, fmt.Errorf("checkpoint: %w: %w", ErrNoneWhole, errors.Join(refused...))
	}
	return nil, nil, nil
}

// Prune deletes the completed checkpoints but the newest retain ones, and the unfinished ones for which unused says so.
func (a *Archive) Prune(ctx context.Context, retain int, unused func(id int64) bool) error {
	list, err := a.store.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range slices.Backward(list) {
		if e.Complete && retain > 0 {
			retain--
			continue
		}
		if e.Complete || unused(e.ID) {
			errs = append(errs, a.store.Delete(ctx, e.ID))
		}
	}
	return errors.Join(errs...)
}

// openPart opens a part of which the metadata says p.
func openPart(ctx context.Context, store parts, id int64, member string, p Part) (io.ReadCloser, error) {
	r, err := store.Get(ctx, id, member+"/"+p.Name)
	if err != nil {
		return nil, err
	}
	return &partReader{r: r, d: newDecoder(r), want: p, what: fmt.Sprintf("checkpoint %d, part %s/%s", id, member, p.Name)}, nil
}

// partReader hands out what is in a part, and compares what it read with the metadata at the end.
type partReader struct {
	r    io.ReadCloser
	d    *decoder
	want Part
	what string
}

func (r *partReader) Read(p []byte) (int, error) {
	n, err := r.d.Read(p)
	if err == io.EOF && (r.d.size != r.want.Size || r.d.sum != r.want.Sum) {
		err = damaged("%d bytes with checksum %08x instead of %d with %08x", r.d.size, r.d.sum, r.want.Size, r.want.Sum)
	}
	if err != nil && err != io.EOF {
		err = fmt.Errorf("checkpoint: %s: %w", r.what, err)
	}
	return n, err
}

func (r *partReader) Close() error { return r.r.Close() }
