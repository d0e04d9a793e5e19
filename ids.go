package weir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/weirflow/weir/credit"
)

// PartitionID is Flink's ResultPartitionID: 60 bytes, as on the wire.
type PartitionID = credit.PartitionID

// NameID is the id that a name stands for: the SHA-256 of the name, cut to the id fields, with all integers in it 0. Both
// ends that use the same name mean the same partition.
func NameID(name string) PartitionID {
	sum := sha256.Sum256([]byte(name))
	var id PartitionID
	copy(id[0:16], sum[0:16])   // intermediate data set
	copy(id[20:36], sum[16:32]) // execution graph
	copy(id[36:52], sum[0:16])  // job vertex: the digest has no more bytes, so it begins again
	return id
}

// NameAttempt is the id that a name stands for in an attempt of its producer: one that starts again is another partition. Attempt 0 is
// NameID.
func NameAttempt(name string, attempt int) PartitionID {
	return NameID(name).WithAttempt(int32(attempt))
}

// ParseID reads a partition id from its 120 hexadecimal digits.
func ParseID(s string) (id PartitionID, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("partition id %q: want %d hexadecimal digits", s, 2*len(id))
	}
	copy(id[:], b)
	return id, nil
}
