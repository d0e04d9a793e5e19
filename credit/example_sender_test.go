package credit_test

import (
	"fmt"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
)

// printer stands in for a connection: it prints what is sent.
type printer struct{}

func (printer) Writable() bool { return true }
func (printer) WantFlush()     {}
func (printer) WriteBuffer(h *credit.BufferHeader, b segment.Buffer) {
	fmt.Printf("seq %d backlog %d %s %q\n", h.Seq, h.Backlog, h.Type, b.Bytes())
	b.Release()
}
func (printer) WriteFrame(frame []byte) { fmt.Printf("a frame of %d bytes\n", len(frame)) }

// A partition with one subpartition, a consumer that grants one credit and then one more, and no socket at all.
func Example_sender() {
	pool, err := segment.NewPool(segment.Config{SegmentSize: 1024, Segments: 4})
	if err != nil {
		panic(err)
	}
	local, err := pool.NewLocal(segment.LocalConfig{Name: "clicks", Required: 4, Subpartitions: 1})
	if err != nil {
		panic(err)
	}
	id := credit.MakePartitionID(credit.ID{1}, 0, credit.ID{2}, credit.ID{3}, 0, 0)
	partition, writer, err := credit.NewPartition(credit.PartitionConfig{ID: id, Subpartitions: 1, Pool: local, Segments: 4, Exclusive: 2})
	if err != nil {
		panic(err)
	}
	registry := credit.NewRegistry(credit.RegistryConfig{})
	if err := registry.Register(partition); err != nil {
		panic(err)
	}
	server := credit.NewServerCore(registry, printer{})
	var decoder credit.ServerDecoder

	channel := credit.ChannelID{7}
	request := credit.PartitionRequest{Partition: id, Range: credit.One(0), Receiver: channel, Credit: 1}
	_ = decoder.Feed(credit.AppendPartitionRequest(nil, &request), server)
	for _, text := range []string{"one", "two"} {
		b, _ := writer.Take(0)
		n := copy(b.Memory(), text)
		writer.Add(0, segment.ReadAll(b.Resized(n)), 0)
	}
	writer.Finish(0)
	turn := func() { // what a loop does
		partition.Poll()
		_, _ = server.Run()
	}
	turn()
	fmt.Println("one more credit")
	_ = decoder.Feed(credit.AppendAddCredit(nil, channel, 1), server)
	turn()

	server.Disconnected()
	writer.Close()
	partition.Poll()
	local.Close()
	fmt.Println(pool.Close())
	// Output:
	// seq 0 backlog 1 DATA_BUFFER "one"
	// one more credit
	// seq 1 backlog 0 DATA_BUFFER "two"
	// seq 2 backlog 0 END_OF_PARTITION "\x00\x00\x00\x00"
	// <nil>
}

// Frames are appended to a slice and read from pieces of any size.
func ExampleAppendAddCredit() {
	frame := credit.AppendAddCredit(nil, credit.ChannelID{0xa0, 0xa1}, 3)
	fmt.Printf("%x\n", frame)
	// Output:
	// 0000001dbadc0ffe0600000003a0a10000000000000000000000000000
}
