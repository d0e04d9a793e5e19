package main

import (
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
	"testing"
)

// A blocking partition through the tool: each codec, releases, plain and by range, several receivers of the same subpartition,
// receivers before the file is there and long after.
func TestSendBlocking(t *testing.T) {
	in := lines(20_000, strconv.Itoa) + strings.ReplaceAll(noise(300_000), "\n", " ") + "\n" + lines(20_000, strconv.Itoa)
	sum := fmt.Sprintf("%08x", crc32.Checksum([]byte(in), crc32.MakeTable(crc32.Castagnoli)))
	for _, flink := range []string{"2.3", "1.20"} {
		for _, compress := range []string{"none", "lz4", "zstd"} {
			t.Run(flink+"/"+compress, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				both := []string{"--name", "blocking", "--flink", flink, "--stats", "json"}
				send := start(t, append([]string{"send", "--blocking", "--blocking-dir", dir, "--compress", compress, "--reads", "3", file(t, in)}, both...)...)
				addr := send.listening()
				recv := func(out string) *process {
					return start(t, append([]string{"recv", "--out", out, addr}, both...)...)
				}
				outs := []string{outFile(t), outFile(t), outFile(t)}
				first, second := recv(outs[0]), recv(outs[1])
				first.succeeds()
				second.succeeds()
				third := recv(outs[2])
				third.succeeds()
				send.succeeds()
				for i, p := range []*process{first, second, third} {
					same(t, content(t, outs[i]), in)
					if r := p.report(); r.Channels[0].CRC32C != sum {
						t.Errorf("receiver %d reports %+v, want checksum %s", i, r, sum)
					}
				}
				if r := send.report(); r.Bytes != int64(len(in)) || r.Channels[0].CRC32C != sum {
					t.Errorf("send reports %+v", r)
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
					t.Errorf("left in the directory: %v, %v", left, err)
				}
			})
		}
	}
}

// All subpartitions through one channel.
func TestSendBlockingRanged(t *testing.T) {
	t.Parallel()
	const n = 30_000
	in := lines(n, func(i int) string { return fmt.Sprintf("line %d", i) })
	send := start(t, "send", "--blocking", "--compress", "zstd", "--subpartitions", "3", "--name", "r", file(t, in))
	out := outFile(t)
	rep := start(t, "recv", "--name", "r", "--subpartition", "0-2", "--ranged", "--stats", "json", "--out", out, send.listening()).succeeds().report()
	send.succeeds()
	if len(rep.Channels) != 1 || rep.Records != n {
		t.Fatalf("%d channels, %d records; want 1, %d", len(rep.Channels), rep.Records, n)
	}
	var parts [3]strings.Builder // in each subpartition the order is that of the file
	for line := range strings.Lines(content(t, out)) {
		parts[lastWord(line)%3].WriteString(line)
	}
	inOrder(t, in, lastWord, parts[0].String(), parts[1].String(), parts[2].String())
}

func TestSendBlockingRefuses(t *testing.T) {
	t.Parallel()
	in := file(t, "x\n")
	start(t, "send", "--name", "x", "--blocking", "--compress", "lzo", in).fails("LZO", "not supported")
	start(t, "send", "--name", "x", "--blocking", "--compress", "gzip", in).fails("gzip", "lz4", "zstd")
	start(t, "send", "--name", "x", "--compress", "lz4", in).fails("--blocking")
	start(t, "send", "--name", "x", "--blocking", "--reads", "0", in).fails("--reads")
	start(t, "send", "--name", "x", "--blocking", "--blocking-dir", "/nowhere/at/all", in).fails("/nowhere/at/all", "partition")
	start(t, "send", "--name", "x", "--blocking", "--wait", "100ms", in).fails("no consumer", "[0]")
}
