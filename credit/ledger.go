package credit

// CreditKind tells what kind of credit a received buffer used up.
type CreditKind uint8

// The two kinds.
const (
	// Exclusive credit belongs to its channel for good.
	Exclusive CreditKind = iota
	// Floating credit is borrowed from the gate's budget and goes back to it.
	Floating
)

// Ledger counts the credit of one channel at the receiver (BufferManager). It is a pure state machine: no buffer is in it.
//
// Credit is a count: a unit of exclusive or floating credit is the right to one segment of the pool, and the pool
// guarantees as many segments as all ledgers have units. A unit is either free here or charged to a buffer that is on
// its way through the channel. Free units are what the sender may be told about: U + T + C + D <= A, where A is
// Free() and U is Unannounced(); T, C and D are underway, at the sender, and on the wire.
//
// Methods that can gain credit return how much became available; the caller passes that to Announce, after it did
// everything else.
type Ledger struct {
	budget *FloatBudget
	// Line of the budget.
	prev, next *Ledger
	inLine     bool
	owner      *RemoteChannel // whom an offer of the budget is announced for; nil in tests of the ledger alone

	initial     int32
	exclusive   int32 // free
	floating    int32 // free
	borrowed    int32 // floating units of this channel, free or charged
	required    int32 // free units that the channel wants; falls with each Take, may be negative
	unannounced int32
	waiting     bool
	released    bool
}

// Init makes l the ledger of a channel with initial exclusive units, which are free and known to the sender, and with
// floating units from budget.
func (l *Ledger) Init(initial int32, budget *FloatBudget) {
	*l = Ledger{initial: initial, exclusive: initial, budget: budget, owner: l.owner}
}

// Initial is the number of exclusive units: the credit in the partition request.
func (l *Ledger) Initial() int32 { return l.initial }

// Free is the number of free units.
func (l *Ledger) Free() int32 { return l.exclusive + l.floating }

// FreeExclusive and FreeFloating are the two parts of Free.
func (l *Ledger) FreeExclusive() int32 { return l.exclusive }

// FreeFloating is the number of free floating units.
func (l *Ledger) FreeFloating() int32 { return l.floating }

// Required is the number of free units that the channel wants: set by each backlog, lowered by each Take.
func (l *Ledger) Required() int32 { return l.required }

// Unannounced is the credit that the sender has not been told about.
func (l *Ledger) Unannounced() int32 { return l.unannounced }

// Waiting reports whether the channel waits for the budget.
func (l *Ledger) Waiting() bool { return l.waiting }

// Window is the number of all units of the channel, free or charged: the most that can be underway to it now.
func (l *Ledger) Window() int32 { return l.initial + l.borrowed }

// Take charges a unit to a data message that begins to arrive: a floating one if there is one, else an exclusive one. ok
// is false when the sender had no credit. (BufferManager#requestBuffer, AvailableBufferQueue#takeBuffer)
func (l *Ledger) Take() (kind CreditKind, ok bool) {
	l.want(l.required - 1)
	switch {
	case l.floating > 0:
		l.floating--
		return Floating, true
	case l.exclusive > 0:
		l.exclusive--
		return Exclusive, true
	}
	return 0, false
}

// OnBacklog notes that the sender holds backlog data buffers: the channel wants that many free units and its initial ones
// again on top. It returns how many floating units came. (RemoteInputChannel#onSenderBacklog)
func (l *Ledger) OnBacklog(backlog int32) (gained int32) {
	if l.released {
		return 0
	}
	// A hostile backlog must not wrap.
	l.want(int32(min(int64(backlog)+int64(l.initial), 1<<31-1)))
	return l.borrow()
}

// want sets required, and keeps the budget's sum of what its channels want beyond their own.
func (l *Ledger) want(n int32) {
	l.budget.wanted += int64(max(0, n-l.initial)) - int64(max(0, l.required-l.initial))
	l.required = n
}

// borrow takes floating units until nothing is wanted or the budget is empty; then it waits in line.
func (l *Ledger) borrow() (gained int32) {
	for l.Free() < l.required && !l.waiting {
		if l.budget.take() {
			l.floating++
			l.borrowed++
			gained++
		} else {
			l.waiting = true
			l.budget.join(l)
		}
	}
	return gained
}

// offer asks whether the channel, which waited, takes a unit that came back to the budget, and whatever else it needs.
// (BufferManager#notifyBufferAvailable)
func (l *Ledger) offer() (gained int32, accepted bool) {
	if l.released {
		return 0, false // and it stays marked as waiting
	}
	l.waiting = false
	if l.Free() >= l.required {
		return 0, false
	}
	l.floating++
	l.borrowed++
	return 1 + l.borrow(), true
}

// Return un-charges a unit: its buffer came home. Exclusive: if the channel then has more than it wants and a free
// floating unit among it, that goes back to the budget, and nothing is gained; else one unit is. Floating: it goes to
// the budget, which offers it to whoever waits. (BufferManager#recycle, LocalBufferPool#recycle)
func (l *Ledger) Return(kind CreditKind) (gained int32) {
	if kind == Floating {
		l.borrowed--
		l.budget.giveBack()
		return 0
	}
	if l.released {
		return 0
	}
	l.exclusive++
	if l.Free() > l.required && l.floating > 0 {
		l.giveFloating()
		return 0
	}
	return 1
}

