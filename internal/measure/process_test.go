package measure

import (
	"os"
	"strings"
	"testing"
)

// TestMain lets the test's own program be a side of a benchmark.
func TestMain(m *testing.M) {
	if side, ok := strings.CutPrefix(os.Args[len(os.Args)-1], "side="); ok {
		Announce(os.Stdout, "somewhere")
		if side == "warm" {
			Warm(os.Stdout)
		}
		told, err := Told()
		r := Result{Role: side, Items: int64(len(told))}
		if err != nil || r.Print(os.Stdout) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestProcess(t *testing.T) {
	p, err := StartSelf(t.Context(), "side=receive")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if addr, err := p.Address(); addr != "somewhere" || err != nil {
		t.Errorf("address %q, %v", addr, err)
	}
	if err := p.Tell("four"); err != nil {
		t.Error(err)
	}
	if r, err := p.Result(); err != nil || r.Role != "receive" || r.Items != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := p.Result(); err == nil || !strings.Contains(err.Error(), "without a result") {
		t.Errorf("a second result: %v", err)
	}
}

func TestProcessWithoutWork(t *testing.T) {
	p, err := StartSelf(t.Context(), "side=send")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := p.Tell(""); err != nil {
		t.Error(err)
	}
	if _, err := p.Result(); err == nil || !strings.Contains(err.Error(), "send did nothing") {
		t.Errorf("a side that did nothing: %v", err)
	}
}
