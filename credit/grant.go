package credit

// GrantPolicy decides when credit that came free is told to the sender. It decides nothing else: how much there is, the
// Ledger knows. Whatever a policy holds back is told at the end of the turn, before the loop waits.
type GrantPolicy interface {
	// Grant reports whether to tell the sender now. unannounced is the credit to tell, at least 1; outstanding is the
	// credit that the sender knows of and has not used yet; window is the number of all buffers of the channel.
	Grant(unannounced, outstanding, window int32) bool
}

// Immediate tells everything at once, as Flink does.
type Immediate struct{}

// Grant is always true.
func (Immediate) Grant(unannounced, outstanding, window int32) bool { return true }

// Batched tells credit in portions of Max, or half the window if that is less, so that not every buffer costs a message.
// It never holds credit back when the sender has less than half a window left: it could run dry.
type Batched struct {
	// Max is the largest portion waited for; 0 means DefaultBatch.
	Max int32
}

// DefaultBatch is the portion of Batched.
const DefaultBatch = 16

// Grant reports whether the portion is large enough, or the sender needs it.
func (b Batched) Grant(unannounced, outstanding, window int32) bool {
	most := b.Max
	if most <= 0 {
		most = DefaultBatch
	}
	return outstanding <= window/2 || unannounced >= min(most, window/2)
}
