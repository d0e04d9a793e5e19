//go:build amd64 && !race && !nounsafe

package segment

import "sync/atomic"

// marker is the word that a builder publishes to its readers. There is one writer.
//
// Storing must be a release: whoever loads the new value sees the bytes written before. sync/atomic has only the
// stronger sequentially consistent store, an XCHG, which waits until all earlier stores, the record's bytes, have left
// the processor's store buffer: more than all the rest of writing a small record. On amd64 every store is a release,
// and the compiler keeps stores in their order. Nothing here needs more. Who decides by what he loads after a store, as whether the
// reader sleeps, needs a barrier in between (package credit, PartitionWriter.wakeUp).
// Race builds, other machines and nounsafe builds use the atomic store.
type marker struct{ v int32 }

// Load is an acquire.
func (m *marker) Load() int32 { return atomic.LoadInt32(&m.v) }

// Store is a release. It is inlined, always behind the bytes that it covers.
func (m *marker) Store(v int32) { m.v = v }
