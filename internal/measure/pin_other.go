//go:build !linux

package measure

import "errors"

// OnCPU is for Linux only.
func OnCPU(int, func() error) error {
	return errors.New("processes can be pinned to a CPU on Linux only")
}
