package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// view shows how the processes stand: a table that is drawn anew on a terminal, else a line each time.
type view struct {
	out   io.Writer
	live  bool
	drawn int // lines of the table that stand on the screen
	last  map[*child]message
	at    time.Duration
}

func newView(out io.Writer, live bool) *view {
	return &view{out: out, live: live, last: map[*child]message{}}
}

func (v *view) show(at time.Duration, tx, rx []*child) {
	var rows []string
	if v.live {
		rows = v.table(at, tx, rx)
	} else {
		rows = []string{v.line(at, tx, rx)}
	}
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	for _, r := range rows {
		if v.live {
			b.WriteString("\x1b[2K")
		}
		b.WriteString(r + "\n")
	}
	if v.live {
		v.drawn = len(rows)
	}
	_, _ = io.WriteString(v.out, b.String()) // a show that nobody sees is no error
	for _, c := range append(append([]*child(nil), tx...), rx...) {
		v.last[c] = c.status()
	}
	v.at = at
}

// rate is a child's lines per second since the last show, in thousands.
func (v *view) rate(at time.Duration, c *child) float64 {
	d := (at - v.at).Seconds()
	if d <= 0 {
		return 0
	}
	return float64(c.status().Lines-v.last[c].Lines) / d / 1000
}

// line is everything in one line.
func (v *view) line(at time.Duration, tx, rx []*child) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %4.1fs ", at.Seconds())
	for i, c := range tx {
		m := c.status()
		fmt.Fprintf(&b, " | sender %d %5.1fk/s", i, v.rate(at, c))
		if m.Waiting >= 0 {
			fmt.Fprintf(&b, " waits for %d", m.Waiting)
		}
	}
	for i, c := range rx {
		m := c.status()
		fmt.Fprintf(&b, " | receiver %d %5.1fk/s", i, v.rate(at, c))
		if m.Sleeping {
			b.WriteString(" asleep")
		}
		for _, ch := range m.Channels {
			fmt.Fprintf(&b, " %d+%d", ch.Credit, ch.Unread)
		}
	}
	if at < 2*time.Second {
		b.WriteString("   (of each channel: credit at the sender + unread buffers)")
	}
	return b.String()
}

// table has a row for each channel.
func (v *view) table(at time.Duration, tx, rx []*child) []string {
	rows := []string{
		fmt.Sprintf("  %4.1f s   channel        credit  unread  queued  backlog   state", at.Seconds()),
	}
	for r, c := range rx {
		m := c.status()
		for s := range m.Channels {
			ch := m.Channels[s]
			state := ""
			var sub channel
			if t := tx[s].status(); r < len(t.Channels) {
				sub = t.Channels[r]
				if t.Waiting == r {
					state = "its writer waits for it"
				}
			}
			switch {
			case m.Sleeping:
				state = strings.TrimPrefix(state+", receiver asleep", ", ")
			case sub.Blocked:
				state = "blocked by a barrier"
			}
			rows = append(rows, fmt.Sprintf("           %d -> %d   %10d  %6d  %6d  %7d   %s", s, r, ch.Credit, ch.Unread, sub.Queued, sub.Backlog, state))
		}
	}
	for i, c := range tx {
		rows = append(rows, fmt.Sprintf("           sender %d    %6.1fk lines/s", i, v.rate(at, c)))
	}
	for i, c := range rx {
		rows = append(rows, fmt.Sprintf("           receiver %d  %6.1fk lines/s  %d checkpoints", i, v.rate(at, c), c.status().Checkpoints))
	}
	return rows
}