func (l *Ledger) giveFloating() {
	l.floating--
	l.borrowed--
	l.budget.giveBack()
}

// OnBlocking notes that a blocking event came: a channel without exclusive units needs none now, and gives its floating
// ones back. (RemoteInputChannel#onBlockingUpstream, BufferManager#releaseFloatingBuffers)
func (l *Ledger) OnBlocking() {
	if l.initial == 0 {
		l.want(0)
		l.giveAllFloating()
	}
}

func (l *Ledger) giveAllFloating() {
	// Taken out first: what goes back may be offered, but not to this ledger.
	n := l.floating
	l.floating = 0
	l.borrowed -= n
	for ; n > 0; n-- {
		l.budget.giveBack()
	}
}

// OnResume notes that the sender is let go on: it sets the credit of a channel without exclusive units to 0, so that
// nothing is left to announce either. (RemoteInputChannel#resumeConsumption)
func (l *Ledger) OnResume() {
	if l.initial == 0 {
		l.unannounced = 0
	}
}

// Announce adds n units to what the sender has to be told, and reports whether nothing was before: then, and only then, a
// message has to be planned. (RemoteInputChannel#notifyBufferAvailable)
func (l *Ledger) Announce(n int32) (first bool) {
	if n <= 0 {
		return false
	}
	first = l.unannounced == 0
	l.unannounced += n
	return first
}

// TakeUnannounced returns what the sender has to be told, and counts it as told. (getAndResetUnannouncedCredit)
func (l *Ledger) TakeUnannounced() int32 {
	n := l.unannounced
	l.unannounced = 0
	return n
}

// Release gives all free units up. Those that are charged come home by Return. A waiting channel leaves the line, but
// stays marked as waiting. (BufferManager#releaseAllBuffers)
func (l *Ledger) Release() {
	if l.released {
		return
	}
	l.released = true
	l.budget.wanted -= int64(max(0, l.required-l.initial))
	l.budget.leave(l)
	l.giveAllFloating()
	l.exclusive = 0
}

// Released reports whether Release was called.
func (l *Ledger) Released() bool { return l.released }

// FloatBudget is the floating credit that the channels of a gate (on one loop) share, and the line of those that wait
// for some: what LocalBufferPool is for a gate, as a count. First come, first served. A pure state machine.
type FloatBudget struct {
	limit int32
	out   int32 // units that channels have
	// wanted is the sum of what the channels want beyond their exclusive units, for debloating.
	wanted int64
	head   *Ledger
	tail   *Ledger
	// gained is told what a waiting channel got when units came back.
	gained func(l *Ledger, n int32)
}

// Init makes b a budget of limit units. gained is called for a channel that waited and got n units, for it to announce
// them; it must not return units. nil: nobody wants to know.
func (b *FloatBudget) Init(limit int32, gained func(l *Ledger, n int32)) {
	*b = FloatBudget{limit: limit, gained: gained}
}

// Out is the number of units that channels have.
func (b *FloatBudget) Out() int32 { return b.out }

// Limit is the number of units there are.
func (b *FloatBudget) Limit() int32 { return b.limit }

// SetLimit changes the number of units. More are offered at once to those who wait; of less, the surplus vanishes as it
// comes back. (LocalBufferPool#setNumBuffers)
func (b *FloatBudget) SetLimit(limit int32) {
	b.limit = limit
	for b.out < b.limit && b.head != nil {
		b.out++
		b.serve()
	}
}

// take takes one unit out.
func (b *FloatBudget) take() bool {
	if b.out >= b.limit {
		return false
	}
	b.out++
	return true
}

// giveBack brings one unit back.
func (b *FloatBudget) giveBack() {
	if b.out > b.limit {
		b.out--
		return
	}
	b.serve()
}

// serve offers a unit, which counts as out, to those who wait, in turn; nobody takes it: it is in again.
func (b *FloatBudget) serve() {
	for b.head != nil {
		l := b.head
		b.leave(l)
		if n, ok := l.offer(); ok {
			if b.gained != nil {
				b.gained(l, n)
			}
			return
		}
	}
	b.out--
}

// join puts l at the end of the line. The caller has made sure that it is not in it.
func (b *FloatBudget) join(l *Ledger) {
	l.inLine = true
	l.prev, l.next = b.tail, nil
	if b.tail != nil {
		b.tail.next = l
	} else {
		b.head = l
	}
	b.tail = l
}

// leave takes l out of the line, if it is in it.
func (b *FloatBudget) leave(l *Ledger) {
	if !l.inLine {
		return
	}
	if l.prev != nil {
		l.prev.next = l.next
	} else {
		b.head = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	} else {
		b.tail = l.prev
	}
	l.prev, l.next, l.inLine = nil, nil, false
}
