//go:build !linux

package segment

// systemFor takes all memory from the Go heap on systems that weir doesn't map memory on.
func systemFor(cfg Config) (*system, error) {
	if cfg.Backing == BackingMapped {
		return nil, badConfig("BackingMapped: memory is mapped on Linux only")
	}
	return heapSystem(), nil
}
