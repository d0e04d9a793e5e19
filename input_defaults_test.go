package weir

import "testing"

// TestInputWindowByDefault: what each channel has for itself, and what the channels share, by how many there are.
func TestInputWindowByDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg                 InputConfig
		channels            int
		exclusive, floating int
	}{
		"one":             {InputConfig{}, 1, 32, 8},
		"several":         {InputConfig{}, 8, 8, 8},
		"very many":       {InputConfig{}, 1000, 2, 8},
		"one, of its own": {InputConfig{Exclusive: 40}, 1, 40, 8},
		"one that shares": {InputConfig{Floating: 30}, 1, 32, 30},
		"no floating":     {InputConfig{Exclusive: 4, Floating: -1}, 3, 4, 0},
		"floating only":   {InputConfig{Exclusive: -1}, 1, 0, 8},
		"neither":         {InputConfig{Exclusive: -1, Floating: -1}, 2, 0, 1},
	} {
		tc.cfg.Sources = []Source{{Addr: "127.0.0.1:1", Name: "x", Last: tc.channels - 1}}
		got := tc.cfg.withDefaults()
		if got.Exclusive != tc.exclusive || got.Floating != tc.floating {
			t.Errorf("%s: %d exclusive and %d floating, want %d and %d", name, got.Exclusive, got.Floating, tc.exclusive, tc.floating)
		}
		if n := tc.channels*tc.exclusive + tc.floating; got.segments() != n {
			t.Errorf("%s: %d segments, want %d", name, got.segments(), n)
		}
	}
}
