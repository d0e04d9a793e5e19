package inspect

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde"
)

// Text is a sink that prints lines for people. One that several sessions share needs a lock around them.
type Text struct {
	// W gets the lines, each by one Write.
	W io.Writer
	// Filter chooses frames and channels.
	Filter Filter
	// Quiet: no frames and no elements.
	Quiet bool
	// Conns: say with each frame which connection it is of.
	Conns bool

	begin time.Time
	last  struct { // the frame that elements belong to was shown
		conn   int
		offset int64
	}
}

// when is the beginning of a line: seconds since the first time that was seen.
func (p *Text) when(t time.Time, conn int) (string, error) {
	head := ""
	if !t.IsZero() {
		if p.begin.IsZero() {
			p.begin = t
			if _, err := fmt.Fprintf(p.W, "times are seconds after %s\n", t.UTC().Format(time.RFC3339Nano)); err != nil {
				return "", err
			}
		}
		head = fmt.Sprintf("%11.6f ", t.Sub(p.begin).Seconds())
	}
	if p.Conns {
		if conn == 0 {
			return head + "   ", nil
		}
		head += fmt.Sprintf("%2d ", conn)
	}
	return head, nil
}

// Frame prints a line.
func (p *Text) Frame(f *Frame) error {
	p.last.conn = 0
	if p.Quiet || !p.Filter.frame(f) {
		return nil
	}
	p.last.conn, p.last.offset = f.Conn, f.Offset
	head, err := p.when(f.Time, f.Conn)
	if err != nil {
		return err
	}
	id := "-         "
	if !f.Channel.IsZero() {
		id = short(f.Channel)
	}
	line := fmt.Sprintf("%s%s %7d %6d %s %s", head, f.Dir, f.Offset, f.Length, id, Describe(f))
	if !f.Channel.IsZero() {
		line += " | " + f.State.Text()
	}
	for _, odd := range f.Odd {
		line += " !! " + odd
	}
	_, err = fmt.Fprintln(p.W, line)
	return err
}

// short is how a channel is named on a line: both ends of its id, since clients may draw only one of them at random. A
// filter takes it.
func short(id credit.ChannelID) string {
	s := id.String()
	return s[:4] + ".." + s[len(s)-4:]
}

// Text is "credit 2, backlog 0", and what else there is to say; ? is what is not known.
func (s State) Text() string {
	number := func(n int64, known bool) string {
		if !known {
			return "?"
		}
		return fmt.Sprint(n)
	}
	text := "credit " + number(s.Credit, s.CreditKnown) + ", backlog " + number(int64(s.Backlog), s.BacklogKnown)
	switch {
	case s.Closed:
		text += ", closed"
	case s.Blocked:
		text += ", blocked"
	}
	return text
}

// Describe names a frame and says what is in it.
func Describe(f *Frame) string {
	text := f.Message.String()
	ev := func() string {
		if f.Event != nil {
			return printable(f.Event.String())
		}
		return fmt.Sprintf("not an event: %v", f.EventErr)
	}
	switch f.Message {
	case credit.MsgPartitionRequest:
		return fmt.Sprintf("%s credit %d, subpartition %s of %s, channel %s", text, f.Request.Credit, f.Request.Range, f.Request.Partition, f.Channel)
	case credit.MsgTaskEventRequest:
		return fmt.Sprintf("%s %s for %s", text, ev(), f.Partition)
	case credit.MsgBufferResponse:
		b := f.Buffer
		text += fmt.Sprintf(" %d %s", b.Seq, b.Type)
		if !f.IsData() {
			return text + ": " + ev()
		}
		text += fmt.Sprintf(", %d bytes", b.Size)
		if b.Compressed {
			text += " compressed"
		}
		if b.Partial > 0 {
			text += fmt.Sprintf(", %d partial buffers", b.Partial)
		}
		if b.Subpartition > 0 {
			text += fmt.Sprintf(", subpartition %d", b.Subpartition)
		}
	case credit.MsgErrorResponse:
		if f.Error.Fatal {
			text += " fatal"
		}
		text += " " + printable(f.Error.Cause.Error())
	case credit.MsgAddCredit:
		text += fmt.Sprintf(" +%d", f.Value)
	case credit.MsgBacklogAnnouncement, credit.MsgNewBufferSize:
		text += fmt.Sprintf(" %d", f.Value)
	case credit.MsgSegmentID:
		text += fmt.Sprintf(" %d, subpartition %d", f.Value, f.Subpartition)
	}
	return text
}

