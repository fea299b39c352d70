// Package commit makes the updates of a job safe, an epoch at a time: the rows that an epoch
// wrote are sealed, given to sinks, and committed when the sinks of every rank are prepared.
// Parity is the sink that survives losses of ranks: it sends the deltas of rows to the
// holders of their parities (ECRec, VLDB'23: difference propagation and its two-phase
// commit).
//
// # Terms
//
// A commit is named by the step after which it is taken. Commit 0 is the model that a run
// starts from. An epoch is the steps from one commit to the next. It is sealed when all its
// updates are done and its rows are listed in a sealed set (Set). A rank is prepared for an
// epoch when each of its sinks (Sink) has made the rank's set safe. The epoch is committed
// when all ranks have reported that they are prepared.
//
// A pre-image is the bytes of a row, weights and optimizer state, before its first write in
// an epoch. A delta is the pre-image of a row XOR the row at the end of the epoch.
//
// After a loss, the surviving ranks roll back to the last commit. A new rank rebuilds its rows
// and parities from those of the survivors; until it has, it is degraded.
//
// # The protocol
//
// It is three state machines without I/O: an event is an input, actions are the output
// (machine.go). The owner of rows ends epochs and keeps the pre-images that lead back to the
// last commit. The holder of parities stages deltas, and folds them when they are committed.
// The decision finds the step that all ranks are prepared for.
//
// A Committer carries out the actions of owner and decision. The training goroutine calls it
// at the end of each epoch (Seal) and with the status of all ranks in each step (Decide). The
// Committer's Prepared, the least of all its sinks, is part of this rank's status.
//
// The deltas of a sealed set may wait (ParityOptions.Deferred) until the messages of a step have arrived that training waits for.
//
// A rank keeps pre-images only if one of its sinks needs them. If none does, as with
// ec.code = "none", it keeps a hash of each row that it writes, and cannot roll back.
//
// Parity rebuilds lost rows in rounds (round.go). Stripes with the same erasure pattern are
// requested from the same ranks and decoded together. Rows that never differed from their
// init are not sent.
//
// # Invariants
//
//   - All ranks seal, decide and commit at the same steps. So every request is about a commit that
//     its receiver holds, and no locks are needed.
//   - When one rank decides a commit, all ranks are prepared for it. A rank that has not
//     decided it yet can still do so without a message from any other. So survivors can agree
//     on a commit (Roll).
//   - A parity equals ec's Encode of the data rows as of the commit, unless it is unbuilt: its
//     holder is new and has not encoded it yet.
//   - At most two epochs are not committed, one sealed and one active. The seal of the active
//     epoch waits for the commit of the sealed one. So a loss costs at most two epochs, and
//     a step that only the lost process had ended: there it committed the sealed epoch, which no other had
//     done yet.
//
// # Never
//
// The package reads the clock only to measure how long it waited. It has no notion of models
// and processes, and does not decide which ranks are lost.
package commit
