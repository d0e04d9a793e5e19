//go:build !linux || weirportable

package netio

// SendsFiles tells whether AppendBuffer takes buffers that are parts of files, to be sent from there: plain connections on Linux
// do.
func (c *Conn) SendsFiles() bool { return false }
