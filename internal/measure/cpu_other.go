//go:build !unix

package measure

// CPUSeconds is 0 where the system has no getrusage.
func CPUSeconds() float64 { return 0 }

// PeakMemory is 0 where the system has no getrusage.
func PeakMemory() int64 { return 0 }
