// Package train is the step loop: the only place that knows all the others.
//
// # Terms
//
// A job is a run of one config. A rank is a logical place in it: it trains a
// slice of every batch and owns rows, unless [ranks] gives it one part only. Then
// trainers come first, servers (which own rows) next, readers (which send slices to
// trainers) last; all of them run the same steps, with empty slices or no rows.
// Ranks of one process share its cores.
//
// # Path of a step on a rank
//
//	reader ─ batch ─ planner ─ work queue ─┐            (background, ahead of time)
//	                                       ▼
//	fetch rows ─ forward ─ loss ─ backward ─ push row gradients ─ reduce ─ update
//	                         └ control word ┘     (dense all-reduce under backward)
//
// # The control word
//
// Every step all ranks exchange one word each: the loss sum of the slice, and
// whether the rank wants to stop. Decisions (stop, a loss that is not a number)
// follow from the words of all ranks, so all ranks take them at the same step.
//
// # Failure
//
// A rank that fails closes its end of the world; every other rank's outstanding
// call then ends with transport.PeerLost, and the job with the first error that
// is not a consequence of another.
package train
