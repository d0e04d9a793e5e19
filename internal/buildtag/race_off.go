//go:build !race

package buildtag

// Race tells whether the race detector is built in.
const Race = false
