package weir

import (
	"fmt"
	"testing"
)

// Inputs that are made and closed at the same time each get the memory that is theirs.
func TestInputsMadeAtOnce(t *testing.T) {
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 40})
	for round := range 20 {
		var waits []func() error
		for i := range 8 {
			waits = append(waits, inBackground(t, func() error {
				in, err := b.NewInput(InputConfig{Sources: []Source{{Addr: a.Addr().String(), Name: fmt.Sprint("nobody ", round), Last: i}}})
				if err != nil {
					return err
				}
				return in.Close()
			}))
		}
		for _, wait := range waits {
			if err := wait(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
}
