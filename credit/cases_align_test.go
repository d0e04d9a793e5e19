package credit

import (
	"fmt"
	"testing"

	"github.com/weirflow/weir/segment"
)

// ALN-26, the sender's part: data behind an aligned barrier waits here, whatever the credit and however long. (A priority event
// passes only when there is no credit, as recorded from Flink; with credit it goes first after the resume.) A resume of a
// sender that is not blocked, or a second one, is an error of the protocol (FLINK-16404).
func TestALN26DataWaitsAtTheSender(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	defer r.close()
	r.request(0, 10)
	r.w.AddEvent(0, alignedBarrier(1))
	r.one(segment.AlignedBarrier, 0, 0, "")
	for i := range 3 {
		r.buffer(0, []byte(fmt.Sprint(i)), true)
	}
	r.w.AddEvent(0, someEvent())
	r.w.Flush(0)
	for range 100 { // time passes
		r.part.FlushDirty()
		r.none()
	}
	r.w.AddEvent(0, unalignedBarrier(2))
	r.none()
	r.noError()
	r.feed(AppendResumeConsumption(nil, senderChannel(0)))
	sent := r.take()
	if len(sent) != 5 {
		t.Fatalf("%d messages after the resume, want 5", len(sent))
	}
	r.want(sent[0], segment.PrioritizedEvent, 1, 3, "")
	for i := range 3 {
		r.want(sent[i+1], segment.DataBuffer, int32(i+2), int32(2-i), fmt.Sprint(i))
	}
	r.want(sent[4], segment.EventBuffer, 5, 0, "")
	r.noError()
	r.feed(AppendResumeConsumption(nil, senderChannel(0))) // the second in a row
	r.lastError(ClassIllegalState, true)

	r = newSenderRig(t, PartitionConfig{Exclusive: 2}, 16, 64)
	defer r.close()
	r.request(0, 10)
	r.buffer(0, []byte("x"), true)
	r.one(segment.DataBuffer, 0, 0, "x")
	r.feed(AppendResumeConsumption(nil, senderChannel(0))) // there was no block
	r.lastError(ClassIllegalState, true)
}
