// Package launcher starts the processes of a job, connects them, replaces lost ones, and ends
// them.
//
// Its state machines are in launcher/control, the connections in launcher/wire, and the
// rendezvous in launcher/place. This package runs them: it owns processes, signals, timers
// and the replication of the job's state.
//
// # Terms
//
// A process of a job, 0..P-1, hosts ranks. On one machine rank i is on process i mod P; on
// several, machines take turns (control/spread.go). A loss can move ranks. A process is a
// pair: a supervisor, small and without a model, and its child, the worker, which hosts the
// ranks. With --np P one more process, the local launcher, starts the supervisors. Under
// mpirun, srun and similar launchers, those do. All are one binary:
//
//	launcher ──▶ supervisor 0 ──▶ worker 0        The job begins at the rendezvous: at
//	         ├─▶ supervisor 1 ──▶ worker 1        the local launcher, or without one at
//	         └─▶ ...                              supervisor 0. That is the job's host.
//
// A spare is a supervisor without a process, numbered P and up: it waits for another's loss.
// A supervisor that joins the running job, in place of a lost one, gets an unused number and
// is a spare too. An incarnation counts the workers of a process, from 1. A standby is a started
// worker without a process or incarnation, in reserve for its supervisor's next start (standby.go).
//
// A generation numbers the worlds of a job: its processes, their addresses, their ranks. A
// job is elastic if its work survives the loss of workers.
//
// Members are the supervisors and the local launcher. The job's state is a function of a log
// of events. In an elastic job up to 5 members vote on that log (Raft, by hashicorp/raft).
// Each voter has a controller, and the leader's controller acts.
//
// # How a job runs
//
//  1. place.Detect reads the place from the environment. The host opens the rendezvous. The
//     others join, and both ends prove that they have the job's secret. After 5 s a message
//     names the missing process. Once all have joined, any voter can lead, and the
//     rendezvous is no longer needed.
//  2. The job forms a generation: it sends each supervisor the process and incarnation that
//     should listen. The supervisor passes that to its worker, or starts one. Workers listen
//     and report their addresses. When all do, all receive the world.
//  3. A worker whose work is done reports that, and waits (World.Done). When all are done,
//     they may leave, and the job is over.
//
// SIGINT or SIGTERM at the local launcher or at any supervisor requests a stop of all workers; their
// ranks agree on the last step. The second signal ends the job at once.
//
// # Losses
//
// A worker that reports an error of its own ends the job. The others have 5 s to end by
// themselves (they lose a peer), then they are killed. One member prints one line about the
// first failure that was no consequence of another. All exit with the same code. In
// a job that is not elastic every loss ends the job so. In an elastic job the next generation
// forms, and its workers are notified at once (World.Changed):
//
//   - A worker that died without a report (a signal, a panic) is started again. One that
//     misses 5 heartbeats is killed by its supervisor first.
//   - A supervisor that is gone, or misses 5 heartbeats, has lost its process. A spare takes
//     the process. Without a spare its ranks are reassigned to the processes with the fewest
//     ranks, the lowest numbers first. Supervisor 0 is not special. The loss of a spare is
//     printed and changes no generation.
//   - A worker that cannot reach another, whose end is not known, reports that (World.Lost).
//     So do the workers that it disconnects from. After 4 heartbeats, or when all have
//     reported, the same workers form a generation with new connections. A process that
//     reported a peer unreachable is not blamed; the peer is. If all have reported, one of a
//     pair that cannot reach each other is. A process that is blamed twice without a commit
//     between gets another worker. Each such generation doubles the time limits of the next
//     (World.Doubts), until a commit.
//   - A worker that was done is needed again. If it has died meanwhile, it is started again
//     when the next generation forms for another reason.
//
// A loss while a generation forms starts the next one. If a generation does not form within
// limits.Reform, workers that do not listen are replaced. Losses in a row without a commit
// between (World.Committed) are counted. MaxRestarts bounds them: then the job ends, and the
// workers receive the reason, so that they can record it.
//
// # Joining a running job
//
// A supervisor that is restarted in a place whose own was lost joins the running job
// (controller_join.go): at the rendezvous, or at any voter's endpoint. It proves that it has
// the secret, the same config and program. The leader assigns its number. From then on
// it is a spare, and may vote.
//
//   - If ranks were reassigned, it takes over their process (control/job_join.go): a generation
//     forms in which that process has its ranks again. They are lost once more and rebuilt, so
//     the job must be fully redundant first, as the workers report with a commit. Until they
//     are rebuilt, another loss is one more, as after any loss. Later losses are those of one
//     process's ranks, not of two.
//   - If the worker fails on a machine that is new to its process, before a commit, for any
//     reason, the machine is given up as long as another supervisor lives. It may lack the
//     data, or memory. The job does not end for that.
//   - The local launcher restarts a supervisor 10 s after its loss. Each one that ends soon
//     doubles the wait, up to 640 s, also if it ends before it joins. Each attempt and each
//     failure prints a line. Under other launchers a loop around the command, or a person
//     with a repaired machine, does it.
//   - At the job's end the leader waits, 2 s at most, for supervisors that have joined and
//     not linked yet, so that they receive the end.
//   - The host's rendezvous stays open. If the host is lost, a voter opens one on its own
//     machine, in the background: the same name, or the same port at its address.
//
// A restarted process 0 may open a second rendezvous and wait in vain: on a machine without a
// voter, or within 5 s of its loss. Start it with --rdzv HOST:PORT and a voter's host, or a
// moment later. Processes that met by the launcher's PMI cannot join again, since PMI delivers
// the secret once.
//
// A Fault is an injected loss. The worker requests it and waits (World.Fire). The job grants each
// fault once and records it; the supervisor carries it out. A job that succeeds names the
// faults that have not fired.
//
// # Invariants
//
//   - Supervisors have distinct numbers for ever, and live ones distinct places.
//   - A process has one worker at a time: a replaced one is dead before the next is started.
//     The local launcher kills a supervisor before its place is given away. (The death of an
//     unreachable machine cannot be observed. Messages from there are of an older generation,
//     sealed with another secret. The supervisor there ends its worker when it receives its
//     loss, or after 15 heartbeats without a leader.)
//   - A worker does not outlive its supervisor, nor a supervisor the local launcher
//     (PR_SET_PDEATHSIG, held by a thread that lives as long as the child).
//   - A supervisor notices that its worker was killed as soon as no thread of it runs any more, by a
//     robust futex (lifeline). The system frees all memory of the process before it reports its
//     end. Other ends are noticed when it does.
//   - The secret is on no command line. Messages between supervisors are encrypted and
//     authenticated with their number (package internal/seal). Only nonces are in clear.
//   - The consensus library logs warnings and errors only, and none once the job is over.
//   - Every message, queue and wait has a limit.
//   - Only the leader performs the job's actions. The end of a timer names the timer.
//
// # Voters
//
// In a job that is not elastic the host alone keeps the job's state, and its loss ends the
// job. In an elastic job an odd number of members votes, 5 at most: the local launcher, which
// leads, and then the lowest numbers that live. The loss of a voter, itself an event of the
// log, makes the next member a voter, as long as there are enough.
//
//	event ──▶ leader ──▶ log ──▶ replica of each voter: Job.Step ──▶ actions, by the leader
//	  ▲ links: each supervisor sends to the leader                         │
//	  └──────────── supervisors ◀──── the job's messages, on these links ◀─┘
//
// Every supervisor has a link to every voter, so every voter sees at once if one dies. The
// leader sends its term on the links once per heartbeat, and receives heartbeats. A supervisor
// repeats its messages to each new leader until the job has moved on, and a new leader
// repeats the job's messages (Job.Resume): repeated and late messages change nothing. A new
// leader proposes the loss of supervisors whose links have ended meanwhile.
//
// A leader whose process dies is replaced at once; a silent one after 5 heartbeats. The first
// voter that detects it campaigns, the next a little later, and each again until one
// leads. A voter that has voted meanwhile lets the candidate proceed. A leader that resumes
// after that receives its own loss, and ends.
//
// The job survives the simultaneous loss of any minority of the voters, and any number of
// losses in sequence. It does not survive the loss of a majority: each process ends after 15
// heartbeats without a leader (60 if it is connected to a majority, which could elect one),
// and one prints why. Two supervisors without the local launcher have one voter, supervisor 0,
// because neither of two can continue without the other: the job survives the loss of
// supervisor 1 only. With the local launcher they are three.
//
// The log also holds the messages for people. One member prints each when it applies the
// event: the local launcher, or the first voter. The last one, about the job's end, is the
// leader's without the local launcher. So a message is printed once, unless that member is lost
// at that moment. The local launcher is the parent of all, and its loss ends
// the job: SIGKILL ends all processes, as a user expects. If it is suspended, the others
// continue, and it catches up. Under mpirun, srun and similar launchers the loss of one
// process may end the others.
//
// An Incident is a loss, a join or a stop request that should be recorded in a file. The job
// numbers incidents. The newest are part of each world, so the process that hosts rank 0 can
// record them, whichever that is. Spec.Closed receives those after the last world.
//
// Log and snapshots are in memory. A member draws an id when it starts, so a restarted one is
// never taken for the one that voted before. All connections, Raft's too, are authenticated
// and sealed.
//
// # What it never does
//
// It reads no model, data or config, and moves none of the job's data: that is transport's.
// Package train decides which state a worker resumes from.
package launcher
