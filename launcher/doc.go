// Package launcher starts the processes of a job, brings them together, replaces
// those that are lost, and ends them.
//
// # Terms
//
// A process of a job, 0..P-1, hosts ranks: rank i lives on process i mod P, until
// losses move it. It is a pair: a supervisor, small and without a model, and a
// worker, its child, which hosts the ranks and does the work. With --np P one more
// process, the launcher, starts the supervisors; under mpirun, srun and their like,
// those do. All are one binary:
//
//	launcher ──▶ supervisor 0 ──▶ worker 0        supervisor 0 runs the job; there
//	         ├─▶ supervisor 1 ──▶ worker 1        the supervisors meet (rendezvous)
//	         └─▶ ...
//
// A spare is a supervisor, numbered P and up, without a process: it waits for
// another's loss. An incarnation counts the workers of a process, from 1.
//
// A generation numbers the worlds of a job: which processes there are, where they
// listen, which ranks they host. A job is elastic where its work survives the loss
// of workers.
//
// # How a job runs
//
//  1. Detect learns the place from the environment. Supervisor 0 listens at the
//     rendezvous; the others come, and both sides prove that they know the job's
//     secret.
//  2. The job forms a generation: it tells each supervisor which incarnation of which
//     process is to listen for it. The supervisor passes that on to its worker, or
//     starts one. Workers listen and say where. When all listen, all are told the
//     world.
//  3. A worker that is done says so, and waits (World.Done). When all are done they
//     are told to leave, and the job is over.
//
// SIGINT or SIGTERM at the launcher or at any supervisor asks all workers to
// stop; their ranks agree on the last step. The second one ends the job at once.
//
// # Losses
//
// A worker that reports an error of its own ends the job: the others have limits.end
// to end by themselves (the loss of a peer makes them), then they are killed.
// Supervisor 0 prints one line about the failure that came first and was no
// consequence of another, and tells the others the exit code. So does any loss, if
// the job is not elastic. If it is, the next generation forms, and its workers hear of that
// at once (World.Changed), whatever they do:
//
//   - A worker that died without a report (a signal, a panic) is started again. One
//     whose supervisor hears nothing of it for 5 heartbeats is killed, and then died.
//   - A supervisor that is gone, or silent for 5 heartbeats, has lost its process. A
//     spare takes the process; where there is none, the processes with the fewest
//     ranks adopt its ranks, the lowest numbers first.
//   - A worker that does not reach another, of whose end nobody has heard, tells so
//     (World.Lost). The same workers form a generation, with new connections. Told
//     again without a commit between, the one not reached gets another worker.
//   - A worker that was done is needed again. If it has died meanwhile, it is started
//     again, but only when something else makes a generation.
//
// A loss while a generation forms makes the next one. One that does not form within
// limits.reform gets new workers for those that do not listen. Losses in a row without
// a commit between (World.Committed) are counted, and maxRestarts ends the job.
//
// A Fault is a loss on purpose. The worker asks and waits (World.Fire); the job grants
// each once, and keeps which it has granted; the supervisor carries it out.
//
// # Invariants
//
//   - A process has one worker at a time: one that is given up is dead before the
//     next is started. (Where a whole machine does not answer, it cannot be seen to
//     die. What it still sends is of an older generation, signed with another secret,
//     and its supervisor ends it as soon as it finds the job gone.)
//   - Each rank is hosted once in each world, and no two worlds have one generation.
//   - A message of an older generation or incarnation changes nothing.
//   - A worker does not outlive its supervisor, nor a supervisor the launcher that
//     started it (PR_SET_PDEATHSIG, held by a thread that lives as long as the
//     child).
//   - The secret is on no command line. Every message between supervisors carries
//     an HMAC over its number, so none is forged, replayed or left out.
//   - On one host nothing listens beyond loopback.
//   - Every message, queue and wait has a limit.
//   - What a supervisor and the job decide is in two state machines, member and
//     job: events in, actions out, without clocks, processes or sockets.
//
// # Losing supervisor 0
//
// It ends the job still, as the job state machine lives there alone. That machine is a function
// of its events (start, join, hear, lose, expire) and their order, so a replicated log of
// them can drive a copy at each of the supervisors that vote. What would change: events
// go through the log, and only the leader does the actions; an expiry names the
// timer it is of, since one that was set anew can still be in the log; each supervisor
// connects with each that votes, hears beats from them, and sends again what a new
// leader has not confirmed (all kinds bear that: what is old or known changes nothing); lose is told by the leader,
// of process 0 too, and replace may choose any that lives; a supervisor that has
// lost a majority kills its worker, which makes the first invariant hold without its parenthesis.
//
// # What it never does
//
// It looks into no model, data or config, and moves none of the job's data: that
// is transport's. Which state a worker goes on with is train's to agree on.
package launcher
