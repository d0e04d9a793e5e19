package checkpoint

import (
	"errors"
	"fmt"
)

// ErrName is in the error for a member's or a part's name that cannot be.
var ErrName = errors.New("bad name")

// maxName bounds names, which become names of files.
const maxName = 100

// checkName refuses what is no name: 1 to 100 letters, digits, points, underscores and hyphens, the first one a letter or a digit.
func checkName(kind, name string) error {
	ok := len(name) > 0 && len(name) <= maxName
	for i := 0; ok && i < len(name); i++ {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '-':
			ok = i > 0
		default:
			ok = false
		}
	}
	if !ok {
		return fmt.Errorf("checkpoint: %s %.120q: %w: want 1 to %d letters, digits, '.', '_' and '-', a letter or digit first",
			kind, name, ErrName, maxName)
	}
	return nil
}
