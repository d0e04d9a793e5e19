package measure

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnCPU calls start, which starts processes, such that they run on one CPU only, and see that from the beginning: a Go program's
// GOMAXPROCS is then 1.
func OnCPU(cpu int, start func() error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return err
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.SchedSetaffinity(0, &old)) }()
	return start()
}
