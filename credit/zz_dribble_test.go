package credit

import "testing"

func BenchmarkDribble(b *testing.B) {
	r := landRig(b, 1, 20, Flink23)
	r.learn()
	b.Run("land", func(b *testing.B) {
		for b.Loop() {
			if len(r.core.Land(512<<10)) == 0 {
				b.Fatal("none")
			}
			if err := r.core.Landed(0, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
