package weir

import "testing"

// TestOutputMemoryByDefault: what an output holds as it comes, by its kind, its subpartitions and their size.
func TestOutputMemoryByDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg            OutputConfig
		segment        int
		buffers, quota int
	}{
		"one":              {OutputConfig{}, 32 << 10, 32, 24},
		"of large buffers": {OutputConfig{}, 1 << 20, 32, 24},
		"of half ones":     {OutputConfig{}, 16 << 10, 64, 48},
		"of copied ones":   {OutputConfig{}, 4 << 10, 512, 384},
		"of small ones":    {OutputConfig{}, 1 << 10, 2048, 1536},
		"of tiny ones":     {OutputConfig{}, 256, 2048, 1536},
		"several":          {OutputConfig{Subpartitions: 8}, 32 << 10, 32, 10},
		"many small ones":  {OutputConfig{Subpartitions: 9}, 1 << 10, 32, 10},
		"as Flink":         {OutputConfig{Subpartitions: 100}, 32 << 10, 208, 10},
		"blocking":         {OutputConfig{Blocking: &Blocking{}}, 32 << 10, 128, 96},
		"blocking, small":  {OutputConfig{Blocking: &Blocking{}}, 4 << 10, 512, 384},
		"its own":          {OutputConfig{Buffers: 64, Subpartitions: 2}, 1 << 10, 64, 24},
		"all given":        {OutputConfig{Buffers: 64, BuffersPerSubpartition: 3}, 32 << 10, 64, 3},
	} {
		if got := tc.cfg.withDefaults(tc.segment); got.Buffers != tc.buffers || got.BuffersPerSubpartition != tc.quota {
			t.Errorf("%s: %d buffers, %d for a subpartition; want %d, %d", name, got.Buffers, got.BuffersPerSubpartition, tc.buffers, tc.quota)
		}
	}
}
