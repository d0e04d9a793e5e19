//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/weirflow/weir/internal/leaktest"
)

// asRole in the environment makes the test binary be a process of the pipeline: it has the role as JSON.
const asRole = "WEIR_CHAOS_ROLE"

func TestMain(m *testing.M) {
	if text := os.Getenv(asRole); text != "" {
		var r role
		err := json.Unmarshal([]byte(text), &r)
		if err == nil {
			err = r.run(context.Background())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}
