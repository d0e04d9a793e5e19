package main

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/serde"
)

// noise is n bytes that have every value.
func noise(n int) string {
	p := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return string(p)
}

// One channel: the file is what was sent, byte for byte.
func TestSameBytes(t *testing.T) {
	const mb12 = 12 << 20
	long := strings.Repeat("a long line, ", mb12/13)
	for name, c := range map[string]struct {
		framing, in string
		records     int64
		args        []string
	}{
		"empty":              {"lines", "", 0, nil},
		"one line feed":      {"lines", "\n", 1, nil},
		"no final newline":   {"lines", "one\ntwo", 2, nil},
		"empty lines":        {"lines", "\n\na\n\n\n", 5, nil},
		"crlf":               {"lines", "a\r\n\r\nb\r\n\r", 4, nil},
		"nul, invalid utf-8": {"lines", "\x00\x00\n\xff\xfe\n\xc3\n\x80", 4, nil},
		"many lines":         {"lines", lines(100_000, strconv.Itoa), 100_000, nil},
		"lines of 12 MB":     {"lines", long + "\n" + long + "\n\n" + long, 4, nil},
		"ndjson":             {"ndjson", "{\"a\":1}\n\n[\"\\u0000\"]\n{", 4, nil},
		"csv":                {"csv", "a,\"b\nc\"\r\n,,\n\"\"\"\n\"\n\"", 4, nil},
		"length":             {"length", "\x00\x00\x00\x00\x00\x00\x00\x02\n\xff" + "\x00\x02\x00\x00" + noise(1<<17), 3, nil},
		"raw":                {"raw", noise(1_000_000), 31, nil},
		"raw, empty":         {"raw", "", 0, nil},
		"flink 1.20":         {"lines", lines(10_000, strconv.Itoa) + long, 10_001, []string{"--flink", "1.20"}},
		"small segments":     {"lines", lines(10_000, strconv.Itoa) + noise(3000), -1, []string{"--segment-size", "256", "--memory", "262144"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := outFile(t)
			both := append([]string{"--name", "bytes", "--stats", "json"}, c.args...)
			send := start(t, append([]string{"send", "--framing", c.framing, file(t, c.in)}, both...)...)
			recv := start(t, append([]string{"recv", "--out", out, send.listening()}, both...)...)
			r, s := recv.succeeds().report(), send.succeeds().report()
			same(t, content(t, out), c.in)
			sum := fmt.Sprintf("%08x", crc32.Checksum([]byte(c.in), crc32.MakeTable(crc32.Castagnoli)))
			for side, rep := range map[string]report{"recv": r, "send": s} {
				if rep.Event != "done" || rep.Bytes != int64(len(c.in)) || len(rep.Channels) != 1 || rep.Channels[0].CRC32C != sum ||
					rep.Channels[0].Bytes != rep.Bytes || rep.Channels[0].Records != rep.Records || rep.Seconds <= 0 {
					t.Errorf("%s reports %+v, want %d bytes, checksum %s", side, rep, len(c.in), sum)
				}
				if c.records >= 0 && rep.Records != c.records {
					t.Errorf("%s reports %d records, want %d", side, rep.Records, c.records)
				}
				if id, err := hex.DecodeString(rep.Partition); err != nil || weir.PartitionID(id) != weir.NameID("bytes") {
					t.Errorf("%s reports partition %s", side, rep.Partition)
				}
			}
		})
	}
}

// fan starts a receiver for each subpartition and returns what each got.
func fan(t *testing.T, in string, subs int, args ...string) (got []string) {
	t.Helper()
	send := start(t, append([]string{"send", "--name", "fan", "--subpartitions", strconv.Itoa(subs), file(t, in)}, args...)...)
	addr := send.listening()
	outs := make([]string, subs)
	recvs := make([]*process, subs)
	for i := range subs {
		outs[i] = outFile(t)
		recvs[i] = start(t, "recv", "--name", "fan", "--subpartition", strconv.Itoa(i), "--out", outs[i], addr)
	}
	for i := range subs {
		recvs[i].succeeds()
		got = append(got, content(t, outs[i]))
	}
	send.succeeds()
	return got
}

