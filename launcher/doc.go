// Package launcher starts the processes of a job, brings them together and ends
// them.
//
// # Terms
//
// A place is one process of a job, 0..P-1; rank i lives on process i mod P. At
// each place stands a supervisor: a small process that holds no model. It starts
// a worker, its child, which hosts the place's ranks and does the work. With
// --np P one more process, the launcher, starts the P supervisors; under mpirun,
// srun and their like, those start them. All are one binary:
//
//	launcher ──▶ supervisor 0 ──▶ worker 0        process 0 is also where the
//	         ├─▶ supervisor 1 ──▶ worker 1        supervisors meet (rendezvous)
//	         └─▶ ...
//
// A generation numbers the worlds of a job: which processes there are, where
// they listen, which ranks they host.
//
// # How a job runs
//
//  1. Detect learns the place from the environment. Supervisor 0 listens at the
//     rendezvous; the others come, and both sides prove that they know the job's
//     secret.
//  2. When all are there, each supervisor starts its worker, which listens and
//     says where. When all listen, the job tells everybody the world.
//  3. A worker's end goes to supervisor 0. The first failure ends the other
//     workers: they have endGrace to end by themselves (the loss of a peer makes
//     them), then they are killed. Supervisor 0 judges when all have ended: it
//     prints one line about the failure that came first and was no consequence of
//     another, and tells the others the exit code.
//
// SIGINT or SIGTERM at the launcher or at any supervisor asks all workers to
// stop; their ranks agree on the last step. The second one ends the job at once.
//
// # Invariants
//
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
// # What it never does
//
// It looks into no model, data or config, and moves none of the job's data: that
// is transport's. It does not restart a worker yet; a lost worker ends the job.
package launcher
