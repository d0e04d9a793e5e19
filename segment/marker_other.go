//go:build !amd64 || race || nounsafe

package segment

import "sync/atomic"

// marker is the word that a builder publishes to its readers. There is one writer. See marker_amd64.go.
type marker struct{ v atomic.Int32 }

// Load is an acquire.
func (m *marker) Load() int32 { return m.v.Load() }

// Store is a release.
func (m *marker) Store(v int32) { m.v.Store(v) }
