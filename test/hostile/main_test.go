package hostile

import (
	"testing"

	"github.com/weirflow/weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
