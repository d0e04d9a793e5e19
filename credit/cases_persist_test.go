package credit

import (
	"fmt"
	"testing"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// persistLog is a sink that keeps the first byte of what it is handed.
type persistLog struct{ got []byte }

func (s *persistLog) InputData(_ int64, _ int, _ int32, b segment.Buffer) {
	s.got = append(s.got, b.Bytes()[0])
}

// ALN-10, with the loop at work: three buffers are queued when the checkpoint starts, three more and the barrier come through
// the ring from another goroutine at the same moment. All six are recorded, in order, each once (FLINK-17564).
func TestALN10RecordedWhileMoreArrive(t *testing.T) {
	rounds := 10000
	if testing.Short() {
		rounds = 100
	}
	sink := &persistLog{}
	gate := NewGate(GateConfig{Channels: 1, Sink: sink})
	link := gate.NewLink(16, nil)
	numbers := make([]segment.Buffer, 7)
	for i := range numbers {
		numbers[i] = segment.Wrap([]byte{byte(i)}, segment.DataBuffer)
	}
	seq := int32(0)
	arrival := func(b segment.Buffer) Arrival {
		a := Arrival{Seq: seq, Buf: b}
		seq++
		return a
	}
	start, late, done := make(chan int64), make(chan struct{}), make(chan struct{})
	const lateEvery = 8 // where threads take turns, nothing comes late by itself
	go func() {
		defer close(done)
		for id := range start {
			e := event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: id,
				Options: event.Options{Alignment: event.Unaligned, Timeout: event.NoTimeout}}}
			if id%lateEvery == 0 {
				<-late
			}
			last := segment.Wrap(event.Append(nil, &e), event.DataTypeOf(&e, true))
			for _, b := range []segment.Buffer{numbers[4], numbers[5], numbers[6], last} {
				for !link.arrivals.Push(arrival(b)) {
				}
			}
			done <- struct{}{}
		}
	}()
	split := map[int]int{} // how many were recorded by the start itself
	for id := int64(1); id <= int64(rounds); id++ {
		sink.got = sink.got[:0]
		for i := 1; i <= 3; i++ {
			gate.Deliver(arrival(numbers[i]))
		}
		start <- id
		for range id % 40 { // another moment each time
			gate.Queued(0)
		}
		gate.DrainRing()
		if err := gate.CheckpointStarted(0, &event.Barrier{ID: id}); err != nil {
			t.Fatal(err)
		}
		split[len(sink.got)]++
		if id%lateEvery == 0 {
			late <- struct{}{}
		}
		<-done
		for polled := 0; polled < 7; {
			_, st, err := gate.Poll()
			if err != nil {
				t.Fatal(err)
			}
			if st == Ready {
				polled++
			}
		}
		if fmt.Sprint(sink.got) != "[1 2 3 4 5 6]" {
			t.Fatalf("round %d: recorded %v", id, sink.got)
		}
		if err := gate.CheckpointStopped(0, id); err != nil {
			t.Fatal(err)
		}
	}
	close(start)
	<-done
	gate.Close()
	t.Logf("recorded by the start itself: %v", split)
	if split[3] == 0 {
		t.Error("no round had anything come later than the start")
	}
}
