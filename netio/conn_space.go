package netio

// SpaceHandler is a Handler that says, before the loop reads, where the bytes go that it expects: they need not be copied out of
// the loop's region then. TLS and the portable loop know nothing of it, so its OnRead must do for everything.
type SpaceHandler interface {
	Handler
	// OnSpace is called when the kernel says that something has come. It adds pieces of memory, which are filled in order; what
	// does not fit in them comes with OnRead. None: all of it does. OnFilled follows in any case if there are any.
	OnSpace(c *Conn, s *Space)
	// OnFilled ends what OnSpace began: n bytes lie in its pieces; 0 if the read failed. spill has room for as many, for a handler that
	// expected something else and copies what came. It is valid during the call only. An error closes the connection with it. OnRead
	// gets the rest of the same read at once, also after PauseRead.
	OnFilled(c *Conn, n int, spill []byte) error
}

// maxSpace is the most pieces of a Space.
const maxSpace = 64

// Space is memory for one read.
type Space struct {
	pieces [][]byte
	size   int
	room   int
}

// Room is how many bytes more can be added: LoopConfig.ReadSize in all.
func (s *Space) Room() int { return s.room - s.size }

// Add adds a piece after those that were added before. It returns false, and adds nothing, if there is no room.
func (s *Space) Add(p []byte) bool {
	if len(p) == 0 || len(p) > s.Room() || len(s.pieces) == maxSpace {
		return false
	}
	s.pieces = append(s.pieces, p)
	s.size += len(p)
	return true
}

func (s *Space) reset(room int) {
	s.forget()
	s.size, s.room = 0, room
}

// forget forgets the pieces, so that the collector does not keep what they belong to until the loop's next read.
func (s *Space) forget() {
	clear(s.pieces)
	s.pieces = s.pieces[:0]
}
