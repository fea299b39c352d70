// Package commit makes the rows of a job safe, an epoch at a time: what owners
// wrote is sealed, sent as deltas to the holders of its parity, and committed when
// every rank has staged what was sent to it (DESIGN.md section 5; ECRec, VLDB'23:
// difference propagation and its two-phase commit).
//
// # Terms
//
// A commit is named by the step that it stands at the end of; commit 0 is what a
// run starts from. An epoch is the steps from one commit to the next. It is sealed
// when all its updates are done, prepared on a rank that has staged every delta for
// the parities it holds, committed when all ranks have said that they are prepared.
//
// # How it goes
//
// A Committer belongs to a rank. Its training goroutine tells it of boundaries
// between steps (Boundary); where an epoch ends there, the deltas of the rows that
// this rank owns are copied, and travel in the background. Prepared goes into the
// rank's word of each step, and the least of all words comes back (Decide): every
// rank then folds what it has staged into its parities.
//
// # Invariants
//
//   - All ranks seal, decide and commit at the same steps. So no rank is ever asked
//     about a commit other than its own, and nothing is locked.
//   - Who decides a commit knows that all ranks are prepared for it: whoever has not
//     yet decided can, without hearing from anybody. That is how survivors agree
//     (Roll).
//   - A parity equals ec's Encode of the data rows as of the commit, unless it is
//     unbuilt (its holder is new, and has not encoded it yet).
//   - At most two epochs are uncommitted, one sealed and one under way; the seal of the
//     latter waits for the commit of the former. So no loss costs more than 2 epochs.
//
// # What it never does
//
// It reads no clock but to say how long it waited, knows no model and no
// processes, and does not decide who is lost.
package commit
