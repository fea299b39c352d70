// Package slurm reads and writes Slurm's hostlists, and writes the batch script of a run. It is
// pure: it starts no program and reads no file.
//
// # Terms
//
// A hostlist is Slurm's short form for a list of hosts, n[01-03,7],login1. A job is submitted by
// sbatch; it has nodes, and starts again after a requeue. A step is started by srun in a job: it
// has tasks, each a supervisor of ecrec, the same number on every node. The last tasks, on the
// spare nodes, are spares (elastic.spares).
//
// # How a job runs
//
//	sbatch ──▶ script, on the first node ──srun──▶ task 0: shell ──▶ supervisor ──▶ worker
//	             │ USR1, before the time limit  ├─▶ task 1 ...     ▲
//	             ├─ kill -USR1 srun ────────────┴─▶ shells ── TERM ┘  all save, exit code 143
//	             └─ scontrol requeue
//
// A supervisor replaces its lost worker, and a spare replaces a lost node. Slurm notices neither,
// and the step continues. A supervisor that SIGKILL ended (for example out of memory) is restarted
// in its task. Before a time limit the run saves, and the job is requeued. Every start resumes from
// the newest checkpoint. The script runs on the first node. If that node is lost, the run continues
// to its end, and a task then ends the job. But the run is not saved before a time limit, and not
// requeued.
//
// # Invariants
//
//   - Expand(Compress(hosts)) is hosts, for all that Expand can return.
//   - bash reads every value of a Job from the script unchanged, for any characters.
//   - The job's exit code is the run's: 0 only if the run has finished. Only code 143 (stopped,
//     with progress saved) leads to a requeue.
//   - The run receives SIGTERM once. A second one would end it at once.
//
// # Sources
//
// sbatch(1), srun(1), scancel(1), scontrol(1) and squeue(1) of Slurm 22.05. Experiments with that
// version showed the rest:
//
//   - srun forwards USR1 to the tasks, and ends them by SIGKILL when it receives SIGTERM.
//   - scancel --signal may signal a step of an array twice, and may retry an element of an array
//     for 95 s.
//   - The exit code of a step is the highest of its tasks, without those of a lost node.
//   - The id of an array's last element is that of the array, so elements are named ARRAY_INDEX.
//
// A Go program ignores USR1 unless it registers for it (os/signal).
package slurm
