package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weirflow/weir"
)

// exchangeFlags are those that send and recv share.
type exchangeFlags struct {
	name, partitionID, flink, stats string
	wait                            time.Duration
	maxRecord, memory, segment      int64
	tls                             tlsFlags
}

func (f *exchangeFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.name, "name", "", "name of the output: its partition id is made from it")
	fs.StringVar(&f.partitionID, "partition-id", "", "partition id instead, 120 hexadecimal digits")
	fs.StringVar(&f.flink, "flink", "2.3", "release line of Flink's protocol: 2.3 or 1.20; the same at both ends")
	fs.StringVar(&f.stats, "stats", "", "json: print one JSON object as the last line")
	fs.DurationVar(&f.wait, "wait", 30*time.Second, "how long to wait for the other ends")
	fs.Int64Var(&f.maxRecord, "max-record", 64<<20, "largest record in bytes")
	fs.Int64Var(&f.memory, "memory", 64<<20, "budget for network buffers in bytes")
	fs.Int64Var(&f.segment, "segment-size", 32<<10, "size of a network buffer in bytes; the same at both ends")
	f.tls.add(fs)
}

// config checks what both ends need.
func (f *exchangeFlags) config() (cfg weir.Config, id weir.PartitionID, err error) {
	for _, n := range []struct {
		flag  string
		value int64
	}{{"memory", f.memory}, {"segment-size", f.segment}, {"max-record", f.maxRecord}} {
		if n.value < 1 || n.value > math.MaxInt {
			return cfg, id, fmt.Errorf("--%s %d: want a number of bytes", n.flag, n.value)
		}
	}
	cfg = weir.Config{Memory: f.memory, SegmentSize: int(f.segment), MaxRecord: int(f.maxRecord)}
	if cfg.TLS, err = f.tls.config(); err != nil {
		return cfg, id, err
	}
	switch f.flink {
	case "2.3":
		cfg.Flink = weir.Flink23
	case "1.20":
		cfg.Flink = weir.Flink120
	default:
		return cfg, id, fmt.Errorf("--flink %q: want 2.3 or 1.20", f.flink)
	}
	switch {
	case f.stats != "" && f.stats != "json":
		return cfg, id, fmt.Errorf("--stats %q: want json", f.stats)
	case f.partitionID != "":
		id, err = weir.ParseID(f.partitionID)
	case f.name == "":
		err = fmt.Errorf("want --name or --partition-id")
	default:
		id = weir.NameID(f.name)
	}
	return cfg, id, err
}

// channelReport is what moved through one channel.
type channelReport struct {
	Addr         string `json:"addr,omitempty"`
	Subpartition int    `json:"subpartition"`
	Records      int64  `json:"records"`
	Bytes        int64  `json:"bytes"`
	CRC32C       string `json:"crc32c"`
}

// report is the last line of send and recv.
type report struct {
	Event       string          `json:"event"`
	Records     int64           `json:"records"`
	Bytes       int64           `json:"bytes"`
	Seconds     float64         `json:"seconds"`
	Checkpoints int64           `json:"checkpoints"`
	Channels    []channelReport `json:"channels"`
	Partition   string          `json:"partition"`
	// Waited is how long send waited for memory, because of each subpartition.
	Waited []float64 `json:"waited_s,omitempty"`
}

func (r report) print(out io.Writer) error { return json.NewEncoder(out).Encode(r) }

// parseRange reads "2" or "0-2".
func parseRange(s string) (first, last int, err error) {
	lo, hi, two := strings.Cut(s, "-")
	if !two {
		hi = lo
	}
	first, err1 := strconv.Atoi(lo)
	last, err2 := strconv.Atoi(hi)
	if err1 != nil || err2 != nil || first < 0 || last < first {
		return 0, 0, fmt.Errorf("subpartition %q: want a number or FIRST-LAST", s)
	}
	return first, last, nil
}
