package credit

import (
	"fmt"
	"testing"

	"github.com/weirflow/weir/serde"
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
				if n := r.bp.disk.layout.Regions; n < 5 {
					t.Errorf("the file has %d regions", n)
				}
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

// A broadcast is stored once, whatever the number of subpartitions, and each gets all of it: also of a record that is larger than all
// memory, and by range, where no record may be cut by another subpartition's.
func TestBlockingBroadcast(t *testing.T) {
	const subs = 4
	fs := newMemFS()
	r := newBlockingRig(t, BlockingConfig{Subpartitions: subs, Files: fs})
	var want [subs][][]byte
	shared, own := 0, 0
	for i := range 60 {
		rec := someRecord(9, i, []int{10, 200, 3000, 40_000}[i%4])
		if i%5 == 4 {
			sub := i % subs
			rec = someRecord(sub, i, 500)
			r.write(sub, rec)
			want[sub] = append(want[sub], rec)
			own += len(rec)
			continue
		}
		r.write(serde.AllSubpartitions, rec)
		for s := range want {
			want[s] = append(want[s], rec)
		}
		shared += len(rec)
	}
	r.finish()
	payload := own + shared
	if n := len(fs.data); n < payload || n > payload*3/2+50_000 { // directories are larger than payloads this small
		t.Errorf("a file of %d bytes for records of %d, %d of them for all %d subpartitions", n, payload, shared, subs)
	}
	for s := range subs {
		r.ask(One(int32(s)), blockingChannel(s), 1<<20)
		sameRecords(t, fmt.Sprint("subpartition ", s), r.records(blockingChannel(s), 1, NoCompression), want[s])
	}
	r.ask(SubpartitionRange{1, 2}, blockingChannel(9), 1<<20)
	got := r.records(blockingChannel(9), 2, NoCompression)
	if len(got) != len(want[1])+len(want[2]) {
		t.Errorf("a range brought %d records, want %d", len(got), len(want[1])+len(want[2]))
	}
	count := map[string]int{}
	for _, rec := range got {
		count[rec]++
	}
	for _, rec := range append(append([][]byte(nil), want[1]...), want[2]...) {
		count[string(rec)]--
	}
	for rec, n := range count {
		if n != 0 {
			t.Fatalf("a record of %d bytes came %d times too often", len(rec), n)
		}
	}
}
