// Package align decides when a task takes a checkpoint, and which of its input channels must wait for it.
//
// Its one idea: no record that a channel sent behind barrier n is processed before snapshot n is taken, or else it does
// not matter (at least once), or the records before the barrier become part of the snapshot (unaligned). All of that is
// one table of what to do, by state and stimulus, printed below from the code.
//
// A Handler sees the barriers, cancel markers, announcements and ends of all channels of a task, in the order in which
// they are taken from the gates. It tells the gates (Input) which channels to block, resume, or store, and the Task when
// to take a checkpoint. It is a plain state machine: it holds no goroutine, lock or clock, does no I/O, and what it
// decides depends on its calls alone. Whoever drives it passes in the time and keeps its one timer. New makes one:
//
//	Config                              Flink's class
//	ExactlyOnce                         SingleCheckpointBarrierHandler.aligned
//	ExactlyOnce, UnalignedOn            SingleCheckpointBarrierHandler.alternating
//	ExactlyOnce, UnalignedAlways        SingleCheckpointBarrierHandler.unaligned
//	AtLeastOnce                         CheckpointBarrierTracker
//
// CheckpointedInput joins a credit.Gate to a Handler, and is what a task polls. Senders that do not stop at a barrier
// can be aligned by storing what they send meanwhile, in memory or a file, with a limit: see NewStoring. A StateExecutor
// with its StateWriters writes what was in flight at an unaligned checkpoint, ReadChannelState and Recovering bring it
// back; of all this package only StateExecutor.Run, the stores and the spill files do I/O.
//
// # Invariants
//
//   - Aligned: a record behind barrier n on its channel is handed out only after n was triggered, aborted, or made
//     obsolete by a newer checkpoint; all records before barrier n on all channels are handed out before n is triggered.
//   - An id is triggered at most once and aborted at most once. Both only in this order, and only when unaligned.
//   - Ids that are triggered grow, and so do those that are aborted. After either for n, nothing is ever said about an
//     older one.
//   - A barrier that blocks is followed by exactly one Resume of its channel, or the channel ends.
//   - When nothing is pending, no channel is blocked, no announcement remembered and no timer set.
//   - What is stored for a channel and checkpoint is the data between what was handed out at the trigger and the barrier,
//     in order, each buffer once.
//
// "Triggered or aborted" does not hold for each id: a checkpoint that a cancel marker of a newer one ends gets neither,
// and so do those that an at-least-once tracker subsumes, or forgets because more than MaxTracked are pending.
//
// # The table
//
// States: W waiting for the first barrier, C collecting the others (aligned mode). AW, AC: the same where the checkpoint
// may yet turn unaligned. UW: unaligned, or turned so, before the first barrier; UC: triggered unaligned, waiting for the
// other barriers. There is no finished state. "Last": no channel is missing any more. "Late": one is, and the timeout
// has passed since the checkpoint began. ->> means that the same is looked up again in the new state, where a barrier is
// then unaligned. Cells marked (never) cannot be reached, because nobody sets a timer or asks whether it is late there.
//
// Actions: block the channel unless the barrier was injected; forget, remember, promote (make a priority event) the
// announced barrier of the channel, or promote all that are announced; unalign the barrier; init and trigger: tell the
// task to get ready, to take the checkpoint; start, stop: tell all channels to begin or end storing; release: resume
// all blocked channels; clear: forget all announcements; drop: the channel is neither blocked nor announced any more;
// check that the pending barrier is aligned; fail with ErrState.
//
// A *CheckpointError on the way aborts the checkpoint from the state before; any other error leaves the state as it was.
//
// [begin table]
//
//	W   aligned barrier, last    block, trigger, release -> W
//	W   aligned barrier, late    block -> C (never)
//	W   aligned barrier          block -> C
//	W   unaligned barrier, last  fail -> W
//	W   unaligned barrier        fail -> W
//	W   announcement             - -> W
//	W   timeout                  fail -> W (never)
//	W   abort                    release -> W
//	W   end of channel, last     drop -> W
//	W   end of channel, late     drop -> W (never)
//	W   end of channel           drop -> W
//
//	C   aligned barrier, last    block, trigger, release -> W
//	C   aligned barrier, late    block -> C (never)
//	C   aligned barrier          block -> C
//	C   unaligned barrier, last  fail -> C
//	C   unaligned barrier        fail -> C
//	C   announcement             - -> C
//	C   timeout                  fail -> C (never)
//	C   abort                    release -> W
//	C   end of channel, last     drop, trigger, release -> W
//	C   end of channel, late     drop -> C (never)
//	C   end of channel           drop -> C
//
//	AW  aligned barrier, last    forget, block, init, trigger, release, clear -> AW
//	AW  aligned barrier, late    forget, block, promote all, unalign ->> UW
//	AW  aligned barrier          forget, block -> AC
//	AW  unaligned barrier, last  promote all ->> UW
//	AW  unaligned barrier        promote all ->> UW
//	AW  announcement             remember -> AW
//	AW  timeout                  promote all -> UW
//	AW  abort                    release, clear -> AW
//	AW  end of channel, last     drop -> AW
//	AW  end of channel, late     drop -> AW (never)
//	AW  end of channel           drop -> AW
//
//	AC  aligned barrier, last    forget, block, init, trigger, release, clear -> AW
//	AC  aligned barrier, late    forget, block, promote all, unalign, init, start, trigger ->> UC
//	AC  aligned barrier          forget, block -> AC
//	AC  unaligned barrier, last  promote all, init, start, trigger ->> UC
//	AC  unaligned barrier        promote all, init, start, trigger ->> UC
//	AC  announcement             remember -> AC
//	AC  timeout                  promote all, unalign, init, start, trigger -> UC
//	AC  abort                    release, clear -> AW
//	AC  end of channel, last     check, drop, init, trigger, release, clear -> AW
//	AC  end of channel, late     check, drop, promote all, unalign, init, start, trigger ->> UC
//	AC  end of channel           check, drop -> AC
//
//	UW  aligned barrier, last    block, unalign, init, start, trigger, stop, release, clear -> AW or UW
//	UW  aligned barrier, late    block, unalign, init, start, trigger -> UC (never)
//	UW  aligned barrier          block, unalign, init, start, trigger -> UC
//	UW  unaligned barrier, last  init, start, trigger, stop, release, clear -> AW or UW
//	UW  unaligned barrier        init, start, trigger -> UC
//	UW  announcement             promote -> UW
//	UW  timeout                  - -> UW (never)
//	UW  abort                    release, clear -> AW or UW
//	UW  end of channel, last     drop -> UW
//	UW  end of channel, late     drop -> UW (never)
//	UW  end of channel           drop -> UW
//
//	UC  aligned barrier, last    block, stop, release, clear -> AW or UW
//	UC  aligned barrier, late    block -> UC (never)
//	UC  aligned barrier          block -> UC
//	UC  unaligned barrier, last  stop, release, clear -> AW or UW
//	UC  unaligned barrier        - -> UC
//	UC  announcement             promote -> UC
//	UC  timeout                  - -> UC
//	UC  abort                    stop, release, clear -> AW or UW
//	UC  end of channel, last     drop, stop, release, clear -> AW or UW
//	UC  end of channel, late     drop -> UC (never)
//	UC  end of channel           drop -> UC
//
// [end table]
//
// # Deviations
//
// What Flink does and what this package does where Flink's behaviour looks accidental. The tests are named TestQuirk...
//
//	Q1   infinite timeout: unaligned at once                          same (event.ForConfig)
//	Q2   one channel left, at least once: an old id triggers again    same; the task must refuse ids it had
//	Q3   cancel of a newer id drops the pending one silently          same; downstream the newer marker releases
//	Q4   cancel marker is lost when only announcements came           same; Config.StrictCancel aborts
//	Q5   all channels end after announcements only: silently done     same
//	Q6   a promoted barrier keeps its aligned options                 same; so its channel is blocked and resumed
//	Q7   storing: a cancelled newer id is aborted twice, the old never fixed: the old as subsumed, then the new
//	Q8   channels are resumed in the order of a hash set              in ascending order
//	Q9   an obsolete injected barrier resumes a running sender        fixed: not resumed
//	Q10  a refused start leaves the channels before it storing        same; what they store is dropped, see Task.Abort
//	Q11  a truncated chunk of channel state is taken as whole         fixed: an error
//	Q12  at least once: older entries left behind fail the task later fixed: dropped; Config.KeepOlder leaves them
//
// Besides, a blocked channel that ends while Config.StopAtFirstEnd is set is not resumed (Flink fails the task), an
// end after all have ended is an error, and an Input may refuse to let a
// barrier overtake, by a CheckpointError, which gives the checkpoint up.
package align

//go:generate go test -run TestDocTable -update
