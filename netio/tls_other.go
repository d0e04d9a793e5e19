//go:build !linux || weirportable

package netio

import "net"

// newUnderTLS returns what a tls.Conn is made on.
func newUnderTLS(nc net.Conn, renegotiates bool) net.Conn { return newBuffered(nc) }
