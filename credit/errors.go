package credit

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinels for errors.Is: channels, views and partitions.
var (
	// ErrReordered: a message with another sequence number than the expected one (BufferReorderingException). Ends the channel.
	ErrReordered = errors.New("sequence number out of order")
	// ErrNoBuffer: the sender spent credit that it did not have. Ends the channel.
	ErrNoBuffer = errors.New("message without credit")
	// ErrPartitionNotFound: the partition does not exist (PartitionNotFoundException); the consumer may ask again.
	ErrPartitionNotFound = errors.New("partition not found")
	// ErrProducerFailed: the producer of the partition failed (ProducerFailedException).
	ErrProducerFailed = errors.New("producer failed")
	// ErrReleased: the channel, view or partition was released.
	ErrReleased = errors.New("released")
	// ErrOldAttempt: a newer attempt of the same producer has taken the partition's place.
	ErrOldAttempt = errors.New("a newer attempt has taken its place")
	// ErrTLS: one end of a connection speaks TLS, and the other one does not.
	ErrTLS = errors.New("TLS at one end only")
)

// ChannelError is an error that ends one channel; the others on its connection go on.
type ChannelError struct {
	// Peer is the address of the other end; empty for a local channel.
	Peer string
	// Partition is what the channel consumes.
	Partition PartitionID
	// Channel is the channel's id on the wire; zero for a local channel.
	Channel ChannelID
	// Index is the channel's index in its gate, -1 if it has none.
	Index int
	// Err is what happened.
	Err error
}

// Error names the channel, the partition and the peer.
func (e *ChannelError) Error() string {
	var b strings.Builder
	b.WriteString("credit: channel ")
	if e.Index >= 0 {
		fmt.Fprintf(&b, "%d ", e.Index)
	}
	if e.Channel.IsZero() && e.Peer == "" && e.Partition != (PartitionID{}) {
		b.WriteString("(local)")
	} else {
		fmt.Fprintf(&b, "(%s)", e.Channel)
	}
	if e.Partition != (PartitionID{}) {
		fmt.Fprintf(&b, " of partition %s", e.Partition)
	}
	if e.Peer != "" {
		fmt.Fprintf(&b, " at %s", e.Peer)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns the cause.
func (e *ChannelError) Unwrap() error { return e.Err }

// ConnError is an error that ends a connection and with it all channels on it.
type ConnError struct {
	// Peer is the address of the other end.
	Peer string
	// Err is what happened.
	Err error
}

// Error names the peer.
func (e *ConnError) Error() string {
	if e.Peer == "" {
		return fmt.Sprintf("credit: connection: %v", e.Err)
	}
	return fmt.Sprintf("credit: connection to %s: %v", e.Peer, e.Err)
}

// Unwrap returns the cause.
func (e *ConnError) Unwrap() error { return e.Err }
