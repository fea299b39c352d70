// Package launcher starts the processes of a job, brings them together, replaces
// those that are lost, and ends them.
//
// # Terms
//
// A process of a job, 0..P-1, hosts ranks: on one machine rank i lives on process i mod
// P, on several the machines take turns (job_spread.go), until losses move it. It is a pair: a supervisor, small and without a model, and a
// worker, its child, which hosts the ranks and does the work. With --np P one more
// process, the launcher, starts the supervisors; under mpirun, srun and their like,
// those do. All are one binary:
//
//	launcher ──▶ supervisor 0 ──▶ worker 0        where they meet (rendezvous) the job
//	         ├─▶ supervisor 1 ──▶ worker 1        begins: at the launcher, or where there
//	         └─▶ ...                              is none at supervisor 0, its host
//
// A spare is a supervisor, numbered P and up, without a process: it waits for
// another's loss. One that comes to a job that runs, in place of a lost one, gets a number
// that nobody has had, and is a spare too. An incarnation counts the workers of a process, from 1.
//
// A generation numbers the worlds of a job: which processes there are, where they
// listen, which ranks they host. A job is elastic where its work survives the loss
// of workers.
//
// Keepers keep the job's state: supervisors, and the launcher. The job's state is a
// function of a log of events. In an elastic job up to 5 keepers vote on that log
// (Raft, by hashicorp/raft), and one of them leads.
//
// # How a job runs
//
//  1. Detect learns the place from the environment. The host listens at the
//     rendezvous; the others come, and both sides prove that they know the job's
//     secret. After that any that votes can lead, and nobody needs the rendezvous.
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
// One keeper (see below) prints one line about the failure that came first and was no
// consequence of another, and all are told the exit code. So does any loss, if
// the job is not elastic. If it is, the next generation forms, and its workers hear of that
// at once (World.Changed), whatever they do:
//
//   - A worker that died without a report (a signal, a panic) is started again. One
//     whose supervisor hears nothing of it for 5 heartbeats is killed, and then died.
//   - A supervisor that is gone, or silent for 5 heartbeats, has lost its process. A
//     spare takes the process; where there is none, the processes with the fewest
//     ranks adopt its ranks, the lowest numbers first. Supervisor 0 is one like the
//     others. A spare that is lost is said to be, and is not counted on.
//   - A worker that does not reach another, of whose end nobody has heard, tells so
//     (World.Lost), and so do those that it leaves, or that others leave. After 4
//     heartbeats, or when all have, the same workers form a generation, with new
//     connections. Who has left because of another is excused; the one who has said
//     nothing, or where all have, one of those that do not reach each other, gets
//     another worker if it comes to the same again without a commit between.
//   - A worker that was done is needed again. If it has died meanwhile, it is started
//     again, but only when something else makes a generation.
//
// A loss while a generation forms makes the next one. One that does not form within
// limits.reform gets new workers for those that do not listen. Losses in a row without
// a commit between (World.Committed) are counted, and maxRestarts ends the job: the workers
// are told why, so that they can write it down.
//
// # Coming back
//
// A supervisor that is started again for a place whose own was lost comes to the job, which
// runs (board_return.go): at the rendezvous, or at any voter's door. It proves that it knows
// the secret, has the same config and program, gets a number from the leader, and is a
// spare from then on, which may vote like any other.
//
//   - If others have adopted ranks, it takes a process back (job_return.go): a generation
//     forms in which that has its ranks again. These are lost once more on the way and
//     rebuilt, so it is done only where all is whole, which the workers tell together with
//     a commit. Until they are rebuilt, a loss beside them is one more, as after any loss;
//     in return each loss after that is one of one process's ranks, and not two's.
//   - A machine that is new to a process, a spare's too, is given up if the worker fails there
//     before a commit, whatever for, as long as another could go on without: it may
//     lack the data, or memory. The job does not end for that.
//   - Our launcher starts another supervisor by itself, 10 s after one is lost, and later
//     each time. Under mpirun, srun and their like somebody does: a loop around the
//     command, or a person on a machine that is repaired.
//   - The host's rendezvous stays open. Should the host be lost, a voter opens one on its
//     own machine: the same name, or the same port at its address.
//
// A process 0 that finds nobody at the rendezvous opens it, and waits in vain: on a machine
// without a voter, or before its loss is known (5 s are enough). It is to be started with
// --rdzv HOST:PORT, HOST being a voter's, or a moment later. Who met by the launcher's PMI
// cannot come back, as that brings the secret once.
//
// A Fault is a loss on purpose. The worker asks and waits (World.Fire); the job grants
// each once, and keeps which it has granted; the supervisor carries it out. A job that ends
// well says which have not happened.
//
// # Invariants
//
//   - No two supervisors have had one number, and no two that live one place.
//   - A process has one worker at a time: one that is given up is dead before the
//     next is started. Our launcher kills a supervisor before its place is given away.
//     (Where a whole machine does not answer, it cannot be seen to die. What it still
//     sends is of an older generation, signed with another secret. Its supervisor ends
//     it as soon as it hears that it is lost, or has been without a leader for 15
//     heartbeats.)
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
//   - All copies of the job that have taken the same events are equal. Only the leader
//     does the actions; the end of a timer names the timer.
//
// # Who keeps the job
//
// In a job that is not elastic the host alone keeps the job: nothing is voted on, and its
// loss ends the job. In an elastic one an odd number of keepers votes, 5 at most: the
// launcher always, who leads, and then the lowest numbers that live. When one is lost
// (an event of the log itself), another takes its place as long as there are enough.
//
//	event ──▶ leader ──▶ log ──▶ replica of each voter: job.apply ──▶ actions, by the leader
//	  ▲ up links: each supervisor tells who leads                           │
//	  └──────────── supervisors: member ◀──── tell, on the same links ◀─────┘
//
// Every supervisor has a link to every voter, and so every voter sees at once who dies. Who
// leads says so on its links once a heartbeat (kindLead), and hears beats. A message to
// the job is told again to each new leader until the job has moved on (member.said), and a
// new leader repeats what the job has told (job.resume): whatever comes twice, or late,
// changes nothing. A new leader finds those lost whose links have ended meanwhile.
//
// A leader whose process dies is replaced at once, one that is silent after 5 heartbeats:
// the first voter that finds so by its link stands for election, the next a little
// later, and both again until one leads; who has voted meanwhile lets the other have its turn. One that goes on after that hears that it is lost, and ends.
//
// Any minority of the voters may be lost at once, and any number one after the other. If a
// majority is, nobody can agree on anything: after 15 heartbeats without a leader (60 where a majority is linked, and could choose one) each
// process ends, and one says why. With two supervisors and no launcher of ours only
// supervisor 0 votes, since of two neither can go on without the other: the loss of
// supervisor 1 is survived, that of supervisor 0 ends the job. With the launcher the two are
// three.
//
// What there is to say to people is in the log too, and said by one keeper when it takes
// the event: the launcher, or else the first that votes. So it is said once, unless
// that one is lost in that moment. The launcher is the parent of all, and its loss
// ends the job (SIGKILL of it ends all processes, as Ctrl-C at a terminal would be
// expected to); where it stands still, the others go on, and it catches up. Under mpirun,
// srun and their like there is no such process, and whether the loss of one place lets
// the others go on is up to them.
//
// Log and snapshots are in memory. A keeper draws an id when it starts, so that one that is
// started again never passes for the one that had promised something before. All connections, Raft's
// too, are authenticated like the rendezvous, and every write on them is signed.
//
// # What it never does
//
// It looks into no model, data or config, and moves none of the job's data: that
// is transport's. Which state a worker goes on with is train's to agree on.
package launcher
