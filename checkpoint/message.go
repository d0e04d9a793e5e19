package checkpoint

import (
	"encoding/json"
	"fmt"
	"time"
)

// protocolVersion is in each hello. The other side refuses another one.
const protocolVersion = 1

// kind is what a message is. The numbers are on the wire.
type kind uint8

const (
	// Both ways, the first one of each connection from the member.
	msgHello kind = 1
	msgPing  kind = 2
	msgPong  kind = 3

	// From a member.
	msgJoin    kind = 10 // wants the next epoch
	msgResume  kind = 11 // is in an epoch, and lost the connection
	msgAck     kind = 12
	msgDecline kind = 13
	msgEnded   kind = 14 // has reached the end of its data
	msgFail    kind = 15 // cannot go on in this epoch
	msgBye     kind = 16 // has committed everything, and goes

	// To a member.
	msgWelcome   kind = 30 // an epoch begins
	msgResumed   kind = 31
	msgTrigger   kind = 32
	msgCompleted kind = 33
	msgAborted   kind = 34
	msgFenced    kind = 35 // an epoch is over
	msgReplaced  kind = 36 // another process has this name now
	msgRefused   kind = 37
	msgGoodbye   kind = 38

	// Of a part that is put or got.
	msgChunk kind = 50 // raw bytes
	msgEnd   kind = 51 // all of it was sent
	msgDone  kind = 52 // and is durable
)

func (k kind) String() string {
	names := map[kind]string{
		msgHello: "hello", msgPing: "ping", msgPong: "pong", msgJoin: "join", msgResume: "resume", msgAck: "ack", msgDecline: "decline",
		msgEnded: "ended", msgFail: "fail", msgBye: "bye", msgWelcome: "welcome", msgResumed: "resumed", msgTrigger: "trigger",
		msgCompleted: "completed", msgAborted: "aborted", msgFenced: "fenced", msgReplaced: "replaced", msgRefused: "refused",
		msgGoodbye: "goodbye", msgChunk: "chunk", msgEnd: "end", msgDone: "done",
	}
	if s, ok := names[k]; ok {
		return s
	}
	return fmt.Sprintf("message %d", uint8(k))
}

// What a connection is for.
const (
	forMember = "member"
	forPut    = "put"
	forGet    = "get"
)

// message is a message of any kind: the fields that its kind does not have are empty, and not on the wire.
type message struct {
	Kind kind `json:"-"`

	// hello
	Version int    `json:"version,omitempty"`
	Purpose string `json:"purpose,omitempty"`
	Member  string `json:"member,omitempty"`
	Nonce   string `json:"nonce,omitempty"` // tells the processes of one name apart
	Part    string `json:"part,omitempty"`

	// hello to put or get, and all that concern an epoch or a checkpoint
	Epoch int32 `json:"epoch,omitempty"`
	ID    int64 `json:"id,omitempty"`

	Parts []Part `json:"parts,omitempty"` // ack
	Final bool   `json:"final,omitempty"` // ack: nothing follows what is in it
	Cause string `json:"cause,omitempty"` // decline, fail, aborted, fenced, refused

	Restored      *restoredState `json:"restored,omitempty"`       // welcome
	Finished      bool           `json:"finished,omitempty"`       // welcome: the pipeline is at its end
	Last          bool           `json:"last,omitempty"`           // completed, resumed: nothing follows it
	Completed     int64          `json:"completed,omitempty"`      // resumed
	Triggers      []Trigger      `json:"triggers,omitempty"`       // trigger: one; resumed: those in flight
	MemberTimeout time.Duration  `json:"member_timeout,omitempty"` // pong: silence that makes a member lost

	chunk []byte // chunk: valid until the next message is read
}

// restoredState is what a member begins an epoch with.
type restoredState struct {
	ID    int64       `json:"id"`
	Epoch int32       `json:"epoch"`
	State MemberState `json:"state"`
}

// Alignment says how barriers treat the data in front of them.
type Alignment uint8

// The alignments: wait for it, overtake it, or overtake it when a time is up.
const (
	Aligned Alignment = iota
	Unaligned
	Timed
)

func (a Alignment) String() string {
	switch a {
	case Aligned:
		return "aligned"
	case Unaligned:
		return "unaligned"
	case Timed:
		return "timed"
	}
	return fmt.Sprintf("alignment %d", uint8(a))
}

// Trigger begins a checkpoint.
type Trigger struct {
	// ID is larger than that of each checkpoint before, over all epochs.
	ID int64 `json:"id"`
	// Time is when it began, on the coordinator's clock, in milliseconds' precision: a barrier carries it.
	Time time.Time `json:"time"`
	// Alignment and AlignmentTimeout (of Timed) are for the barriers.
	Alignment        Alignment     `json:"alignment,omitempty"`
	AlignmentTimeout time.Duration `json:"alignment_timeout,omitempty"`
	// Final: all members have reached the end of their data. Each takes its snapshot at once, whether a barrier comes or not.
	Final bool `json:"final,omitempty"`
}

const (
	// maxControl bounds the body of a message, maxParts the parts of a member in a checkpoint: their names and numbers fit.
	maxControl = 512 << 10
	maxParts   = 2048
	// maxCause bounds the text of a cause.
	maxCause = 4 << 10
)

// check refuses what no honest peer sends.
func (m *message) check() error {
	if len(m.Parts) > maxParts || m.Restored != nil && len(m.Restored.State.Parts) > maxParts {
		return fmt.Errorf("%w: %s with %d parts, at most %d are allowed", ErrProtocol, m.Kind, len(m.Parts), maxParts)
	}
	seen := make(map[string]bool, len(m.Parts))
	for _, p := range m.Parts {
		if err := checkName("part", p.Name); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrProtocol, m.Kind, err)
		}
		if p.Size < 0 || seen[p.Name] {
			return fmt.Errorf("%w: %s: part %s twice, or with %d bytes", ErrProtocol, m.Kind, p.Name, p.Size)
		}
		seen[p.Name] = true
	}
	if m.ID < 0 || m.Epoch < 0 || m.Completed < 0 {
		return fmt.Errorf("%w: %s with checkpoint %d, epoch %d", ErrProtocol, m.Kind, m.ID, m.Epoch)
	}
	return nil
}

// body is what stands in the frame.
func (m *message) body() ([]byte, error) {
	if m.Kind == msgChunk {
		return m.chunk, nil
	}
	if len(m.Cause) > maxCause {
		m.Cause = m.Cause[:maxCause]
	}
	b, err := json.Marshal(m)
	if err == nil && len(b) > maxControl {
		err = fmt.Errorf("%w: %s of %d bytes, at most %d are allowed", ErrProtocol, m.Kind, len(b), maxControl)
	}
	return b, err
}
