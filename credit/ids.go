package credit

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// ID is a 16-byte Flink AbstractID: two 64-bit halves, lower first, each big-endian.
// Flink prints it as the hex of these 16 bytes, and so does String.
type ID [16]byte

// String returns 32 lower-case hex digits (AbstractID.toHexString).
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether all bytes are zero.
func (id ID) IsZero() bool { return id == ID{} }

// ChannelID is Flink's InputChannelID: 16 bytes that the client draws at random; ours has its channel's number in the last four.
// After the partition
// request it is the only routing key on a connection, in both directions.
type ChannelID [16]byte

// NewChannelID draws a random id.
func NewChannelID() ChannelID {
	var id ChannelID
	_, _ = rand.Read(id[:]) // never fails (documented by crypto/rand)
	return id
}

// String returns 32 lower-case hex digits, as in Flink's logs.
func (id ChannelID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether all bytes are zero.
func (id ChannelID) IsZero() bool { return id == ChannelID{} }

// PartitionID is Flink's ResultPartitionID in its 60 wire bytes: data set (16), partition number (i32),
// execution graph (16), job vertex (16), subtask index (i32), attempt number (i32), all big-endian.
// Two ids are equal when all five parts are: a restarted producer has another attempt number and hence
// is another partition.
type PartitionID [60]byte

// Offsets of the parts inside a PartitionID.
const (
	pidDataSet   = 0
	pidPartition = 16
	pidGraph     = 20
	pidVertex    = 36
	pidSubtask   = 52
	pidAttempt   = 56
)

// MakePartitionID builds an id from its parts.
func MakePartitionID(dataSet ID, partition int32, graph, vertex ID, subtask, attempt int32) PartitionID {
	var p PartitionID
	copy(p[pidDataSet:], dataSet[:])
	binary.BigEndian.PutUint32(p[pidPartition:], uint32(partition))
	copy(p[pidGraph:], graph[:])
	copy(p[pidVertex:], vertex[:])
	binary.BigEndian.PutUint32(p[pidSubtask:], uint32(subtask))
	binary.BigEndian.PutUint32(p[pidAttempt:], uint32(attempt))
	return p
}

// DataSet returns the IntermediateDataSetID.
func (p *PartitionID) DataSet() (id ID) { copy(id[:], p[pidDataSet:]); return id }

// Partition returns the partition number within the data set.
func (p *PartitionID) Partition() int32 { return int32(binary.BigEndian.Uint32(p[pidPartition:])) }

// Graph returns the ExecutionGraphID of the producer.
func (p *PartitionID) Graph() (id ID) { copy(id[:], p[pidGraph:]); return id }

// Vertex returns the JobVertexID of the producer.
func (p *PartitionID) Vertex() (id ID) { copy(id[:], p[pidVertex:]); return id }

// Subtask returns the producer's subtask index.
func (p *PartitionID) Subtask() int32 { return int32(binary.BigEndian.Uint32(p[pidSubtask:])) }

// Attempt returns the producer's attempt number.
func (p *PartitionID) Attempt() int32 { return int32(binary.BigEndian.Uint32(p[pidAttempt:])) }

// WithAttempt is the id with another attempt number: the same partition as a restarted producer makes it, and hence another one.
func (p PartitionID) WithAttempt(attempt int32) PartitionID {
	binary.BigEndian.PutUint32(p[pidAttempt:], uint32(attempt))
	return p
}

// String returns Flink's text form:
// <data set>#<partition>@<graph>_<vertex>_<subtask>_<attempt>.
func (p PartitionID) String() string {
	return fmt.Sprintf("%s#%d@%s_%s_%d_%d", p.DataSet(), p.Partition(), p.Graph(), p.Vertex(), p.Subtask(), p.Attempt())
}

// ParsePartitionID reads the text form that String writes.
func ParsePartitionID(s string) (PartitionID, error) {
	fail := func() (PartitionID, error) {
		return PartitionID{}, fmt.Errorf("credit: partition id %q: want <data set>#<partition>@<graph>_<vertex>_<subtask>_<attempt>", s)
	}
	left, right, ok := strings.Cut(s, "@")
	if !ok {
		return fail()
	}
	set, number, ok := strings.Cut(left, "#")
	parts := strings.Split(right, "_")
	if !ok || len(parts) != 4 {
		return fail()
	}
	var ids [3]ID
	for i, text := range []string{set, parts[0], parts[1]} {
		if len(text) != 32 {
			return fail()
		}
		if _, err := hex.Decode(ids[i][:], []byte(text)); err != nil {
			return fail()
		}
	}
	var nums [3]int32
	for i, text := range []string{number, parts[2], parts[3]} {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return fail()
		}
		nums[i] = int32(n)
	}
	return MakePartitionID(ids[0], nums[0], ids[1], ids[2], nums[1], nums[2]), nil
}

// SubpartitionRange is Flink's ResultSubpartitionIndexSet: the subpartitions First..Last, both included.
type SubpartitionRange struct {
	// First and Last are indices of subpartitions, 0 <= First <= Last.
	First, Last int32
}

// One is the range that holds only the index i.
func One(i int32) SubpartitionRange { return SubpartitionRange{First: i, Last: i} }

// Valid reports whether 0 <= First <= Last.
func (r SubpartitionRange) Valid() bool { return r.First >= 0 && r.Last >= r.First }

// Len is the number of subpartitions in the range. It is an int64, since a peer may send 0..2^31-1.
func (r SubpartitionRange) Len() int64 { return int64(r.Last) - int64(r.First) + 1 }

// String returns the index alone for a range of one, else "first-last".
func (r SubpartitionRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}
