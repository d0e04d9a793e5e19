//go:build !linux || weirportable

package weir

const sendsFiles = false
