//go:build !weirdebug

package ringbuf

// guard is empty in this build. In debug builds it finds two goroutines inside a side that belongs to one.
type guard struct{}

func (*guard) enter(string) {}
func (*guard) leave()       {}
