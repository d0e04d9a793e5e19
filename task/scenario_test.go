package task_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

// scenario is one of testdata: operations and what they did in Flink.
type scenario struct {
	name string
	cfg  map[string]string
	ops  [][2]string
}

func scenarios(t testing.TB, file string) (all []*scenario) {
	f, err := os.Open("testdata/" + file)
	must(t, err)
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line, _, _ := strings.Cut(sc.Text(), "#")
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "--- "); ok {
			words := strings.Fields(rest)
			s := &scenario{name: words[0], cfg: map[string]string{}}
			for _, w := range words[1:] {
				k, v, _ := strings.Cut(w, "=")
				s.cfg[k] = v
			}
			all = append(all, s)
		} else if op, out, ok := strings.Cut(line, " => "); ok {
			s := all[len(all)-1]
			s.ops = append(s.ops, [2]string{op, out})
		}
	}
	if len(all) == 0 {
		t.Fatal("no scenarios in " + file)
	}
	return all
}

// TestRecordedInput runs what was seen in Flink against the processor of one input, over a real gate.
//
// Operations: "el ch X" a buffer with one element arrives, "el2 ch X Y" one with two, "half1" and "half2" the first 7 bytes of an
// element and the rest; X is "r n" a record, "w ts" a watermark, "i 0" idle, "l 0" a latency marker, "a t|f" attributes. "ev ch
// EOD d|n", "EOP", "EOS", "B id al" an event arrives. "batch" says whether the batch may go on, "proc" processes, "avail" asks.
//
// Weir differs in two points. It resumes the senders before the operator is told of the checkpoint (nothing is read in
// between). And N13 is a test of its own, since priority events are handled when the task looks, not by a mail.
func TestRecordedInput(t *testing.T) {
	ran := 0
	for _, s := range scenarios(t, "input.txt") {
		if s.name == "N13" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			n, _ := strconv.Atoi(s.cfg["channels"])
			r := newRig(t, task.InputConfig{}, n)
			batch := true
			p := task.NewProcessor(r.inputs[0], rigOperator{r}, 0, func() bool { return batch })
			for _, op := range s.ops {
				got := r.run(p, &batch, strings.Fields(op[0]))
				if want := resumedFirst(op[1]); got != want {
					t.Fatalf("%s: got %q, want %q", op[0], got, want)
				}
			}
		})
		ran++
	}
	if ran != 14 {
		t.Errorf("%d scenarios ran", ran)
	}
}

// resumedFirst puts TRIGGER behind the RESUMEs that follow it, and takes off its metrics.
func resumedFirst(s string) string {
	words := strings.Split(s, "; ")
	for i, w := range words {
		if !strings.HasPrefix(w, "TRIGGER") {
			continue
		}
		words[i], _, _ = strings.Cut(w, "[")
		for ; i+1 < len(words) && strings.HasPrefix(words[i+1], "RESUME"); i++ {
			words[i], words[i+1] = words[i+1], words[i]
		}
		break
	}
	return strings.Join(words, "; ")
}

func (r *rig) run(p *task.Processor, batch *bool, op []string) string {
	ch := 0
	if len(op) > 1 {
		ch, _ = strconv.Atoi(op[1])
	}
	switch op[0] {
	case "batch":
		*batch = op[1] == "on"
	case "avail":
		return fmt.Sprintf("available=%t", p.Available())
	case "el":
		r.data(0, ch, element(r.t, op[2:]))
	case "el2":
		r.data(0, ch, append(element(r.t, op[2:4]), element(r.t, op[4:])...))
	case "half1":
		r.data(0, ch, element(r.t, op[2:])[:7])
	case "half2":
		r.data(0, ch, element(r.t, op[2:])[7:])
	case "ev":
		switch op[2] {
		case "EOD":
			e := event.Event{Kind: event.EndOfData, StopMode: event.Drain}
			if op[3] == "n" {
				e.StopMode = event.NoDrain
			}
			r.event(0, ch, e)
		case "EOP":
			r.event(0, ch, event.Event{Kind: event.EndOfPartition})
		case "EOS":
			r.event(0, ch, event.Event{Kind: event.EndOfOutputChannelState})
		case "B":
			id, _ := strconv.ParseInt(op[3], 10, 64)
			r.barrier(0, ch, id, alignedOptions)
		default:
			r.t.Fatal(op)
		}
	case "proc":
		st, err := p.Process()
		must(r.t, err)
		r.say("-> %v", st)
		return r.take()
	default:
		r.t.Fatal(op)
	}
	return "-"
}

