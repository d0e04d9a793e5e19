package credit

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The table is a map: any ids, numbered ones, random ones and those that share a place, in any order.
func TestChannelTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table channelTable[int]
		model := map[ChannelID]*int{}
		draw := func() (id ChannelID) {
			id[0] = byte(rapid.IntRange(0, 2).Draw(t, "id"))
			setChannelNumber(&id, rapid.SampledFrom([]uint32{0, 1, 2, 3, 8, 64, 1 << 31}).Draw(t, "number"))
			return id
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(*rapid.T) {
				id, v := draw(), new(int)
				table.put(id, v)
				model[id] = v
			},
			"remove": func(*rapid.T) {
				id := draw()
				table.remove(id)
				delete(model, id)
			},
			"get": func(t *rapid.T) {
				id := draw()
				if got := table.get(&id); got != model[id] {
					t.Fatalf("%s: %p, want %p", id, got, model[id])
				}
			},
			"": func(t *rapid.T) {
				if table.len() != len(model) {
					t.Fatalf("%d, want %d", table.len(), len(model))
				}
				ids := slices.SortedFunc(maps.Keys(model), func(a, b ChannelID) int { return bytes.Compare(a[:], b[:]) })
				n := 0
				for v := range table.values() {
					if n >= len(ids) || v != model[ids[n]] {
						t.Fatalf("value %d is not that of the next id", n)
					}
					n++
				}
				if n != len(model) {
					t.Fatalf("%d values, want %d", n, len(model))
				}
			},
		})
	})
}

// Channels that are numbered have a place each: none pushes another out.
func TestNumberedChannelsHavePlaces(t *testing.T) {
	const n = 10_000
	var table channelTable[int]
	ids := make([]ChannelID, n)
	for i := range ids {
		ids[i] = NewChannelID()
		setChannelNumber(&ids[i], uint32(i+1))
		table.put(ids[i], new(int))
	}
	for range 2 { // the second time after all places were filled anew
		for i := range ids {
			if table.get(&ids[i]) == nil {
				t.Fatal("lost a channel")
			}
		}
	}
	for i := range ids {
		if p := table.place(&ids[i]); p.v == nil || p.id != ids[i] {
			t.Fatalf("channel %d has no place", i)
		}
	}
}

var benchTable *int

func BenchmarkChannelTable(b *testing.B) {
	const n = 10_000
	for _, numbered := range []bool{true, false} {
		name := "ids=random"
		if numbered {
			name = "ids=numbered"
		}
		b.Run(name, func(b *testing.B) {
			var table channelTable[int]
			ids := make([]ChannelID, n)
			for i := range ids {
				ids[i] = NewChannelID()
				if numbered {
					setChannelNumber(&ids[i], uint32(i+1))
				}
				table.put(ids[i], new(int))
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				benchTable = table.get(&ids[i])
				if i++; i == n {
					i = 0
				}
			}
		})
	}
}
