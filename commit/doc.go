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
// The protocol is three machines without I/O: events go in, actions come out
// (machine.go). The owner of rows ends epochs and keeps what leads back to the last
// commit; the holder of parities stages deltas and folds them when they are committed;
// the decision finds, from the words of all ranks, what all are prepared for.
//
// A Committer carries out what owner and decision want. Its rank's training goroutine
// tells it where an epoch ends (Seal), and at each step what the ranks' words say
// (Decide). What an epoch wrote is a Set, which goes to Sinks: Parity is the first, a
// holder's machine and the deltas that it sends and stages in the background; tiers,
// streams and checkpoints can be others. Prepared, the least of all sinks', goes into
// the rank's word of each step.
//
// What a rank has lost comes back in rounds (round.go): stripes that share their
// erasure pattern go side by side, asked of the same ranks and decoded at once, and rows
// that never differed from their init do not travel.
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
