package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// TwoPhase is a sink whose output becomes visible in two steps. What is written between two calls of Prepare is a transaction. Commit may
// be called again after it was successful, for it may have been the answer that was lost. The methods may be called while another
// goroutine writes; they are not called at the same time as each other if Transactions calls them.
type TwoPhase interface {
	// Prepare ends the transaction that is open, and makes it durable, so that Commit cannot fail for lack of anything, in any
	// process. handle says which it is. Nil: nothing was written. The next transaction begins.
	Prepare(ctx context.Context, id int64) (handle []byte, err error)
	// Commit makes a prepared transaction visible. One that is visible already is no error.
	Commit(ctx context.Context, handle []byte) error
	// Abort takes a transaction back that was prepared and not committed.
	Abort(ctx context.Context, handle []byte) error
	// Recover is called at the start of an epoch, before anything is written: it commits the transactions that the restored checkpoint
	// lists, and takes back whatever else is prepared or open, by this process or an earlier one of this name. restored is 0 if the epoch
	// begins from the beginning.
	Recover(ctx context.Context, epoch int32, restored int64, prepared [][]byte) error
}

// ErrTransactionLost is in the error for a transaction that belongs to a completed checkpoint, and is neither prepared nor committed.
var ErrTransactionLost = errors.New("a prepared transaction is gone")

// Transactions keeps track of a TwoPhase's prepared transactions, so that each is committed when a checkpoint that contains it is
// completed, and in no other case. All methods are for any goroutine.
type Transactions struct {
	mu       sync.Mutex
	sink     TwoPhase
	prepared []transaction // by checkpoint; guarded by mu
}

type transaction struct {
	ID     int64  `json:"id"` // of the checkpoint it was prepared for
	Handle []byte `json:"handle"`
}

// NewTransactions makes the transactions of a sink. Restore comes first.
func NewTransactions(sink TwoPhase) *Transactions { return &Transactions{sink: sink} }

// Snapshot prepares what was written until now for checkpoint id, and returns what belongs into the snapshot: the list of all that is
// prepared and not known to be committed.
func (t *Transactions) Snapshot(ctx context.Context, id int64) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	handle, err := t.sink.Prepare(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: prepare for checkpoint %d: %w", id, err)
	}
	if handle != nil {
		t.prepared = append(t.prepared, transaction{id, handle})
	}
	return seal(transactionsKind, t.prepared)
}

const transactionsKind = "weir-transactions"

// Completed commits what was prepared for checkpoint id and those before it. After an error it can be called again.
func (t *Transactions) Completed(ctx context.Context, id int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.prepared, func(a, b transaction) int { return cmp.Compare(a.ID, b.ID) })
	for len(t.prepared) > 0 && t.prepared[0].ID <= id {
		if err := t.sink.Commit(ctx, t.prepared[0].Handle); err != nil {
			return fmt.Errorf("checkpoint: commit of checkpoint %d: %w", t.prepared[0].ID, err)
		}
		t.prepared = t.prepared[1:]
	}
	return nil
}

// Prepared is how many transactions wait for their checkpoint.
func (t *Transactions) Prepared() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.prepared)
}

// Restore begins an epoch: it commits what the restored checkpoint lists, and takes everything else back. state is what Snapshot
// returned then; nil if the epoch begins from the beginning, or the sink had no state.
func (t *Transactions) Restore(ctx context.Context, epoch int32, restored int64, state []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []transaction
	if state != nil {
		if err := unseal(transactionsKind, state, &list); err != nil {
			return fmt.Errorf("checkpoint: transactions of checkpoint %d: %w", restored, err)
		}
	}
	handles := make([][]byte, 0, len(list))
	for _, tx := range list {
		handles = append(handles, tx.Handle)
	}
	if err := t.sink.Recover(ctx, epoch, restored, handles); err != nil {
		return fmt.Errorf("checkpoint: recover at checkpoint %d: %w", restored, err)
	}
	t.prepared = nil
	return nil
}
