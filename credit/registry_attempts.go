package credit

import "fmt"

// maxRemembered bounds the partitions of which a registry remembers the newest attempt after all attempts have gone.
const maxRemembered = 4096

// attempts knows the newest attempt of each partition that is registered or was lately, so that who comes for an older one, or with
// one, is told at once. The zero value is ready.
type attempts struct {
	byPartition map[PartitionID]*attempt // attempt number 0
	over        []PartitionID            // of which none was registered any more, at some time; the oldest first
}

type attempt struct {
	newest int32
	live   int // attempts that are registered
}

// outdated returns why a partition is one of the past, nil if it is not.
func (a *attempts) outdated(id PartitionID) error {
	if e := a.byPartition[id.WithAttempt(0)]; e != nil && e.newest > id.Attempt() {
		return fmt.Errorf("partition %s: %w: attempt %d", id, ErrOldAttempt, e.newest)
	}
	return nil
}

func (a *attempts) add(id PartitionID) {
	if a.byPartition == nil {
		a.byPartition = map[PartitionID]*attempt{}
	}
	key := id.WithAttempt(0)
	e := a.byPartition[key]
	if e == nil {
		e = &attempt{}
		a.byPartition[key] = e
	}
	e.newest = max(e.newest, id.Attempt())
	e.live++
}

func (a *attempts) remove(id PartitionID) {
	key := id.WithAttempt(0)
	e := a.byPartition[key]
	if e == nil {
		return
	}
	if e.live--; e.live > 0 || e.newest == 0 {
		if e.live == 0 {
			delete(a.byPartition, key) // no attempt is older than the first
		}
		return
	}
	a.over = append(a.over, key)
	for len(a.over) > maxRemembered {
		old := a.over[0]
		a.over = a.over[1:]
		if e := a.byPartition[old]; e != nil && e.live == 0 {
			delete(a.byPartition, old)
		}
	}
}
