// Package sim simulates clusters in one process, in virtual time, with injected faults.
// It checks that no fault changes a bit of a job's result. The simulated code is
// production code: every process of the cluster runs train.Run with an Env of its own. In
// most runs it also uses transport.Join and its framing over simulated connections. Every
// result is bit for bit reproducible: sums have a fixed order, and nothing that touches
// numbers depends on time, randomness, or the order of maps or goroutines. A faulty run
// must therefore give exactly the result of a run without faults.
//
// # Terms
//
// A task is a goroutine of a run. One task runs at a time. The next is drawn from the
// seed whenever a task waits, sleeps, or locks a monitor (package internal/env/virtual). Time
// is virtual: it advances when no task can run. A virtual.Process is a process of the
// operating system, which is killed or frozen as one.
//
// A host has a supervisor and, unless it is a spare, a worker: its process. A slot is a
// process of a world; a worker that fills it is an incarnation. The register replaces the
// consensus on worlds: it is one linearizable value, whose requests and answers may be
// delayed, lost or duplicated. Each supervisor sends it a request every heartbeat. A
// supervisor proposes the next world in three cases: its worker has died, its worker
// cannot reach another, or the register has had no request of a host for a lease. In the
// last case a spare takes over the process, or its ranks are reassigned to the others. A
// supervisor without an answer for nearly as long kills its worker (fencing). A host that
// restarts counts as a new one.
//
// A machine stays when its host loses power: it has disks, with the logs of store.path. A loss of power takes a
// random part of the bytes that were not durable, writes take time, and some disks fail once.
//
// A third of the runs send their commits to a topic. Its broker is slow, fails, is down for a while, and has records twice or
// late. In some runs it breaks its promises: it loses acknowledged records, or reorders them (harm). After the run a follower
// reads the topic as it grew. It is killed and restarted at random moments, also in the middle of a save, and some lose their folder then.
// Half of them write bases and trim the topic. At the end a new follower reads the rest.
//
// A network transfers the bytes of connections. If processes share one memory instead
// (drawn), they communicate through transport.NewMem, so that operations in place are
// simulated too.
//
// A run is determined by its seed: the job, its code and cache mode, the schedule, and
// the faults. A fault has one of several kinds. It is injected at a point of package
// probe, or a number of decisions after a step or a world has begun. Many faults occur in
// pairs, at one moment. Others occur while a goroutine is held at a point: during a
// recovery, or beside a rebuild. Some settings also delay messages.
//
// In mode liveness no group loses more at a time than its code tolerates, and the job
// must finish with the right result. In mode safety anything may fail. The job may then
// also end with commit.Unrecoverable, or restore a checkpoint, if more was lost.
//
// # What is checked
//
//   - Digest, losses, evaluations and steps equal those of the job without faults, in one
//     process, without cache and code.
//   - Whenever an epoch is sealed, and when a rebuild begins, all owners are at one
//     commit, with at most one sealed epoch. Every parity is the encoding of its rows.
//     Memory kept for commits and the number of goroutines are within their limits.
//   - Every read of a row returns what the previous steps have written (package lrpp).
//   - No two worlds of one generation train. A process that takes part in a world is the
//     incarnation, on the host, that the world names.
//   - A loss undoes at most two epochs, one that is sealed and the current one, and a step that only the
//     lost process had ended. This also
//     holds if no record of it is left, unless the world restored a checkpoint.
//   - If a host is replaced because of its silence, it has ended its worker, unless it is
//     frozen.
//   - Every checkpoint at the end of a run has the digest of the commit of its step, and
//     nothing else is left of a save. Some runs save beside training, some find the disk full
//     at times.
//   - The model of each cut of a topic, and each checkpoint of the follower, has the digest of the commit. The last one is that of
//     the last step. If the broker broke a promise, a reader may end with a gap instead, or wait for records that come no more.
//   - A follower begins with its newest checkpoint, or with a base, and goes forward, unless lost records end the topic before its base.
//     A new follower gets the model of the last step from the newest base and the rest of the topic.
//   - A commit has the same digest whenever its step is trained, and a world that is rolled back to an evaluation that all ranks
//     have does not repeat it.
//   - No task waits forever, the job ends when all processes have done their work in one
//     world, and no task remains after its end.
//
// The tests break protocol steps one by one, and each must be noticed (TestMutations).
//
// # What is not simulated
//
// The consensus algorithm and the state machines of package launcher, which have tests
// with clusters of their own; rings of shared memory; threads inside kernels.
package sim
