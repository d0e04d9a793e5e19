package inspect

import "time"

// Summary is what went over a connection.
type Summary struct {
	// Conn is its number; Name its ends, if there are several connections.
	Conn int
	Name string
	// Begin and End are the times of the first and the last bytes; zero: the input has no times, so Waits mean nothing.
	Begin, End time.Time
	// Frames and Bytes count whole frames by direction, Missing the bytes that the input lacks, Repeated what it has more
	// than once.
	Frames, Bytes, Missing, Repeated [2]int64
	// Errs are the errors that ended a direction.
	Errs [2]error
	// Channels are in the order of their first frames.
	Channels []*Channel
	// Unordered: the input does not tell in which order the directions went.
	Unordered bool
}

// Timed reports whether the times of frames are known.
func (s *Summary) Timed() bool { return !s.Begin.IsZero() }

func (s *Summary) see(t time.Time) {
	if s.Begin.IsZero() {
		s.Begin = t
	}
	s.End = t
}

func (s *Summary) finish(from *Session) {
	s.Conn, s.Name, s.Channels = from.conn, from.Name, from.order
	s.Unordered = from.pull != nil
	for d := range s.Errs {
		s.Errs[d] = from.half[d].err
	}
}

// waits calls f for each reason that somebody waited for longer than the times can tell.
func (c *Channel) waits(f func(r Reason, w *Wait)) {
	for r := range numReasons {
		if w := &c.Waits[r]; w.Total > 0 && r != Moving {
			f(r, w)
		}
	}
}
