package weir

import "testing"

// TestOutputMemoryByDefault: what an output holds as it comes, by its kind and its subpartitions.
func TestOutputMemoryByDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg            OutputConfig
		buffers, quota int
	}{
		"one":       {OutputConfig{}, 32, 24},
		"several":   {OutputConfig{Subpartitions: 8}, 32, 10},
		"as Flink":  {OutputConfig{Subpartitions: 100}, 208, 10},
		"blocking":  {OutputConfig{Blocking: &Blocking{}}, 128, 96},
		"its own":   {OutputConfig{Buffers: 64, Subpartitions: 2}, 64, 24},
		"all given": {OutputConfig{Buffers: 64, BuffersPerSubpartition: 3}, 64, 3},
	} {
		if got := tc.cfg.withDefaults(); got.Buffers != tc.buffers || got.BuffersPerSubpartition != tc.quota {
			t.Errorf("%s: %d buffers, %d for a subpartition; want %d, %d", name, got.Buffers, got.BuffersPerSubpartition, tc.buffers, tc.quota)
		}
	}
}
