package s3store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"

	"github.com/weirflow/weir/checkpoint"
)

// Options are the options of a Store.
type Options struct {
	// Bucket must be there. Prefix begins the names of all objects, with a slash behind it; it may be empty. Each pipeline has its own.
	Bucket, Prefix string
	// PartSize is how much of a part of a checkpoint is gathered in memory before it is uploaded, in bytes; 0 means 16 MiB, the least is 5
	// MiB. A part may have 10 000 times as much.
	PartSize uint64
}

const (
	defaultPartSize = 16 << 20
	metadataName    = "_metadata"
	stateName       = "_state"
	checkpoints     = "chk-"
	// maxSmall bounds metadata and state, which are read into memory.
	maxSmall = 64 << 20
)

// Store is a checkpoint.Store in a bucket. All methods are for any goroutine. Several processes may put parts.
type Store struct {
	client *minio.Client
	o      Options

	mu    sync.Mutex
	etag  string // of the state that was loaded or saved last, empty if there was none; guarded by mu
	tried []byte // what a save that failed may have written all the same; guarded by mu
}

var _ checkpoint.Store = (*Store)(nil)

// New makes a store with a client, which says where the bucket is and who asks.
func New(client *minio.Client, o Options) (*Store, error) {
	if o.Bucket == "" {
		return nil, errors.New("s3store: no bucket")
	}
	if o.PartSize == 0 {
		o.PartSize = defaultPartSize
	}
	o.Prefix = strings.Trim(o.Prefix, "/")
	return &Store{client: client, o: o}, nil
}

func (s *Store) key(names ...string) string {
	return path.Join(append([]string{s.o.Prefix}, names...)...)
}

func (s *Store) dir(id int64) string { return checkpoints + strconv.FormatInt(id, 10) }

// explain names the object, and what is not there by the name that all stores use.
func (s *Store) explain(key string, err error) error {
	if err == nil {
		return nil
	}
	switch minio.ToErrorResponse(err).Code {
	case minio.NoSuchKey, minio.NoSuchBucket, "NotFound":
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return fmt.Errorf("s3store: %s/%s: %w", s.o.Bucket, key, err)
}

// Put is part of checkpoint.Store.
func (s *Store) Put(ctx context.Context, id int64, part string) (checkpoint.Blob, error) {
	return &blob{s: s, ctx: ctx, key: s.key(s.dir(id), part)}, nil
}

// blob is a part on its way. A small one is sent in one piece by Commit; a larger one by a goroutine, while it is written.
type blob struct {
	s     *Store
	ctx   context.Context
	key   string
	small []byte
	over  bool

	w      *io.PipeWriter // nil while it is small
	cancel context.CancelFunc
	done   chan error // the goroutine's result
}

// maxPiece bounds what is sent in one piece, in bytes.
const maxPiece = 1 << 20

// start begins to upload.
func (b *blob) start() {
	ctx, cancel := context.WithCancel(b.ctx)
	r, w := io.Pipe()
	b.w, b.cancel, b.done = w, cancel, make(chan error, 1)
	go func() {
		_, err := b.s.client.PutObject(ctx, b.s.o.Bucket, b.key, r, -1, minio.PutObjectOptions{
			// An MD5 of each piece instead of a signature inside of it, which not every server takes out again.
			PartSize: b.s.o.PartSize, SendContentMd5: true, DisableContentSha256: true,
		})
		_ = r.CloseWithError(cmp.Or(err, io.ErrClosedPipe)) // a Write that waits
		b.done <- err
	}()
}

// Write is part of checkpoint.Blob.
func (b *blob) Write(p []byte) (int, error) {
	if b.over {
		return 0, b.s.explain(b.key, fs.ErrClosed)
	}
	if b.w == nil {
		if len(b.small)+len(p) <= maxPiece {
			b.small = append(b.small, p...)
			return len(p), nil
		}
		b.start()
		if _, err := b.w.Write(b.small); err != nil {
			return 0, b.s.explain(b.key, err)
		}
		b.small = nil
	}
	n, err := b.w.Write(p)
	return n, b.s.explain(b.key, err)
}

// Commit is part of checkpoint.Blob.
func (b *blob) Commit() error {
	if b.over {
		return b.s.explain(b.key, fs.ErrClosed)
	}
	b.over = true
	if b.w == nil {
		_, err := b.s.put(b.ctx, b.key, b.small, minio.PutObjectOptions{})
		return b.s.explain(b.key, err)
	}
	_ = b.w.Close()
	defer b.cancel()
	return b.s.explain(b.key, <-b.done)
}

// Abort is part of checkpoint.Blob.
func (b *blob) Abort() {
	if b.over {
		return
	}
	b.over = true
	if b.w != nil {
		_ = b.w.CloseWithError(errors.New("given up"))
		b.cancel()
		<-b.done
	}
}

// Get is part of checkpoint.Store.
func (s *Store) Get(ctx context.Context, id int64, part string) (io.ReadCloser, error) {
	key := s.key(s.dir(id), part)
	o, err := s.client.GetObject(ctx, s.o.Bucket, key, minio.GetObjectOptions{})
	if err == nil {
		_, err = o.Stat() // only now it asks
	}
	if err != nil {
		return nil, s.explain(key, err)
	}
	return o, nil
}

// list calls f with the name of each object or folder directly below dir, or of each object anywhere below it.
func (s *Store) list(ctx context.Context, dir string, deep bool, f func(name string, size int64)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	prefix := s.key(dir)
	if prefix != "" {
		prefix += "/"
	}
	for o := range s.client.ListObjects(ctx, s.o.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: deep}) {
		if o.Err != nil {
			return s.explain(prefix, o.Err)
		}
		f(strings.TrimPrefix(o.Key, prefix), o.Size)
	}
	return nil
}