func element(t testing.TB, op []string) []byte {
	n, _ := strconv.ParseInt(op[1], 10, 64)
	switch op[0] {
	case "r":
		return records(uint64(n))
	case "w":
		return framed(serde.Element{Kind: serde.Watermark, Timestamp: n})
	case "i":
		return framed(serde.Element{Kind: serde.WatermarkStatus, Idle: true})
	case "l":
		return framed(serde.Element{Kind: serde.LatencyMarker})
	case "a":
		return framed(serde.Element{Kind: serde.RecordAttributes, Backlog: op[1] == "t"})
	}
	t.Fatal(op)
	return nil
}

// TestRecordedSelection runs what was seen in Flink against the selector, with its way to treat an input that stops last, and
// compares what it tells after each step.
//
// Operations: "first" the first selection, "next" the next index, with the previous result as the last one read (1 at first), "up
// i STATUS" an update, "avail i", "starve". The configuration's selection is what the operator answers: 1-based inputs, ALL, or -
// for an operator that takes what comes.
func TestRecordedSelection(t *testing.T) {
	ran := 0
	for _, s := range scenarios(t, "selection.txt") {
		t.Run(s.name, func(t *testing.T) {
			n, _ := strconv.Atoi(s.cfg["inputs"])
			cfg := task.SelectorConfig{Inputs: n, StoppedAsFlink: true}
			switch sel := s.cfg["selection"]; sel {
			case "-":
			case "ALL":
				cfg.Next = func() task.Selection { return task.AllInputs }
			default:
				i, _ := strconv.Atoi(sel)
				cfg.Next = func() task.Selection { return 1 << (i - 1) }
			}
			sel, err := task.NewSelector(cfg)
			must(t, err)
			last := 1
			for _, op := range s.ops {
				got := selectStep(t, sel, &last, strings.Fields(op[0]))
				got += fmt.Sprintf(" {allFinished=%t allData=%t any=%t}", sel.AllFinished(), sel.AllDataFinished(), sel.AnyAvailable())
				if want := inOurWords(op[1]); got != want {
					t.Fatalf("%s: got %q, want %q", op[0], got, want)
				}
			}
		})
		ran++
	}
	if ran != 11 {
		t.Errorf("%d scenarios ran", ran)
	}
}

func inOurWords(s string) string {
	out, after, _ := strings.Cut(s, " {")
	switch {
	case strings.HasPrefix(out, "ERROR IOException: Can not make a progress"):
		out = "ERROR no progress"
	case strings.HasPrefix(out, "ERROR"):
		out = "ERROR state"
	}
	return out + " {" + after
}

func selectStep(t *testing.T, s *task.Selector, last *int, op []string) string {
	i := 0
	if len(op) > 1 {
		i, _ = strconv.Atoi(op[1])
	}
	switch op[0] {
	case "first":
		s.Next()
	case "next":
		if *last = s.Select(*last); *last < 0 {
			defer func() { *last = 1 }()
		}
		return fmt.Sprintf("idx=%d", *last)
	case "avail":
		s.SetAvailable(i)
	case "starve":
		return fmt.Sprint(s.Starving())
	case "up":
		st, err := s.Update(status(t, op[2]), i)
		switch {
		case errors.Is(err, task.ErrNoProgress):
			return "ERROR no progress"
		case errors.Is(err, align.ErrState):
			return "ERROR state"
		case err != nil:
			t.Fatal(err)
		}
		return st.String()
	default:
		t.Fatal(op)
	}
	return "ok"
}

func status(t *testing.T, name string) task.Status {
	for st := task.Nothing; st <= task.EndOfInput; st++ {
		if st.String() == name {
			return st
		}
	}
	t.Fatal(name)
	return 0
}
