package ringbuf

// A sleeper that blocks in something else than the notifier's own channel (a system call, say) announces itself with
// PrepareHook. The same argument about memory order holds: whoever moves the state from hooked back to awake decides, and a
// waker that wins calls the hook instead of sending a token.
const hooked = 2

// PrepareHook announces that the caller is about to sleep elsewhere, and that *wake ends that sleep. It is followed by
// CancelHook, after the sleep or instead of it. The hook is called by the waker's goroutine, at most once for each
// announcement, and may be called late, when the sleep is over: it must tolerate that. The pointer lets the caller keep one
// function and allocate nothing.
func (n *Notifier) PrepareHook(wake *func()) {
	if n.hook.Load() != wake {
		n.hook.Store(wake)
	}
	n.state.Store(hooked)
}

// CancelHook ends what PrepareHook began, whether or not somebody called Wake meanwhile.
func (n *Notifier) CancelHook() { n.state.CompareAndSwap(hooked, awake) }

// wakeHooked ends a sleep that was announced by PrepareHook.
func (n *Notifier) wakeHooked() {
	if n.state.CompareAndSwap(hooked, awake) {
		(*n.hook.Load())()
	}
}
