package slurm

import (
	"fmt"
	"regexp"
	"strings"
)

// Job describes a batch script. Paths may be relative to the folder in which sbatch is run, as is
// usual with Slurm. No value may contain a line end.
type Job struct {
	Made string // the command line that generated it, quoted for bash, for a comment
	Name string

	// Sizes. 0 is Slurm's default, for sizes without a minimum.
	Nodes, SpareNodes, TasksPerNode int // at least 1, 0 and 1
	CPUsPerTask, GPUsPerNode        int

	// In sbatch's format; empty: omitted.
	Mem, Time, Partition, Account, QOS, Constraint string

	Exclusive bool
	Options   []string // further options of sbatch, such as --reservation=x

	SignalBefore int // time before the time limit at which the run saves, in seconds
	MaxRequeues  int // maximum number of requeues by the script

	Logs     string // a folder
	TaskLogs bool   // a file per task

	Ecrec, Config string   // program and run config
	Sets          []string // key=value, for ecrec train
	Elastic       bool     // the run survives the loss of tasks

	// Array is sbatch's --array. Each element trains with its own seed, output folder, checkpoints
	// and logs: those below with its index added.
	Array                   string
	Seed                    uint64
	Out, Checkpoints, Store string // the last two may be empty
}

// Tasks returns the number of tasks, and how many of them, the last ones, are spares.
func (j *Job) Tasks() (all, spares int) {
	return (j.Nodes + j.SpareNodes) * j.TasksPerNode, j.SpareNodes * j.TasksPerNode
}

const (
	maxSignalBefore = 65535 // Slurm's limit
	maxTasks        = 4096  // the limit of package launcher
)

var arrayForm = regexp.MustCompile(`^\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?$`)

// timeForm is sbatch's format of time limits: minutes, minutes:seconds, hours:minutes:seconds,
// days-hours, days-hours:minutes, days-hours:minutes:seconds, or no limit.
var timeForm = regexp.MustCompile(`^(?i:(\d+-)?\d+(:\d+){0,2}|unlimited|infinite)$`)

// validate returns an error for an invalid job, which names the flag of ecrec slurm.
func (j *Job) validate() error {
	switch {
	case j.Nodes < 1:
		return fmt.Errorf("--nodes %d: give 1 or more", j.Nodes)
	case j.SpareNodes < 0:
		return fmt.Errorf("--spare-nodes %d: give 0 or more", j.SpareNodes)
	case j.TasksPerNode < 1:
		return fmt.Errorf("--tasks-per-node %d: give 1 or more", j.TasksPerNode)
	case j.Nodes > maxTasks || j.SpareNodes > maxTasks || j.TasksPerNode > maxTasks || (j.Nodes+j.SpareNodes)*j.TasksPerNode > maxTasks:
		return fmt.Errorf("--nodes %d, --spare-nodes %d, --tasks-per-node %d: a run has at most %d processes", j.Nodes,
			j.SpareNodes, j.TasksPerNode, maxTasks)
	case j.CPUsPerTask < 0:
		return fmt.Errorf("--cpus-per-task %d: give 1 or more", j.CPUsPerTask)
	case j.GPUsPerNode < 0:
		return fmt.Errorf("--gpus-per-node %d: give 0 or more", j.GPUsPerNode)
	case j.SpareNodes > 0 && !j.Elastic:
		return fmt.Errorf("--spare-nodes %d: a spare can replace a lost node only with erasure coding; add --set ec.code=xor, or remove the flag", j.SpareNodes)
	case j.SignalBefore < 1 || j.SignalBefore > maxSignalBefore:
		return fmt.Errorf("--signal-before %d: give seconds, 1 to %d", j.SignalBefore, maxSignalBefore)
	case j.MaxRequeues < 0:
		return fmt.Errorf("--max-requeues %d: give 0 or more", j.MaxRequeues)
	case j.Array != "" && !arrayForm.MatchString(j.Array):
		return fmt.Errorf("--array %q: want indices in sbatch's format: 0-7, 0-7%%2 or 1,3,5", j.Array)
	case j.Time != "" && !timeForm.MatchString(j.Time):
		return fmt.Errorf("--time %q: want a limit in sbatch's format: minutes, hours:minutes:seconds or days-hours, such as 90, 24:00:00 or 2-12", j.Time)
	}
	for _, o := range j.Options {
		if !strings.HasPrefix(o, "-") {
			return fmt.Errorf("--sbatch %q: want an option of sbatch, such as --reservation=x", o)
		}
	}
	texts := []string{j.Made, j.Name, j.Mem, j.Time, j.Partition, j.Account, j.QOS, j.Constraint, j.Logs, j.Ecrec, j.Config,
		j.Out, j.Checkpoints, j.Store}
	for _, text := range append(append(texts, j.Options...), j.Sets...) {
		if strings.ContainsAny(text, "\n\r\x00") {
			return fmt.Errorf("%q: a value in a batch script must not contain a line end", text)
		}
	}
	return nil
}
