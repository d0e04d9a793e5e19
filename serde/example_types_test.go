package serde_test

import (
	"fmt"

	"github.com/weirflow/weir/serde"
)

// pair is the serializer of a record type of one's own: Flink's Tuple2<String, Long>.
type pair = serde.Tuple2Serializer[string, int64, serde.StringSerializer, serde.LongSerializer]

// A record of a streaming edge: an element whose value a type serializer made.
func Example_element() {
	value := pair{}.Append(nil, serde.Tuple2[string, int64]{F0: "clicks", F1: 42})
	rec := serde.AppendElement(nil, &serde.Element{Kind: serde.Record, HasTimestamp: true, Timestamp: 1000, Value: value})

	var e serde.Element
	if err := serde.DecodeElement(rec, &e); err != nil {
		fmt.Println(err)
		return
	}
	v, err := serde.DecodeValue(pair{}, e.Value)
	fmt.Println(e.Kind, e.Timestamp, v.F0, v.F1, err)
	// Output: StreamRecord 1000 clicks 42 <nil>
}

// The subtask that a key belongs to, of four subtasks that share 128 key groups.
func ExampleChannelOf() {
	hash := serde.HashString("hello")
	fmt.Println(serde.KeyGroup(hash, 128), serde.ChannelOf(hash, 128, 4))
	// Output: 35 1
}
