package weir

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxCauses bounds how many causes an error lists, of ten thousand consumers that may have gone.
const maxCauses = 16

// lostErr says which consumers went before they had processed everything, and why, as far as is known. Neighbours that went for the
// same reason are named together.
func (o *Output) lostErr(subs []int) error {
	o.lostMu.Lock()
	defer o.lostMu.Unlock()
	why := func(sub int) error {
		if err := o.lost[sub]; err != nil {
			return err
		}
		return errCancelled
	}
	var errs []error
	for len(subs) > 0 && len(errs) < maxCauses {
		cause, n := why(subs[0]), 1
		for n < len(subs) && subs[n] == subs[n-1]+1 && why(subs[n]).Error() == cause.Error() {
			n++
		}
		who := fmt.Sprintf("subpartition %d", subs[0])
		if n > 1 {
			who = fmt.Sprintf("subpartitions %d-%d", subs[0], subs[n-1])
		}
		errs = append(errs, fmt.Errorf("%s: %w before the end: %w", who, ErrNoConsumer, cause))
		subs = subs[n:]
	}
	if len(subs) > 0 {
		errs = append(errs, fmt.Errorf("%d more subpartitions: %w before the end", len(subs), ErrNoConsumer))
	}
	return o.error(errors.Join(errs...))
}

var errCancelled = errors.New("cancelled by the consumer")

// consumerLost notes why the consumer of a subpartition went. On the loop.
func (o *Output) consumerLost(sub int, err error) {
	o.lostMu.Lock()
	defer o.lostMu.Unlock()
	if o.lost == nil {
		o.lost = make(map[int]error)
	}
	o.lost[sub] = err
}

// missing adds to err which subpartitions still hold data.
func (o *Output) missing(err error) error {
	var subs []int
	_ = o.node.do(func() error {
		for i := range o.part.Subpartitions() {
			if s := o.part.Subpartition(i); !s.Released() {
				subs = append(subs, i)
			}
		}
		return nil
	})
	return o.error(fmt.Errorf("%w until the end for subpartitions %s of %d: %w", ErrNoConsumer, ranges(subs), o.cfg.Subpartitions, err))
}

// ranges lists ascending numbers in short: [0-2 5].
func ranges(ns []int) string {
	var b strings.Builder
	for i := 0; i < len(ns); {
		n := 1
		for i+n < len(ns) && ns[i+n] == ns[i]+n {
			n++
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(ns[i]))
		if n > 1 {
			b.WriteString("-" + strconv.Itoa(ns[i+n-1]))
		}
		i += n
	}
	return "[" + b.String() + "]"
}
