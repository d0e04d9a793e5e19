//go:build !unix

package vfs

import (
	"fmt"
	"os"
)

// Lock takes the lock that a file stands for. ErrLocked: another one has it. The system removes an open file's name for nobody, so a
// file that can be removed is a dead process's.
func Lock(name string) (unlock func() error, err error) {
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrLocked, err)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o666)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrLocked, err)
	}
	return func() error {
		err := f.Close()
		_ = os.Remove(name)
		return err
	}, nil
}
