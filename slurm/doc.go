// Package slurm speaks Slurm: its lists of hosts, and the batch script of a run. It is
// pure: it starts no program and reads no file.
//
// # Terms
//
// A hostlist is how Slurm writes many hosts, n[01-03,7],login1. A job is what sbatch
// takes; it has nodes, and after a requeue another start. A step is what srun starts in
// it: tasks, each a supervisor of ecrec, the same number on every node. The tasks of the
// spare nodes, which are the last, are spares (elastic.spares).
//
// # How a job runs
//
//	sbatch ──▶ script, on the first node ──srun──▶ task 0: shell ──▶ supervisor ──▶ worker
//	             │ USR1, before the time limit  ├─▶ task 1 ...     ▲
//	             ├─ kill -USR1 srun ────────────┴─▶ shells ── TERM ┘  all save, exit code 143
//	             └─ scontrol requeue
//
// A worker that is lost is its supervisor's to replace, and a lost node the job's, by a
// spare: Slurm sees neither, and the step goes on. A supervisor that SIGKILL ended (out of
// memory, say) is started again in its task. Where a time limit comes, the run saves, and the
// job is queued again. Every start goes on from the newest checkpoint. The loss of the first
// node takes the script away: the run goes on to its end, when a task ends the job, but is
// not saved before a time limit, nor queued again.
//
// # Invariants
//
//   - Expand(Compress(hosts)) is hosts, for all that Expand can return.
//   - What bash reads out of a script is what the Job says, whatever characters it has.
//   - The job's exit code is the run's: 0 only if the run is done, and no code but 143
//     (stopped, all saved) leads to a requeue.
//   - The run gets SIGTERM once: the second would end it at once.
//
// # Sources
//
// sbatch(1), srun(1), scancel(1), scontrol(1) and squeue(1) of Slurm 22.05. What they leave
// open was tried there: srun passes USR1 on to the tasks, and ends them by SIGKILL when it
// gets SIGTERM itself; scancel --signal may signal a step of an array twice, and may try an
// element of an array again and again for 95 s; the exit code of a step is the highest of its
// tasks, where those of a lost node do not count; the id of an array's last element is that of
// the whole array, so elements are named ARRAY_INDEX. A Go program takes no notice of USR1,
// unless it asks for it (os/signal).
package slurm
