package slurm

import (
	"fmt"
	"regexp"
	"strings"
)

// Job is what a batch script is to do. Paths may be relative to the folder in which sbatch
// is run, as is Slurm's custom; nothing may hold a line end.
type Job struct {
	Made string // the command line that asked for it, as bash reads it; a comment
	Name string

	// Sizes; 0: Slurm's default, where there may be none.
	Nodes, SpareNodes, TasksPerNode int // 1, 0 and 1 at least
	CPUsPerTask, GPUsPerNode        int

	// As sbatch has them; "": left out.
	Mem, Time, Partition, Account, QOS, Constraint string

	Exclusive bool
	Options   []string // more of sbatch's options, as its script has them: --reservation=x

	SignalBefore int // how long before the time limit the run is to save, in seconds
	MaxRequeues  int // how often the script queues the job again

	Logs     string // a folder
	TaskLogs bool   // a file per task

	Ecrec, Config string   // program and run config
	Sets          []string // key=value, for ecrec train
	Elastic       bool     // the run survives the loss of tasks

	// Array is sbatch's --array: each element trains with a seed, an output folder and
	// checkpoints of its own, which are these and its index.
	Array            string
	Seed             uint64
	Out, Checkpoints string // Checkpoints: "" if there are none
}

// Tasks is how many supervisors run, and how many of them are spares, the last.
func (j *Job) Tasks() (all, spares int) {
	return (j.Nodes + j.SpareNodes) * j.TasksPerNode, j.SpareNodes * j.TasksPerNode
}

const (
	maxSignalBefore = 65535 // Slurm's
	maxTasks        = 4096  // launcher's
)

var arrayForm = regexp.MustCompile(`^\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?$`)

// check tells what is wrong with a job, by the names of the flags of ecrec slurm.
func (j *Job) check() error {
	switch {
	case j.Nodes < 1:
		return fmt.Errorf("--nodes %d: give 1 or more", j.Nodes)
	case j.SpareNodes < 0:
		return fmt.Errorf("--spare-nodes %d: give 0 or more", j.SpareNodes)
	case j.TasksPerNode < 1:
		return fmt.Errorf("--tasks-per-node %d: give 1 or more", j.TasksPerNode)
	case j.Nodes > maxTasks || j.SpareNodes > maxTasks || j.TasksPerNode > maxTasks || (j.Nodes+j.SpareNodes)*j.TasksPerNode > maxTasks:
		return fmt.Errorf("--nodes %d, --spare-nodes %d, --tasks-per-node %d: a run has %d processes at most", j.Nodes, j.SpareNodes, j.TasksPerNode, maxTasks)
	case j.CPUsPerTask < 0:
		return fmt.Errorf("--cpus-per-task %d: give 1 or more", j.CPUsPerTask)
	case j.GPUsPerNode < 0:
		return fmt.Errorf("--gpus-per-node %d: give 0 or more", j.GPUsPerNode)
	case j.SpareNodes > 0 && !j.Elastic:
		return fmt.Errorf("--spare-nodes %d: a spare can take the place of a lost node only if rows are coded; add --set ec.code=xor, or leave it out", j.SpareNodes)
	case j.SignalBefore < 1 || j.SignalBefore > maxSignalBefore:
		return fmt.Errorf("--signal-before %d: give seconds, 1 to %d", j.SignalBefore, maxSignalBefore)
	case j.MaxRequeues < 0:
		return fmt.Errorf("--max-requeues %d: give 0 or more", j.MaxRequeues)
	case j.Array != "" && !arrayForm.MatchString(j.Array):
		return fmt.Errorf("--array %q: want indices as sbatch has them, 0-7 or 0-7%%2 or 1,3,5", j.Array)
	}
	for _, o := range j.Options {
		if !strings.HasPrefix(o, "-") {
			return fmt.Errorf("--sbatch %q: want an option of sbatch, --reservation=x", o)
		}
	}
	texts := []string{j.Made, j.Name, j.Mem, j.Time, j.Partition, j.Account, j.QOS, j.Constraint, j.Logs, j.Ecrec, j.Config, j.Out, j.Checkpoints}
	for _, text := range append(append(texts, j.Options...), j.Sets...) {
		if strings.ContainsAny(text, "\n\r\x00") {
			return fmt.Errorf("%q: a batch script has no place for a line end in a value", text)
		}
	}
	return nil
}
