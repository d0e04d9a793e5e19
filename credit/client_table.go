package credit

// ConnState says what a ConnTable wants done for a caller that needs a connection.
type ConnState uint8

// The outcomes of ConnTable.Acquire.
const (
	// ConnReady: the connection is there and counts one more user.
	ConnReady ConnState = iota
	// ConnDial: the caller is the first; it dials and reports to Dialed.
	ConnDial
	// ConnWait: somebody dials; the caller asks again when that is over.
	ConnWait
)

// ConnTable holds which connections a process has to its peers, one for each (PartitionRequestClientFactory): who dials,
// who waits, and what becomes of one that broke. There is no reconnecting: the channels of a broken connection have
// failed, and the next request dials anew. A pure table; its owner does the dialling. C is the connection's handle.
type ConnTable[K comparable, C any] struct {
	// Attempts is how often a peer is dialled, without a pause, before its waiters fail (taskmanager.network.retries + 1);
	// 0 means once.
	Attempts int

	entries map[K]*connEntry[C]
}

type connEntry[C any] struct {
	conn  C
	ready bool // dialled
	refs  int  // users
	tries int  // attempts that failed
}

// Acquire is asked for the connection to a peer. broken tells whether a connection has a recorded error: it is then taken
// out of the table, and stale returns it, to be closed if nobody uses it.
func (t *ConnTable[K, C]) Acquire(key K, broken func(C) bool) (conn C, state ConnState, stale []C) {
	e := t.entries[key]
	if e != nil && e.ready && broken(e.conn) {
		if e.refs == 0 {
			stale = append(stale, e.conn)
		}
		delete(t.entries, key)
		e = nil
	}
	if e == nil {
		if t.entries == nil {
			t.entries = make(map[K]*connEntry[C])
		}
		t.entries[key] = &connEntry[C]{}
		return conn, ConnDial, stale
	}
	if !e.ready {
		return conn, ConnWait, stale
	}
	e.refs++
	return e.conn, ConnReady, stale
}

// Dialed reports that dialling succeeded. Whoever dialled has the connection, counted; those who waited ask again.
func (t *ConnTable[K, C]) Dialed(key K, conn C) {
	e := t.entries[key]
	if e == nil {
		e = &connEntry[C]{}
		if t.entries == nil {
			t.entries = make(map[K]*connEntry[C])
		}
		t.entries[key] = e
	}
	e.conn, e.ready = conn, true
	e.refs++
}

// DialFailed reports that an attempt failed; again: dial once more, at once. Otherwise the entry is gone: the caller fails
// with its error, those who wait with theirs.
func (t *ConnTable[K, C]) DialFailed(key K) (again bool) {
	e := t.entries[key]
	if e == nil || e.ready {
		return false
	}
	if e.tries++; e.tries < t.Attempts {
		return true
	}
	delete(t.entries, key)
	return false
}

// Release reports that a user of a connection is gone. drop: it was the last, and the connection is not kept (reuse is off
// or it is broken): it left the table and has to be closed.
func (t *ConnTable[K, C]) Release(key K, same func(C) bool, reuse, broken bool) (drop bool) {
	e := t.entries[key]
	if e == nil || !e.ready || !same(e.conn) {
		return false // it left the table before
	}
	e.refs = max(e.refs-1, 0)
	if e.refs > 0 || reuse && !broken {
		return false
	}
	delete(t.entries, key)
	return true
}

// Len is the number of connections, those that are being dialled included.
func (t *ConnTable[K, C]) Len() int { return len(t.entries) }
