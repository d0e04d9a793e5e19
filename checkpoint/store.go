package checkpoint

import (
	"context"
	"errors"
	"io"
)

// Store keeps the bytes of checkpoints: parts, and metadata, whose coming into being is the commit. What the bytes mean is Archive's
// business. All methods are for any goroutine. What is not there is an error with fs.ErrNotExist.
//
// A store gives three promises. What Put or Complete or SaveState finished without an error is durable. A part, metadata and the
// state are there whole or not at all. Delete takes the metadata first, so that what is left of it by a crash is unfinished.
type Store interface {
	// Put begins a part of checkpoint id; part is "MEMBER/NAME". It replaces a part of that name.
	Put(ctx context.Context, id int64, part string) (Blob, error)
	// Get opens a part.
	Get(ctx context.Context, id int64, part string) (io.ReadCloser, error)
	// Parts lists the parts of checkpoint id with their sizes in bytes.
	Parts(ctx context.Context, id int64) (map[string]int64, error)
	// Complete writes a checkpoint's metadata: from then on it exists. After an error it may exist or not.
	Complete(ctx context.Context, id int64, metadata []byte) error
	// Metadata reads a checkpoint's metadata.
	Metadata(ctx context.Context, id int64) ([]byte, error)
	// List lists all checkpoints that there is something of, by id.
	List(ctx context.Context) ([]Entry, error)
	// Delete removes a checkpoint and what there is of it. One that is not there is no error.
	Delete(ctx context.Context, id int64) error
	// SaveState replaces the coordinator's own record, LoadState reads it.
	SaveState(ctx context.Context, state []byte) error
	LoadState(ctx context.Context) ([]byte, error)
}

// Blob is a part that is being written. One goroutine at a time.
type Blob interface {
	io.Writer
	// Commit makes the part be there, and durable. Nothing is there after an error.
	Commit() error
	// Abort gives up, and removes what was written. After Commit it does nothing.
	Abort()
}

// Entry is a checkpoint in a store.
type Entry struct {
	ID int64
	// Complete: it has metadata.
	Complete bool
}

// Locker is a store that can be locked, so that no two coordinators work on it. A store that is none must be kept from that by
// whoever starts coordinators.
type Locker interface {
	// Lock takes the lock until unlock is called or the process ends. ErrLocked: another process has it.
	Lock() (unlock func() error, err error)
}

// maxMetadata bounds metadata and state, which are read into memory.
const maxMetadata = 64 << 20

// ErrDamaged is in the error for stored bytes that are not what was written: cut, changed, or something else.
var ErrDamaged = errors.New("damaged")

// ErrFormat is in the error for stored bytes of a format that this program does not read.
var ErrFormat = errors.New("unknown format")

// ErrFolderGone is in the error when the folder of a directory store was removed while it was in use.
var ErrFolderGone = errors.New("the checkpoint folder is gone")
