package task_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

// multiWalk is a task with several inputs whose senders do as they like, and an operator that checks what it is given.
type multiWalk struct {
	t        *testing.T
	rng      *rand.Rand
	met      modelrun.Exposure
	rig      *rig
	multi    *task.MultiInput
	mask     task.Selection
	sent     map[[2]int][]uint64 // by input and channel
	got      map[[2]int][]uint64
	dataEnd  map[[2]int]bool // the channel said so
	over     map[[2]int]bool
	drained  []bool // EndInput came
	number   uint64
	selected bool // there is an operator that selects
}

func (w *multiWalk) Element(input, ch int, e *serde.Element) error {
	if w.selected && w.mask&(1<<input) == 0 && !w.allData(input) {
		w.t.Fatalf("input %d is read, selected are %b", input, w.mask)
	}
	if w.drained[input] {
		w.t.Fatalf("input %d has drained, and brings a record", input)
	}
	key := [2]int{input, ch}
	w.got[key] = append(w.got[key], binary.BigEndian.Uint64(e.Value))
	w.met["records"]++
	return nil
}

func (w *multiWalk) WatermarkEvent(int, *event.WatermarkEvent) error { return nil }

func (w *multiWalk) Notice(n *task.Notice) error {
	w.met["notice "+n.Status.String()]++
	return nil
}

func (w *multiWalk) EndInput(input int) error {
	if w.drained[input] {
		w.t.Fatalf("input %d drains twice", input)
	}
	w.drained[input] = true
	w.met["drained"]++
	return nil
}

// allData reports whether all of an input's channels have said the end of their data.
func (w *multiWalk) allData(input int) bool {
	for ch := range w.rig.seq[input] {
		if !w.dataEnd[[2]int{input, ch}] {
			return false
		}
	}
	return true
}

// send lets something arrive on a channel.
func (w *multiWalk) send(key [2]int, checkpoint *int64) {
	r := w.rig
	switch what := w.rng.IntN(30); {
	case w.over[key]:
	case what == 0 && w.dataEnd[key]:
		w.over[key] = true
		r.event(key[0], key[1], event.Event{Kind: event.EndOfPartition})
	case what == 0:
		w.dataEnd[key] = true
		mode := event.Drain
		if w.rng.IntN(6) == 0 {
			mode = event.NoDrain
		}
		r.event(key[0], key[1], event.Event{Kind: event.EndOfData, StopMode: mode})
	case what == 1: // unaligned: a priority event, handled whichever inputs are selected
		*checkpoint++
		r.barrier(key[0], key[1], *checkpoint, unalignedOptions)
	case !w.dataEnd[key]:
		var ns []uint64
		for range 1 + w.rng.IntN(3) {
			w.number++
			ns = append(ns, w.number)
		}
		w.sent[key] = append(w.sent[key], ns...)
		r.data(key[0], key[1], records(ns...))
	}
}

// TestModelOfMultiInput: whatever arrives on whichever input, each channel's records come in order, each once; an input that is
// not selected is not read before the end of its data; each input drains once; and the task is told once, at most, that all have.
func TestModelOfMultiInput(t *testing.T) {
	for _, selecting := range []bool{false, true} {
		name := map[bool]string{false: "in-turn", true: "selecting"}[selecting]
		t.Run(name, func(t *testing.T) {
			want, steps := modelrun.Steps(t, 6000), 0
			met := modelrun.Exposure{}
			for seed := modelrun.Seed(t); steps < want; seed++ {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { steps += walkMulti(t, seed, selecting, met) })
			}
			needed := []string{"records", "drained", "told END_OF_DATA", "told STOPPED", "told END_OF_INPUT", "told NOTHING_AVAILABLE",
				"notice CHECKPOINT", "notice CHECKPOINT_ABORTED"}
			if selecting {
				needed = append(needed, "no progress")
			}
			met.Report(t, "multi/"+name, steps, needed...)
		})
	}
}

func walkMulti(t *testing.T, seed uint64, selecting bool, met modelrun.Exposure) (steps int) {
	rng := rand.New(rand.NewPCG(seed, 23))
	w := &multiWalk{t: t, rng: rng, met: met, sent: map[[2]int][]uint64{}, got: map[[2]int][]uint64{}, dataEnd: map[[2]int]bool{},
		over: map[[2]int]bool{}, selected: selecting}
	channels := make([]int, 1+rng.IntN(4))
	var keys [][2]int
	for i := range channels {
		channels[i] = 1 + rng.IntN(3)
		for ch := range channels[i] {
			keys = append(keys, [2]int{i, ch})
		}
	}
	w.drained = make([]bool, len(channels))
	w.rig = newRig(t, task.InputConfig{Unaligned: align.UnalignedAlways}, channels...)
	cfg := task.SelectorConfig{}
	if selecting {
		cfg.Next = func() task.Selection {
			if rng.IntN(3) == 0 {
				if w.mask = task.Selection(rng.IntN(1 << len(channels))); w.mask == 0 {
					w.mask = task.AllInputs
				}
			}
			return w.mask
		}
		w.mask = task.AllInputs
	}
	var err error
	w.multi, err = task.NewMultiInput(w, cfg, w.rig.inputs...)
	must(t, err)
	checkpoint, ends := int64(0), 0
	for {
		steps++
		if rng.IntN(3) == 0 && w.rig.local.Stats().InUse < 32 {
			w.send(keys[rng.IntN(len(keys))], &checkpoint)
			continue
		}
		st, err := w.multi.Process()
		w.rig.said = nil
		if errors.Is(err, task.ErrNoProgress) && selecting {
			met["no progress"]++
			return steps
		}
		must(t, err)
		if st != task.More {
			met["told "+st.String()]++
		}
		switch st {
		case task.EndOfData, task.Stopped:
			if ends++; ends > 1 {
				t.Fatalf("the end of all data is told %d times", ends)
			}
		case task.EndOfInput:
			for _, key := range keys {
				if !slices.Equal(w.sent[key], w.got[key]) {
					t.Fatalf("input and channel %v: sent %v, got %v", key, w.sent[key], w.got[key])
				}
			}
			return steps
		case task.Nothing: // nothing selected has anything: let more arrive
			for range 4 {
				if key := keys[rng.IntN(len(keys))]; !selecting || w.mask&(1<<key[0]) != 0 || w.allData(key[0]) {
					w.send(key, &checkpoint)
				}
			}
		}
	}
}
