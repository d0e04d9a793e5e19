//go:build unix

package measure

import "golang.org/x/sys/unix"

// CPUSeconds is the user and system time that this process has used.
func CPUSeconds() float64 {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return float64(ru.Utime.Nano()+ru.Stime.Nano()) / 1e9
}

// PeakMemory is the largest resident size of this process so far, in bytes.
func PeakMemory() int64 {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return int64(ru.Maxrss) * maxrssUnit
}
