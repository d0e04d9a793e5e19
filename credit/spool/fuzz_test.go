package spool

import (
	"errors"
	"testing"

	"github.com/weirflow/weir/segment"
)

// Any bytes as a file: an error that wraps ErrCorrupt, or buffers that are within bounds. With a second input the checksums
// are made right, so that what lies behind them is reached.
func FuzzReadFile(f *testing.F) {
	for seed := range uint64(3) {
		file, _ := build(f, seed, 1+int(seed), 2)
		f.Add(file, int32(0), int32(0), uint16(0), uint16(0))
		f.Add(file, int32(0), int32(seed), uint16(testBuffer), uint16(len(file)/2))
	}
	f.Fuzz(func(t *testing.T, file []byte, first, last int32, merge, damage uint16) {
		if len(file) > 1<<16 {
			t.Skip("larger than anything that the size could matter for")
		}
		if int(damage) < len(file) {
			file = append([]byte(nil), file...)
			file[damage] ^= 1
			seal(file)
		}
		total := 0
		err := readAll(file, first, last, int(merge), func(g []Entry, p []byte) {
			if len(g) > MaxGroup || len(g) > 1 && len(p) > int(merge) {
				t.Fatalf("a group of %d buffers, %d bytes", len(g), len(p))
			}
			for i := range g {
				if !g[i].Type.Valid() || g[i].Type == segment.None || g[i].Len < 1 || g[i].At < HeaderLen || g[i].At+int64(g[i].Len) > int64(len(file)) {
					t.Fatalf("entry %+v of a file of %d bytes", g[i], len(file))
				}
			}
			total += len(p)
		})
		if err != nil && !errors.Is(err, ErrCorrupt) {
			if _, cerr := layoutOf(file); cerr != nil || first >= 0 && last >= first {
				l, _ := layoutOf(file)
				if last < l.Subpartitions {
					t.Fatalf("not an error of the file: %v", err)
				}
			}
		}
		if total > 1<<24*testBuffer {
			t.Fatalf("%d bytes out of a file of %d", total, len(file))
		}
	})
}

// seal makes the checksums of header, footer and index records right again, whatever they say.
func seal(file []byte) {
	if len(file) < HeaderLen+FooterLen {
		return
	}
	be.PutUint32(file[HeaderLen-4:], Sum(file[:HeaderLen-4]))
	foot := file[len(file)-FooterLen:]
	be.PutUint32(foot[FooterLen-4:], Sum(foot[:FooterLen-4]))
	l, err := layoutOf(file)
	if err != nil {
		return
	}
	for region := range l.Regions {
		p := file[l.Index+int64(region)*RegionLen:]
		be.PutUint32(p[RegionLen-4:], place{region, regionPlace, 0}.sum(p[:RegionLen-4]))
		runs, err := parseRegion(p[:RegionLen], region, &l)
		if err != nil {
			continue
		}
		for sub := range l.Subpartitions {
			p := file[runs+int64(sub)*RunLen:]
			be.PutUint32(p[RunLen-4:], place{region, sub, runPlace}.sum(p[:RunLen-4]))
			var r run
			if r.parse(p[:RunLen], place{region, sub, runPlace}, &l) != nil {
				continue
			}
			for n := range min(r.n, 1<<12) {
				p := file[r.at+int64(n)*EntryLen:]
				be.PutUint32(p[EntryLen-4:], place{region, sub, n}.sum(p[:EntryLen-4]))
			}
		}
	}
}
