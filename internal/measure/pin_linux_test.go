package measure

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnCPU(t *testing.T) {
	var before, during, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !before.IsSet(cpu) {
		cpu++
	}
	if err := OnCPU(cpu, func() error { return unix.SchedGetaffinity(0, &during) }); err != nil {
		t.Fatal(err)
	}
	if during.Count() != 1 || !during.IsSet(cpu) {
		t.Errorf("%d CPUs while pinned to %d", during.Count(), cpu)
	}
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != before {
		t.Errorf("the pin was left behind: %v", err)
	}
}
