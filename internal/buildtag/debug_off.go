//go:build !weirdebug

package buildtag

// Debug tells whether this is a debug build (-tags weirdebug).
const Debug = false