// inOrder fails unless the parts together are the lines of in, each part in the order of in, where line i is whole number i.
func inOrder(t *testing.T, in string, number func(line string) int, parts ...string) {
	t.Helper()
	var all []string
	for i, p := range parts {
		ls := slices.Collect(strings.Lines(p))
		if !slices.IsSortedFunc(ls, func(a, b string) int { return cmp.Compare(number(a), number(b)) }) {
			t.Errorf("part %d is out of order", i)
		}
		all = append(all, ls...)
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	same(t, strings.Join(all, ""), in)
}

func lastWord(line string) int {
	f := strings.Fields(line)
	n, err := strconv.Atoi(f[len(f)-1])
	if err != nil {
		return -1
	}
	return n
}

func TestPartitionBy(t *testing.T) {
	const n, subs = 3000, 3
	in := lines(n, func(i int) string { return fmt.Sprintf("key-%d,%d %d", i%50, i%7, i) })
	groups := serde.DefaultMaxParallelism(subs)
	flinks := func(key string) int {
		return serde.OperatorIndex(groups, subs, serde.KeyGroup(serde.HashUTF8([]byte(key)), groups))
	}
	keyed := func(key func(line string) string) func(t *testing.T, got []string) {
		return func(t *testing.T, got []string) {
			inOrder(t, in, lastWord, got...)
			for sub, part := range got {
				if part == "" {
					t.Errorf("subpartition %d got nothing", sub)
				}
				for line := range strings.Lines(part) {
					if want := flinks(key(line)); want != sub {
						t.Fatalf("line %q is in subpartition %d, want %d", line, sub, want)
					}
				}
			}
		}
	}
	for name, c := range map[string]struct {
		args  []string
		check func(t *testing.T, got []string)
	}{
		"round-robin": {nil, func(t *testing.T, got []string) {
			inOrder(t, in, lastWord, got...)
			for sub, part := range got {
				if k := strings.Count(part, "\n"); k != n/subs {
					t.Errorf("subpartition %d got %d of %d lines", sub, k, n)
				}
			}
		}},
		"hash":     {[]string{"--partition-by", "hash"}, keyed(func(line string) string { return line })},
		"key, all": {[]string{"--partition-by", "key"}, keyed(func(line string) string { return line[:len(line)-1] })},
		"key 1":    {[]string{"--partition-by", "key", "--key", "1"}, keyed(func(line string) string { return strings.Fields(line)[0] })},
		"csv key": {[]string{"--partition-by", "key", "--key", "1", "--framing", "csv"}, keyed(func(line string) string {
			return line[:strings.IndexByte(line, ',')]
		})},
		"broadcast": {[]string{"--partition-by", "broadcast"}, func(t *testing.T, got []string) {
			for _, part := range got {
				same(t, part, in)
			}
		}},
		"global": {[]string{"--partition-by", "global"}, func(t *testing.T, got []string) {
			same(t, got[0], in)
			same(t, got[1]+got[2], "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t, fan(t, in, subs, c.args...))
		})
	}
}

// One receiver, two senders with three subpartitions each: six channels through one gate.
func TestManySendersAndSubpartitions(t *testing.T) {
	t.Parallel()
	const n = 5000
	var addrs []string
	var sends []*process
	var in string
	for s := range 2 {
		text := lines(n, func(i int) string { return fmt.Sprintf("%d %d", i, s*n+i) })
		in += text
		send := start(t, "send", "--name", "many", "--subpartitions", "3", "--partition-by", "key", "--key", "1", file(t, text))
		sends = append(sends, send)
		addrs = append(addrs, send.listening())
	}
	out := outFile(t)
	recv := start(t, append([]string{"recv", "--name", "many", "--subpartition", "0-2", "--stats", "json", "--out", out}, addrs...)...)
	rep := recv.succeeds().report()
	for _, s := range sends {
		s.succeeds()
	}
	got := slices.Collect(strings.Lines(content(t, out)))
	slices.SortStableFunc(got, func(a, b string) int { return cmp.Compare(lastWord(a), lastWord(b)) })
	same(t, strings.Join(got, ""), in)
	if len(rep.Channels) != 6 || rep.Records != 2*n {
		t.Fatalf("the report has %d channels and %d records", len(rep.Channels), rep.Records)
	}
	var sum int64
	for i, c := range rep.Channels {
		if c.Addr != addrs[i/3] || c.Subpartition != i%3 || c.Records == 0 {
			t.Errorf("channel %d is %+v", i, c)
		}
		sum += c.Records
	}
	if sum != rep.Records {
		t.Errorf("the channels have %d records of %d", sum, rep.Records)
	}
}

func TestStandardOutput(t *testing.T) {
	t.Parallel()
	in := lines(1000, strconv.Itoa)
	send := start(t, "send", "--name", "x", file(t, in))
	recv := start(t, "recv", "--name", "x", "--out", "-", send.listening()).succeeds()
	same(t, strings.Join(recv.stdout, "\n")+"\n", in)
	if st := send.succeeds(); len(st.stdout) != 0 {
		t.Errorf("without --stats send prints %q", st.stdout)
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	const n, rate = 1500, 2000
	send := start(t, "send", "--name", "x", file(t, lines(n, strconv.Itoa)))
	recv := start(t, "recv", "--name", "x", "--rate", strconv.Itoa(rate), "--stats", "json", "--out", outFile(t), send.listening())
	if r := recv.succeeds().report(); r.Records != n || r.Seconds < 0.95*n/rate {
		t.Errorf("%d records in %.3f s, at most %d a second were wanted", r.Records, r.Seconds, rate)
	}
	send.succeeds()
}

// A receiver that takes its time makes the sender wait, and the report says for whom.
func TestSenderReportsWaiting(t *testing.T) {
	t.Parallel()
	modelrun.Rounds(t, func(i int) bool { return senderWaits(t, strconv.Itoa(100>>min(i, 3))) }) // a sender may be slow itself
}

// senderWaits tells whether the sender has waited more than 0.1 s for a receiver with a rate.
func senderWaits(t *testing.T, rate string) bool {
	in := lines(60, func(i int) string { return noiseLine(100_000) })
	send := start(t, "send", "--name", "x", "--stats", "json", "--segment-size", "4096", "--memory", "2097152", file(t, in))
	recv := start(t, "recv", "--name", "x", "--rate", rate, "--segment-size", "4096", "--memory", "1048576", "--out", outFile(t), send.listening())
	recv.succeeds()
	r := send.succeeds().report()
	if len(r.Waited) != 1 {
		t.Fatalf("waited %v, want a time for the only subpartition", r.Waited)
	}
	return r.Waited[0] >= 0.1
}

func noiseLine(n int) string { return strings.ReplaceAll(noise(n), "\n", " ") }

func TestPacer(t *testing.T) {
	p := newPacer(1e6)
	begin := time.Now()
	for range 20_000 {
		if err := p.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(begin); d < 18*time.Millisecond {
		t.Errorf("20 000 items at a million a second took %v", d)
	}
}
