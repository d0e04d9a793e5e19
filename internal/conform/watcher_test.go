package conform

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirflow/weir/internal/modelrun"
)

// watcher checks the invariants of alignment on what was seen, without any notion of how a handler works.
type watcher struct {
	mode     string
	line     [][]watched // by channel, data and barriers that the sender has not sent, because it stopped
	stopped  []bool
	sent     [][]watched // by channel, data and barriers, in the order of sending
	out      [][]int     // payloads handed out
	behind   []int64     // newest barrier of the channel that was handed out and blocks it
	blocked  map[int]bool
	ended    map[int]bool
	lastTrig int64
	lastAbrt int64
	over     int64 // newest checkpoint that was triggered or given up
	running  int64 // unaligned checkpoint whose data is being stored
	at       []int // how much of each channel was out when it was triggered
	stored   map[int][]int
	refused  bool // a start failed midway: what the first channels store is to be dropped
}

type watched struct {
	payload int   // of data
	barrier int64 // else
	kind    string
}

func newWatcher(s *Scenario) *watcher {
	n := s.Int("channels")
	return &watcher{mode: s.Config["mode"], line: make([][]watched, n), stopped: make([]bool, n), sent: make([][]watched, n), out: make([][]int, n), behind: make([]int64, n),
		blocked: map[int]bool{}, ended: map[int]bool{}, stored: map[int][]int{}}
}

