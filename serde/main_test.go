package serde

import (
	"testing"

	"github.com/weirflow/weir/internal/leaktest"
)

// TestMain fails the run if a goroutine, a descriptor of a spill file or a
// mapping is left behind.
func TestMain(m *testing.M) { leaktest.Main(m) }
