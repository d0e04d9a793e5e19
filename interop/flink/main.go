package main

import (
	"context"
	"crypto/tls"
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
	if c.tls {
		text += ", TLS"
	}
	return text
}

// rounds is the number of rounds for a number of channels: enough records, in not too much time.
func rounds(channels int) int { return max(60, 12_000/channels) }

func main() {
	versions := flag.String("flink", "2.3.0,1.20.5", "releases of Flink")
	directions := flag.String("weir", "sends,receives", "what weir does")
	channels := flag.String("channels", "1,8,8+tls,500", "numbers of channels; +tls: with TLS")
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
				n, tls := strings.CutSuffix(n, "+tls")
				k, err := strconv.Atoi(n)
				if err != nil || k < 1 || d != "sends" && d != "receives" {
					fmt.Fprintf(os.Stderr, "interop: weir %q with %q channels: want sends or receives, and a number\n", d, n)
					os.Exit(2)
				}
				cells = append(cells, cell{version: v, sends: d == "sends", channels: k, tls: tls})
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
		if err := between(weirBinary, v, newScript(seed, 2, 600), seed, limit, frames, os.Stdout); err != nil {
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
	fmt.Println("| Flink | weir | channels | TLS | records | MB | CRC-32C of all | watermarks | aligned | turned | unaligned | MB in flight | s | |")
	fmt.Println("|---|---|---:|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---|")
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
		fmt.Printf("| %s | %s | %d | %s | %d | %.1f | %08x | %d | %d | %d | %d | %.1f | %.1f | %s |\n", c.version, does, c.channels, map[bool]string{true: "yes"}[c.tls], res.records,
			float64(res.bytes)/1e6, res.sum, res.watermarks, res.aligned, res.turned, res.unaligned, float64(res.inFlight)/1e6,
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
	s := newScript(seed, c.channels, rounds(c.channels))
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
