//go:build !linux || weirportable

package netio

const raceOrPortable = true

const tlsNative = false
