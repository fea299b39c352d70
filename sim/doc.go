// Package sim runs whole clusters in one process, in virtual time, with faults, and
// checks that none of them changes a bit of what a job gives (DESIGN.md sections 6 and
// 8). What runs is production code, train.Run in every process of the cluster, on an Env
// of its own.
//
// # Terms
//
// A task is a goroutine of a run. One has the baton at a time, and the next is drawn
// from the seed where it waits, sleeps, or takes a monitor (scheduler). Time is virtual:
// it passes where no task can run. A node is a process as the scheduler knows it.
//
// A cluster is processes and a register, which stands for the consensus on worlds: it
// starts again whoever died, and forms the next world when all listen. It is
// linearizable and answers late.
//
// A run is a seed: the job, its code and cache mode, the schedule, the faults. A fault is
// a kill (SIGKILL: the process reaches nobody any more, what it held is lost), a freeze
// (SIGSTOP; one longer than five heartbeats is fenced, by a kill) or a cut (all
// connections of a process break, nothing is lost), at a point of train.Points or some
// decisions after a step or a world has begun. Messages dawdle where the run's delays say
// so. In most runs no more is lost at a time than the code makes good; in the wild ones
// anything may be.
//
// # What is checked
//
//   - Digest, losses, evaluations and steps are those of the job without faults, in one
//     process, without cache and code. A run may end with commit.Beyond instead, or fall
//     back to a checkpoint, only if more was lost at a time than the code makes good.
//   - Whenever an epoch is sealed: all owners are at one commit, with two epochs sealed at
//     most, and every parity is the encoding of its rows.
//   - A loss takes back three epochs at most: two that are sealed and the one under way.
//   - Nobody waits forever, and nothing runs on when the job is over.
//   - With -tags debug: no row is read stale (package lrpp).
//
// The tests break protocol steps one by one, and each must be noticed (TestMutations).
//
// # What is not simulated
//
// Consensus itself, the transport below its contract (lost and repeated packets),
// spares and adoption, and threads inside kernels. A process that dies when another has
// ended already, done, is counted and not judged: that is the launcher's.
package sim
