// Package sim runs whole clusters in one process, in virtual time, with faults, and
// checks that none of them changes a bit of what a job gives (DESIGN.md sections 6 and
// 8). What runs is production code, train.Run in every process of the cluster, on an Env
// of its own, and in most runs transport.Join and its framing over simulated connections.
//
// # Terms
//
// A task is a goroutine of a run. One has the baton at a time, and the next is drawn
// from the seed where it waits, sleeps, or takes a monitor (scheduler). Time is virtual:
// it passes where no task can run. A node is what dies and freezes as one.
//
// A machine has a supervisor and a worker, its process, unless it is a spare. The
// register stands for the consensus on worlds: one linearizable value, whose requests and
// answers are late, get lost and come twice. Each supervisor asks it every heartbeat,
// and proposes the next world where its worker has died or does not reach another, or
// where the register has not heard a machine for a lease: a spare takes the process, or
// the others adopt its ranks. A supervisor that was not answered for nearly as long
// kills its worker (fencing). A machine that comes back is a new one.
//
// A network carries the bytes of connections. Where processes share one memory instead
// (drawn), they talk through transport.NewMem, so that what is done in place is run too.
//
// A run is a seed: the job, its code and cache mode, the schedule, the faults. A fault is
// one of kinds, at a point of train.Points or some decisions after a step or a world has
// begun; many come in pairs, at one moment, or while a goroutine that lingers at a point
// holds the moment open: in a recovery, beside a rebuild. Messages dawdle where the run's
// delays say so.
//
// In mode liveness no group loses more at a time than it can spare, and the job must
// finish with the right result. In mode safety anything may fail, and the job may also
// end with commit.Beyond, or fall back to a checkpoint, where more was lost.
//
// # What is checked
//
//   - Digest, losses, evaluations and steps are those of the job without faults, in one
//     process, without cache and code.
//   - Whenever an epoch is sealed, and where a rebuild begins: all owners are at one commit, with one epoch sealed at
//     most, every parity is the encoding of its rows, and what is kept for commits, and
//     goroutines, are no more than there should be.
//   - Every read of a row is of what the steps before have written (package lrpp).
//   - No two worlds of one generation train, and whoever takes part in a world is the
//     incarnation, on the machine, that the world says.
//   - A loss takes back two epochs at most, one that is sealed and the one under way, also
//     where no record of it is left, unless the world fell back to a checkpoint.
//   - Whose place another takes for its silence has ended its worker, unless it stands still.
//   - Nobody waits for ever, the job ends when all have done their work in one world, and
//     nothing runs on when it is over.
//
// The tests break protocol steps one by one, and each must be noticed (TestMutations).
//
// # What is not simulated
//
// Consensus itself and the state machines of package launcher, which have tests with
// clusters of their own; rings of shared memory; threads inside kernels.
package sim