// printable keeps a peer's text on one line and away from the terminal's controls.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Element prints a line below its frame's.
func (p *Text) Element(e *Element) error {
	if p.last.conn != e.Conn || p.last.offset != e.Frame {
		return nil
	}
	_, err := fmt.Fprintf(p.W, "            %s\n", e)
	return err
}

// String names the element.
func (e *Element) String() string {
	switch {
	case e.Length < 0:
		return fmt.Sprintf("records cannot be read: %v", e.Err)
	case e.Err != nil:
		return fmt.Sprintf("record of %d bytes (%v)", e.Length, e.Err)
	case e.Element.Kind == serde.Record:
		return fmt.Sprintf("%s %s", &e.Element, excerpt(e.Element.Value))
	}
	return e.Element.String()
}

// excerpt shows how a value begins.
func excerpt(p []byte) string {
	const most = 16
	if len(p) > most {
		return fmt.Sprintf("%q...", p[:most])
	}
	return fmt.Sprintf("%q", p)
}

// Note prints a line.
func (p *Text) Note(n *Note) error {
	head, err := p.when(n.Time, n.Conn)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.W, "%s-- %s\n", head, n.Text)
	return err
}

// Summary prints a paragraph.
func (p *Text) Summary(s *Summary) error {
	var b strings.Builder
	if p.begin.IsZero() {
		p.begin = s.Begin
	}
	name := "summary"
	if s.Name != "" {
		name += " of connection " + s.Name
	}
	fmt.Fprintf(&b, "\n%s: c2s %d frames, %d bytes; s2c %d frames, %d bytes", name, s.Frames[ToServer], s.Bytes[ToServer], s.Frames[ToClient], s.Bytes[ToClient])
	if s.Timed() {
		fmt.Fprintf(&b, "; %s", seconds(s.End.Sub(s.Begin)))
	}
	b.WriteString("\n")
	for _, d := range []Dir{ToServer, ToClient} {
		if s.Missing[d]+s.Repeated[d] > 0 {
			fmt.Fprintf(&b, "%s: %d bytes missing, %d bytes sent or seen again\n", d, s.Missing[d], s.Repeated[d])
		}
	}
	if s.Unordered {
		b.WriteString("the input does not tell how the directions interleaved: each frame of the client is shown when the server must have had it\n")
	}
	for _, c := range s.Channels {
		if p.Filter.channel(c.ID) {
			p.channel(&b, s, c)
		}
	}
	if !s.Timed() {
		b.WriteString("the input has no times, so who waited for whom is not known\n")
	}
	_, err := io.WriteString(p.W, b.String())
	return err
}

func (p *Text) channel(b *strings.Builder, s *Summary, c *Channel) {
	fmt.Fprintf(b, "channel %s", c.ID)
	if r := c.Request; r != nil {
		fmt.Fprintf(b, ": subpartition %s of %s", r.Range, r.Partition)
	}
	fmt.Fprintf(b, "\n  frames    c2s %d (%d bytes), s2c %d (%d bytes): %d data with %d bytes, %d events\n",
		c.Frames[ToServer], c.Bytes[ToServer], c.Frames[ToClient], c.Bytes[ToClient], c.Data, c.Payload, c.Events)
	fmt.Fprintf(b, "  credit    %d requested with, %d granted, %d used; largest backlog %d; in the end %s\n",
		c.initial(), c.Granted, c.Data, c.MaxBacklog, c.Text())
	if c.Failure != nil {
		fmt.Fprintf(b, "  failed    %s\n", printable(c.Failure.Cause.Error()))
	}
	if !s.Timed() {
		return
	}
	c.waits(func(r Reason, w *Wait) {
		who := "          nobody known to wait"
		switch r.Waiter() {
		case "sender":
			who = "  sender    waited for the receiver"
		case "receiver":
			who = "  receiver  waited for the sender"
		}
		why := r.String()
		if r == Blocked {
			why = "blocked by " + c.BlockedBy.String()
		}
		fmt.Fprintf(b, "%s %s: %s (%d times, longest %s at %.6f)\n", who, seconds(w.Total), why, w.Times, seconds(w.Longest), w.LongestAt.Sub(p.begin).Seconds())
	})
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.6f s", d.Seconds()) }