func (w *watcher) step(st *Step, outs []string, met modelrun.Exposure) error {
	switch st.Op {
	case "buf":
		w.send(st.Int(0), watched{payload: st.Int(1)})
	case "barrier":
		w.send(st.Int(0), watched{barrier: st.Int64(1), kind: st.Arg(2)})
	}
	for i, line := range outs {
		f := strings.Fields(line)
		num := func(i int) int64 {
			n, err := strconv.ParseInt(f[i], 10, 64)
			if err != nil {
				panic(line)
			}
			return n
		}
		met[f[0]]++
		var err error
		switch f[0] {
		case "buf":
			err = w.buf(int(num(1)), int(num(2)))
			if w.mode == "exactly-once" && len(w.blocked) > 0 {
				met["held back"]++
			}
		case "block":
			w.blocked[int(num(1))] = true
			w.behind[num(1)] = max(w.behind[num(1)], w.newestOut(int(num(1))))
		case "resume":
			if w.ended[int(num(1))] {
				err = fmt.Errorf("channel %d ended and is resumed", num(1))
			}
			delete(w.blocked, int(num(1)))
			w.stopped[num(1)] = false
			w.deliver(int(num(1)))
		case "release":
			w.ended[int(num(1))] = true
		case "started":
			w.running, w.at, w.stored, w.refused = num(1), make([]int, len(w.out)), map[int][]int{}, true
			for ch := range w.out {
				w.at[ch] = len(w.out[ch])
			}
		case "persist":
			if id := num(1); id == w.running {
				w.stored[int(num(2))] = append(w.stored[int(num(2))], int(num(3)))
			}
		case "trigger":
			kind, _, _ := strings.Cut(f[2], ":")
			met["trigger "+kind]++
			if kind == "unaligned" && strings.HasPrefix(st.Op, "clock") {
				met["turned unaligned"]++
			}
			if slices.ContainsFunc(outs[max(0, i-2):i], func(l string) bool { return strings.HasPrefix(l, "release ") }) {
				met["triggered by an end"]++
			}
			w.refused = false
			if num(1) == w.lastTrig {
				met["repeated trigger"]++
			}
			err = w.trigger(num(1), kind, f)
		case "complete":
			err = w.complete(num(1))
		case "abort":
			met["abort "+f[2]]++
			err = w.abort(num(1))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// send lets an item go, or wait where the sender has stopped; an unaligned barrier overtakes what waits there.
func (w *watcher) send(ch int, it watched) {
	if it.kind == "unaligned" {
		w.sent[ch] = append(w.sent[ch], it)
		return
	}
	w.line[ch] = append(w.line[ch], it)
	w.deliver(ch)
}

func (w *watcher) deliver(ch int) {
	for len(w.line[ch]) > 0 && !w.stopped[ch] {
		it := w.line[ch][0]
		w.line[ch] = w.line[ch][1:]
		w.sent[ch] = append(w.sent[ch], it)
		w.stopped[ch] = it.barrier != 0 && it.kind != "atleastonce"
	}
}

// newestOut is the newest barrier that was sent before the next data of the channel.
func (w *watcher) newestOut(ch int) (id int64) {
	n := len(w.out[ch])
	for _, it := range w.sent[ch] {
		if it.barrier == 0 {
			if n == 0 {
				return id
			}
			n--
		} else {
			id = max(id, it.barrier)
		}
	}
	return id
}

// buf: each channel's data comes in order, each once (I16), and, when aligned, nothing from behind a barrier (I1).
func (w *watcher) buf(ch, payload int) error {
	n := len(w.out[ch])
	for _, it := range w.sent[ch] {
		if it.barrier != 0 {
			continue
		}
		if n == 0 {
			if it.payload != payload {
				return fmt.Errorf("channel %d: data %d before %d", ch, payload, it.payload)
			}
			break
		}
		n--
	}
	if w.mode == "exactly-once" && w.blocked[ch] {
		return fmt.Errorf("channel %d is blocked and hands out %d", ch, payload)
	}
	w.out[ch] = append(w.out[ch], payload)
	return nil
}

// before is the data of a channel that was sent before barrier id; ok is false if the channel did not send it.
func (w *watcher) before(ch int, id int64) (data []int, ok bool) {
	for _, it := range w.sent[ch] {
		switch {
		case it.barrier == id:
			return data, true
		case it.barrier == 0:
			data = append(data, it.payload)
		}
	}
	return data, false
}

func (w *watcher) trigger(id int64, kind string, f []string) error {
	ascending := id > w.lastTrig && id > w.lastAbrt
	if w.mode == "at-least-once" {
		ascending = true // the last channel may repeat one
	}
	if !ascending {
		return fmt.Errorf("trigger %d after trigger %d and abort %d", id, w.lastTrig, w.lastAbrt)
	}
	w.lastTrig = max(w.lastTrig, id)
	w.over = max(w.over, id)
	for _, field := range f[3:] {
		if _, v, _ := strings.Cut(field, "="); strings.HasPrefix(v, "-") {
			return fmt.Errorf("trigger %d with %s", id, field)
		}
	}
	if kind == "unaligned" || w.mode == "at-least-once" {
		return nil
	}
	for ch := range w.sent { // I2
		if data, ok := w.before(ch, id); ok && len(w.out[ch]) < len(data) {
			return fmt.Errorf("trigger %d: %d of %d before the barrier of channel %d were handed out", id, len(w.out[ch]), len(data), ch)
		}
	}
	return nil
}

// complete: what was handed out before the trigger and what was stored are the data before each channel's barrier (I11).
func (w *watcher) complete(id int64) error {
	if id != w.running || w.refused {
		return nil
	}
	w.running = 0
	for ch := range w.sent {
		data, ok := w.before(ch, id)
		if !ok {
			continue // it ended, or its barrier came later than the checkpoint's end
		}
		got := append(slices.Clone(w.out[ch][:w.at[ch]]), w.stored[ch]...)
		if len(got) > len(data) && w.at[ch] > len(data) && len(w.stored[ch]) == 0 {
			return fmt.Errorf("checkpoint %d: more of channel %d was handed out than was sent before the barrier", id, ch)
		}
		if !slices.Equal(got, data) {
			return fmt.Errorf("checkpoint %d, channel %d: sent before the barrier %v; handed out before the trigger %v, stored %v",
				id, ch, data, w.out[ch][:w.at[ch]], w.stored[ch])
		}
	}
	return nil
}

func (w *watcher) abort(id int64) error {
	if id <= w.lastAbrt && w.mode != "at-least-once" {
		return fmt.Errorf("abort %d after abort %d", id, w.lastAbrt)
	}
	if id < w.lastTrig && w.mode != "at-least-once" || id == w.lastTrig && w.mode == "exactly-once" {
		return fmt.Errorf("abort %d after trigger %d", id, w.lastTrig)
	}
	if w.running == id {
		w.running = 0
	}
	w.lastAbrt = max(w.lastAbrt, id)
	w.over = max(w.over, id)
	return nil
}
