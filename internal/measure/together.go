package measure

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Sides that warm up for different times, like one with a JVM, measure the same window all the same: each says when it is warm,
// goes on working, and begins its window when its parent tells it anything (Process.Tell, Told).

const warmMark = "WARM"

// Warm is called by a side that could begin its window.
func Warm(w io.Writer) { fmt.Fprintln(w, warmMark) }

// Warm waits until the process says that it is warm.
func (p *Process) Warm() error {
	for p.out.Scan() {
		if strings.TrimSpace(p.out.Text()) == warmMark {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("%s ended before it was warm", p), p.out.Err())
}
