package credit

import (
	"fmt"
	"testing"
)

// What is written comes out, for each codec and release, by subpartition and by range, as often as it is asked for.
func TestBlockingRoundTrip(t *testing.T) {
	const subs, records = 3, 400
	for _, codec := range []Codec{NoCompression, LZ4, ZSTD} {
		for _, profile := range []Profile{Flink23, Flink120} {
			t.Run(fmt.Sprintf("codec=%s/profile=%s", codec, profile), func(t *testing.T) {
				r := newBlockingRig(t, BlockingConfig{Subpartitions: subs, Codec: codec, Profile: profile})
				var want [subs][][]byte
				for i := range records {
					size := []int{0, 1, 17, 90, 250, 251, 252, 253, 1000, 20_000}[i%10]
					rec := someRecord(i%subs, i, size)
					r.write(i%subs, rec)
					want[i%subs] = append(want[i%subs], rec)
					if i == records/2 {
						r.ask(One(0), blockingChannel(99), 1<<20) // comes before the end, and waits
						if len(r.got) > 0 {
							t.Fatal("something is read before the file is finished")
						}
					}
				}
				r.finish()
				for round := range 2 {
					for s := range subs {
						id := blockingChannel(10*round + s)
						r.ask(One(int32(s)), id, 1<<20)
						sameRecords(t, fmt.Sprint("subpartition ", s), r.records(id, 1, codec), want[s])
					}
				}
				sameRecords(t, "early", r.records(blockingChannel(99), 1, codec), want[0])
				all := blockingChannel(50)
				r.ask(SubpartitionRange{0, subs - 1}, all, 1<<20)
				got := r.records(all, subs, codec)
				// Each subpartition's records are in order among those of the others.
				var per [subs][]string
				for _, rec := range got {
					s := subOf(rec)
					per[s] = append(per[s], rec)
				}
				for s := range subs {
					sameRecords(t, fmt.Sprint("range, subpartition ", s), per[s], want[s])
				}
			})
		}
	}
}