// Parts is part of checkpoint.Store.
func (s *Store) Parts(ctx context.Context, id int64) (map[string]int64, error) {
	parts := map[string]int64{}
	err := s.list(ctx, s.dir(id), true, func(name string, size int64) {
		if name != metadataName {
			parts[name] = size
		}
	})
	return parts, err
}

// put writes a small object.
func (s *Store) put(ctx context.Context, key string, data []byte, o minio.PutObjectOptions) (minio.UploadInfo, error) {
	return s.client.PutObject(ctx, s.o.Bucket, key, bytes.NewReader(data), int64(len(data)), o)
}

// get reads a small object.
func (s *Store) get(ctx context.Context, key string) (data []byte, etag string, err error) {
	o, err := s.client.GetObject(ctx, s.o.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, "", s.explain(key, err)
	}
	defer func() { _ = o.Close() }()
	data, err = io.ReadAll(io.LimitReader(o, maxSmall+1))
	if err == nil && len(data) > maxSmall {
		err = fmt.Errorf("more than %d bytes", maxSmall)
	}
	if err != nil {
		return nil, "", s.explain(key, err)
	}
	info, err := o.Stat()
	return data, info.ETag, s.explain(key, err)
}

// Complete is part of checkpoint.Store.
func (s *Store) Complete(ctx context.Context, id int64, metadata []byte) error {
	key := s.key(s.dir(id), metadataName)
	_, err := s.put(ctx, key, metadata, minio.PutObjectOptions{})
	return s.explain(key, err)
}

// Metadata is part of checkpoint.Store.
func (s *Store) Metadata(ctx context.Context, id int64) ([]byte, error) {
	data, _, err := s.get(ctx, s.key(s.dir(id), metadataName))
	return data, err
}

// List is part of checkpoint.Store.
func (s *Store) List(ctx context.Context) ([]checkpoint.Entry, error) {
	var list []checkpoint.Entry
	err := s.list(ctx, "", false, func(name string, _ int64) {
		digits, ok := strings.CutPrefix(strings.TrimSuffix(name, "/"), checkpoints)
		if id, err := strconv.ParseInt(digits, 10, 64); ok && err == nil {
			list = append(list, checkpoint.Entry{ID: id})
		}
	})
	if err != nil {
		return nil, err
	}
	for i := range list {
		key := s.key(s.dir(list[i].ID), metadataName)
		_, err := s.client.StatObject(ctx, s.o.Bucket, key, minio.StatObjectOptions{})
		if err := s.explain(key, err); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		list[i].Complete = err == nil
	}
	slices.SortFunc(list, func(a, b checkpoint.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// Delete is part of checkpoint.Store.
func (s *Store) Delete(ctx context.Context, id int64) error {
	names := []string{metadataName}
	if err := s.list(ctx, s.dir(id), true, func(name string, _ int64) { names = append(names, name) }); err != nil {
		return err
	}
	for _, name := range names {
		key := s.key(s.dir(id), name)
		if err := s.client.RemoveObject(ctx, s.o.Bucket, key, minio.RemoveObjectOptions{}); err != nil {
			return s.explain(key, err)
		}
	}
	return nil
}

// SaveState is part of checkpoint.Store. checkpoint.ErrLocked: somebody else has replaced the state that this store knows.
func (s *Store) SaveState(ctx context.Context, state []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.key(stateName)
	for again := true; ; again = false {
		var o minio.PutObjectOptions
		if s.etag == "" {
			o.SetMatchETagExcept("*")
		} else {
			o.SetMatchETag(s.etag)
		}
		info, err := s.put(ctx, key, state, o)
		if err == nil {
			s.etag, s.tried = info.ETag, nil
			return nil
		}
		if minio.ToErrorResponse(err).StatusCode != http.StatusPreconditionFailed {
			s.tried = bytes.Clone(state)
			return s.explain(key, err)
		}
		// It may be this store's own state, of a save whose answer was lost.
		there, etag, gerr := s.get(ctx, key)
		if gerr != nil {
			return gerr
		}
		if !again || s.tried == nil || !bytes.Equal(there, s.tried) {
			return fmt.Errorf("s3store: %s/%s: %w", s.o.Bucket, key, checkpoint.ErrLocked)
		}
		s.etag = etag
	}
}

// LoadState is part of checkpoint.Store.
func (s *Store) LoadState(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, etag, err := s.get(ctx, s.key(stateName))
	if err == nil {
		s.etag = etag
	}
	return data, err
}
