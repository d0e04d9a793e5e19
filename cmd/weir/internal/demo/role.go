package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

// The demo's network: small buffers, so that the shares of a channel fill while a receiver sleeps.
const (
	segmentSize = 8 << 10
	memory      = 8 << 20
	statusEvery = 500 * time.Millisecond
)

// RoleConfig is what a child is told on its command line.
type RoleConfig struct {
	Role    string // send, receive, fan-send, fan
	Who     int
	Senders []string // addresses
	Input   string   // sender: the file with its lines
	Lines   uint64   // sender
	Rate    float64  // sender: lines per second
	Out     string   // receiver: the file for its notes
	Subs    int      // subpartitions, or outputs
}

// Role runs a child until its work is done.
func Role(ctx context.Context, cfg RoleConfig, stdin io.Reader, stdout io.Writer) error {
	p := &printer{out: json.NewEncoder(stdout), who: cfg.Who}
	r := &runner{cfg: cfg, printer: p, commands: make(chan []string, 64)}
	go r.listen(stdin)
	switch cfg.Role {
	case "send":
		return r.send(ctx)
	case "receive":
		return r.receive(ctx)
	case "fan-send":
		return r.fanSend(ctx)
	case "fan":
		return r.fan(ctx)
	}
	return fmt.Errorf("no role %q", cfg.Role)
}

// runner is a child at work.
type runner struct {
	*printer
	cfg      RoleConfig
	commands chan []string // words of the parent's commands; closed when the parent is gone
	segments int           // most in use so far; the status goroutine's
}

func (r *runner) listen(stdin io.Reader) {
	s := bufio.NewScanner(stdin)
	for s.Scan() {
		r.commands <- strings.Fields(s.Text())
	}
	close(r.commands)
}

// printer writes messages, one a line.
type printer struct {
	mu  sync.Mutex
	out *json.Encoder
	who int
}

func (p *printer) print(m message) {
	m.Who = p.who
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(m) // nobody listens any more: the parent has gone, and so will this process
}

// every calls f until stop is called.
func every(d time.Duration, f func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(d)
		defer t.Stop()
		for {
			select {
			case <-quit:
				return
			case <-t.C:
				f()
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// use notes how much of the node's memory is in use.
func (r *runner) use(n *weir.Node) {
	u := n.Usage()
	r.segments = max(r.segments, u.Segments-u.Free)
}

func (r *runner) memory(m *message, n *weir.Node) {
	m.Segments, m.Budget, m.Resident = r.segments, n.Usage().Segments, measure.PeakMemory()
}

// allocations counts from the moment it is made.
type allocations struct{ mallocs uint64 }

func countAllocations() allocations {
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	return allocations{ms.Mallocs}
}

func (a allocations) sofar() uint64 { return countAllocations().mallocs - a.mallocs }

// pace holds a writer to a rate, looking at the clock at every 32nd line.
type pace struct {
	begin time.Time
	rate  float64
	n     uint64
}

func (p *pace) wait(ctx context.Context) error {
	if p.n++; p.n%32 != 0 {
		return nil
	}
	d := time.Duration(float64(p.n)/p.rate*1e9) - time.Since(p.begin)
	for ; d >= time.Millisecond; d -= maxNap {
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(min(d, maxNap)) // unlike a timer it costs no memory
	}
	return nil
}

const maxNap = 50 * time.Millisecond

func commandNumber(words []string) int64 {
	if len(words) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func createNotes(path string) (*os.File, *bufio.Writer, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, err
	}
	return f, bufio.NewWriterSize(f, 256<<10), nil
}
