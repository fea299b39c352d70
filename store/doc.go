// Package store keeps the rows of one rank's commits in a log on a disk, so that a job whose processes are all lost continues
// from a commit of a few seconds before.
//
// # Terms
//
// A Store is a commit.Sink. Seal copies the rows that an epoch wrote, and Commit queues them. A goroutine in the
// background appends them to the log (package rowlog) and makes them durable. Durable is the last step that survives
// the loss of all processes, and of power. It is behind the commit, which survives the loss of some ranks.
//
// The first rank also has the run's past: the dense part of the model, a record in a format of the trainer, and the
// loss of each step. Dense part and record are in the extra part of each epoch. The losses are in rows of the log
// behind those of the model, as many bytes in each as a row has, so only the newest ones are written.
//
// # A slow disk
//
// A disk that is too slow delays no step but two: the first of a run that begins with other rows than random ones, and
// the one after lost rows are rebuilt, when all rows are written. A Store with several epochs in its queue is behind, and reports it.
// The ranks exchange these reports, and all of them call Hold for the next epoch: its rows are then written with
// those of the following one. So memory is bounded by the distinct rows of the epochs that wait, and all ranks have
// the same epochs in their logs.
//
// A write that fails is repeated until it succeeds, and its epochs are held meanwhile. If all rows could not be written, they are at
// a seal a minute later. After a failed sync the log takes nothing more. In all cases Problem has the reason, and the job lives on.
//
// A stream that fails is opened again in the background, and all rows are sent then. In a later world the first opening is in the background
// too (OpenLater), since all ranks wait for one that replaces a lost one. Sets that are sealed meanwhile are left out.
//
// # Restart
//
// After the loss of all, each rank has a log up to some step. The job agrees on the least of these steps, and every
// rank calls Restore with it. A rank that begins with rows from elsewhere, such as a checkpoint, writes them all
// first (Begin). A rank that replaces a lost one writes all rows at the first seal after they are rebuilt. Until then
// its Durable is 0, and the job's too.
//
// The log of a rank may be an old one: of a machine that was lost and is back, or a copy. It ends before the step that another rank's log
// has as Settled. The job does not go back to it, since rows that later epochs replaced may be gone there.
//
// A job that is killed in its first epochs may leave logs to some ranks only. So a log that begins at step 0 begins with a note in its
// folder, which the store removes once a step is durable on all ranks (Settle). Where every rank has the note (HasBegun), an empty
// log is not a lost one: no step was durable, and the job may begin anew.
//
// # Rows that are not in memory
//
// Below is the place of rows that have no frame in a shard (shard.OpenTier). The log has them, except those that had to leave memory
// before their epoch was appended: they are in a file of their own, until it is. A job without a log has a Scratch. Rows may also be
// read in the background (ReadLater), while others are spilled, appended and cleaned: their places keep their bytes until they are read.
//
// # Invariants
//
//   - A log holds epochs that are committed, and no others. So a loss of some ranks takes nothing back from it.
//   - The rows of an epoch are those at its seal, whatever training writes meanwhile.
//   - One process at a time uses a folder: it holds a lock.
//
// # Never
//
// The package sends nothing to other ranks, and does not decide from which step a job restarts.
package store
