//go:build nounsafe

package segment

import "errors"

// mincore can't be asked without unsafe; obtainHuge then falls back to ordinary pages.
func mincore(mem, vec []byte) error { return errors.ErrUnsupported }
