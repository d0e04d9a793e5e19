package align

import (
	"errors"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde/event"
)

// TestStoringTaskIsRegisteredOnce: a second task is an error, and without any the checkpoints pass unheard.
func TestStoringTaskIsRegisteredOnce(t *testing.T) {
	for _, mode := range []Mode{ExactlyOnce, AtLeastOnce} {
		for _, registered := range []bool{false, true} {
			b := barrierItem(0, 1, event.Options{Alignment: event.Aligned, Timeout: event.NoTimeout})
			in, err := NewStoring(StoringConfig{Mode: mode, Limit: -1, Bounded: true, PageSize: 100, Clock: func() Now { return Now{} },
				Gate: &listGate{channels: 1, items: []credit.Item{b, dataItem(0, 1, 10)}}})
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			if registered {
				if err := in.Register(oldTask{out: &out}); err != nil {
					t.Error(err)
				}
				if err := in.Register(oldTask{out: &out}); !errors.Is(err, ErrState) {
					t.Errorf("%v: a second task: %v", mode, err)
				}
			}
			it, st, err := in.Poll()
			if st != credit.Ready || err != nil || it.Event != nil {
				t.Fatalf("%v: %v, %v, %v", mode, it, st, err)
			}
			it.Buf.Release()
			if got := len(out) == 1; got != registered {
				t.Errorf("%v, registered %t: heard %q", mode, registered, out)
			}
			in.Close()
		}
	}
}
