package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weirflow/weir"
)

// cell is one exchange.
type cell struct {
	version  string
	sends    bool // weir does
	channels int
	tls      bool
	kind     kind
}

// ends is what both ends are set up with.
type ends struct {
	release weir.Flink
	tls     *tls.Config // weir's, nil: no TLS
	folder  string      // where Flink's end finds its keys, "-": no TLS
	segment int         // weir's segment size, 0: the default
	// handshake is how long a TLS handshake may take at weir's end, 0: the default.
	handshake time.Duration
	// completed is called for each checkpoint that the receiver has completed; may be nil.
	completed func(id int64)
	// alone: what Flink's end says does not stop weir's: it is to find out by itself.
	alone bool
}

func endsFor(version string, k *keys) ends {
	e := ends{release: weir.Flink23, folder: "-"}
	if strings.HasPrefix(version, "1.") {
		e.release = weir.Flink120
	}
	if k != nil {
		e.tls, e.folder = k.config, k.folder
	}
	return e
}

func (c cell) String() string {
	text := fmt.Sprintf("Flink %s → weir, %d channels", c.version, c.channels)
	if c.sends {
		text = fmt.Sprintf("weir → Flink %s, %d channels", c.version, c.channels)
	}
	if c.kind != pipelined {
		text += ", " + strings.ToLower(string(c.kind))
	}
	if c.tls {
		text += ", TLS"
	}
	return text
}

// parseCell reads what -channels has of a cell: the number, and how it differs from a pipelined partition without TLS.
func parseCell(text string) (c cell, err error) {
	number, options, _ := strings.Cut(text, "+")
	c.kind = pipelined
	for o := range strings.SplitSeq(options, "+") {
		switch o {
		case "":
		case "tls":
			c.tls = true
		case "blocking", "lz4", "zstd":
			c.kind = kind(strings.ToUpper(o))
		default:
			return c, fmt.Errorf("unknown option %q", o)
		}
	}
	c.channels, err = strconv.Atoi(number)
	if err == nil && c.channels < 1 {
		err = errors.New("want channels")
	}
	return c, err
}

// rounds is the number of rounds for a number of channels: enough records, in not too much time.
func rounds(channels int) int { return max(60, 12_000/channels) }

func main() {
	versions := flag.String("flink", "2.3.0,1.20.5", "releases of Flink")
	directions := flag.String("weir", "sends,receives", "what weir does")
	channels := flag.String("channels", "1,8,8+tls,500,8+blocking,8+blocking+tls,8+lz4,8+lz4+tls,8+zstd,8+zstd+tls", "numbers of channels; +tls: with TLS; +blocking, +lz4, +zstd: a blocking partition, and its codec")
	seed := flag.Int64("seed", 1, "what the records are made from")
	limit := flag.Duration("timeout", 2*time.Minute, "how long a cell may take")
	refuse := flag.Bool("refusals", true, "also what must fail, and say why: ends that do not fit together, a Flink that dies")
	proxied := flag.String("inspect", "", "instead: two Flink processes, with this weir program's inspect between them")
	frames := flag.String("frames", "", "with -inspect: write what it prints to this file")
	flag.Parse()
	if *proxied != "" {
		os.Exit(inspected(*proxied, strings.Split(*versions, ","), *seed, *limit, *frames))
	}
	var cells []cell
	for _, v := range strings.Split(*versions, ",") {
		for _, d := range strings.Split(*directions, ",") {
			for _, n := range strings.Split(*channels, ",") {
				c, err := parseCell(n)
				if err != nil || d != "sends" && d != "receives" {
					fmt.Fprintf(os.Stderr, "interop: weir %q with %q channels: want sends or receives, and a number, with +blocking, +lz4, +zstd, +tls\n", d, n)
					os.Exit(2)
				}
				c.version, c.sends = v, d == "sends"
				cells = append(cells, c)
			}
		}
	}
	os.Exit(runAll(cells, *seed, *limit, *refuse))
}

// inspected runs an exchange of two channels between Flink processes of each version through weir inspect.
func inspected(weirBinary string, versions []string, seed int64, limit time.Duration, path string) (code int) {
	frames := io.Discard
	if path != "" {
		file, err := os.Create(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, "interop:", err)
			return 2
		}
		defer func() { _ = file.Close() }()
		frames = file
	}
	for _, v := range versions {
		fmt.Printf("Flink %s → weir inspect → Flink %s\n", v, v)
		if err := between(weirBinary, v, newScript(seed, 2, 600, pipelined), seed, limit, frames, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "interop: Flink %s through inspect: %v\n", v, err)
			code = 1
		}
	}
	return code
}

func runAll(cells []cell, seed int64, limit time.Duration, refuse bool) (code int) {
	folder, err := os.MkdirTemp("", "weir-interop-")
	var k *keys
	if err == nil {
		defer func() { _ = os.RemoveAll(folder) }()
		k, err = newKeys(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop: keys for TLS:", err)
		return 2
	}
	var p *peer
	defer func() {
		if p != nil {
			p.stop()
		}
	}()
	fmt.Println("| Flink | weir | channels | partition | TLS | records | MB | CRC-32C of all | watermarks | aligned | turned | unaligned | MB in flight | MB on the wire | s | |")
	fmt.Println("|---|---|---:|---|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---|")
	passed := 0
	for _, c := range cells {
		if p != nil && p.version != c.version {
			p.stop()
			p = nil
		}
		var err error
		if p == nil {
			p, err = startPeer(c.version)
		}
		began := time.Now()
		var res result
		if err == nil {
			res, err = run(p, c, k, seed, limit)
		}
		verdict := "passed"
		if err != nil {
			verdict = "**failed**"
			fmt.Fprintf(os.Stderr, "interop: %s: %v\n", c, err)
			if p != nil { // who knows what it is doing
				p.stop()
				p = nil
			}
		} else {
			passed++
		}
		does := "receives"
		if c.sends {
			does = "sends"
		}
		fmt.Printf("| %s | %s | %d | %s | %s | %d | %.1f | %08x | %d | %d | %d | %d | %.1f | %s | %.1f | %s |\n", c.version, does, c.channels, strings.ToLower(string(c.kind)), map[bool]string{true: "yes"}[c.tls], res.records,
			float64(res.bytes)/1e6, res.sum, res.watermarks, res.aligned, res.turned, res.unaligned, float64(res.inFlight)/1e6, map[bool]string{true: fmt.Sprintf("%.1f", float64(res.wire)/1e6)}[res.wire > 0],
			time.Since(began).Seconds(), verdict)
	}
	total := len(cells)
	if p != nil {
		p.stop()
		p = nil
	}
	if refuse {
		good, tried := refusals(cells, k, seed)
		passed, total = passed+good, total+tried
	}
	fmt.Printf("\n%d passed, %d failed\n", passed, total-passed)
	if passed < total || passed == 0 {
		return 1
	}
	return 0
}

// run runs a cell.
func run(p *peer, c cell, k *keys, seed int64, limit time.Duration) (res result, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if !c.tls {
		k = nil
	}
	e := endsFor(c.version, k)
	s := newScript(seed, c.channels, rounds(c.channels), c.kind)
	f := receiveCell
	if c.sends {
		f = sendCell
	}
	sent, got, err := f(ctx, p, e, s)
	if err != nil {
		return res, err
	}
	return compare(s, sent, got)
}
