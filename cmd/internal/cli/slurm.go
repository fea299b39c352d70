package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/slurm"
	"github.com/ecrec/ecrec/train"
)

type slurmCmd struct {
	configFlags
	Nodes        int    `default:"1" help:"Number of nodes that train."`
	SpareNodes   int    `placeholder:"N" help:"Number of additional nodes that replace lost ones; needs ec.code."`
	TasksPerNode int    `placeholder:"N" help:"Processes per node. Default: --gpus-per-node, or 1 without GPUs."`
	CPUsPerTask  int    `name:"cpus-per-task" placeholder:"N" help:"Cores per process. Slurm's own default is often 1."`
	GPUsPerNode  int    `name:"gpus-per-node" placeholder:"N" help:"GPUs per node."`
	Mem          string `placeholder:"SIZE" help:"Memory per node in sbatch's format, for example 64G."`
	Time         string `placeholder:"LIMIT" help:"Time limit in sbatch's format, for example 24:00:00. Before the limit the run saves and the job is requeued."`
	Name         string `placeholder:"NAME" help:"Name of the Slurm job. Default: job.name."`
	Partition    string `placeholder:"NAME" help:"Partition."`
	Account      string `placeholder:"NAME" help:"Account."`
	QOS          string `name:"qos" placeholder:"NAME" help:"Quality of service."`
	Constraint   string `placeholder:"FEATURES" help:"Features that nodes must have."`
	Exclusive    bool   `help:"Do not share nodes with other jobs."`
	Array        string `placeholder:"INDICES" help:"Submit a job array, for example 0-7%2: one run per index with seed job.seed + index. Each has its own folders for output, checkpoints and store.path, whose names end in -INDEX."`
	SignalBefore int    `default:"120" placeholder:"SECONDS" help:"Time before the limit at which the run saves (120)."`
	MaxRequeues  int    `default:"100" placeholder:"N" help:"Maximum number of requeues after the time limit (100)."`
	Logs         string `default:"." placeholder:"DIR" help:"Folder of the job's log. It must exist when the job starts."`
	TaskLogs     bool   `help:"Write a separate log per task."`
	Ecrec        string `placeholder:"PATH" help:"The program to run on the nodes. Default: this program."`

	Sbatch []string `sep:"none" placeholder:"OPTION" help:"An additional option for sbatch, for example --sbatch=--reservation=x (repeatable)."`
}

// Run prints the script.
func (c *slurmCmd) Run(a *app) error {
	if c.TasksPerNode == 0 {
		c.TasksPerNode = max(1, c.GPUsPerNode)
	}
	job := slurm.Job{
		Made: slurm.Line(append([]string{"ecrec"}, a.args...)), Name: c.Name,
		Nodes: c.Nodes, SpareNodes: c.SpareNodes, TasksPerNode: c.TasksPerNode, CPUsPerTask: c.CPUsPerTask, GPUsPerNode: c.GPUsPerNode,
		Mem: c.Mem, Time: c.Time, Partition: c.Partition, Account: c.Account, QOS: c.QOS, Constraint: c.Constraint,
		Exclusive: c.Exclusive, Options: c.Sbatch, SignalBefore: c.SignalBefore, MaxRequeues: c.MaxRequeues,
		Logs: c.Logs, TaskLogs: c.TaskLogs, Ecrec: c.Ecrec, Config: c.Config, Sets: c.allSets(), Array: c.Array,
	}
	if job.Ecrec == "" {
		var err error
		if job.Ecrec, err = os.Executable(); err != nil {
			return fmt.Errorf("cannot find the path of this program (%w); give --ecrec PATH", err)
		}
	}
	cfg, err := c.loadFor(&job)
	if err != nil {
		return err
	}
	if err := train.Check(cfg); err != nil {
		return err
	}
	if cfg.Collectives.Transport == "mpi" {
		return errUsage("slurm: collectives.transport = \"mpi\": the script starts tasks without MPI; leave it at \"auto\", or write a script that uses mpirun")
	}
	if err := c.completeJob(&job, cfg); err != nil {
		return err
	}
	script, err := job.Script()
	if err != nil {
		return errUsage("slurm: " + err.Error())
	}
	if cfg.Checkpoint.Dir == "" {
		fmt.Fprintf(a.errw, "ecrec: warning: %s: no checkpoints are saved, so a requeued job starts at step 1; add --set checkpoint.every=30m\n", c.Config)
	}
	_, err = io.WriteString(a.out, script)
	return err
}

// loadFor loads the config for the number of the job's tasks.
func (c *slurmCmd) loadFor(job *slurm.Job) (*config.Config, error) {
	all, spares := job.Tasks()
	if all <= 1 {
		return config.LoadFor(1, c.Config, c.allSets())
	}
	sets := c.allSets()
	if spares > 0 {
		sets = append(sets[:len(sets):len(sets)], fmt.Sprintf("elastic.spares=%d", spares))
	}
	return config.LoadAmong(all, c.Config, sets)
}

// completeJob completes a job from its config.
func (c *slurmCmd) completeJob(job *slurm.Job, cfg *config.Config) (err error) {
	all, _ := job.Tasks()
	job.Elastic = elastic(cfg) && all > 1
	if job.Name == "" {
		job.Name = cfg.Job.Name
	}
	job.Seed = cfg.Job.Seed
	if job.Out, err = c.fromConfig(cfg.Job.Out); err != nil {
		return err
	}
	if job.Array != "" && cfg.Stream.To != "" {
		return errUsage(fmt.Sprintf("slurm: --array: all runs would write to stream.to = %q; leave it out, "+
			"by --set stream.to=, or submit a job for each run",
			cfg.Stream.To))
	}
	for key, path := range map[string]struct {
		to   *string
		from string
	}{"checkpoint.dir": {&job.Checkpoints, cfg.Checkpoint.Dir}, "store.path": {&job.Store, cfg.Store.Path}} {
		given, err := config.Gives(c.Config, c.allSets(), key)
		if err != nil {
			return err
		}
		if !given { // else it is in job.out
			continue
		}
		if *path.to, err = c.fromConfig(path.from); err != nil {
			return err
		}
	}
	return nil
}

// fromConfig returns a path relative to the folder of the config, or the path itself if they have
// no folder in common.
func (c *slurmCmd) fromConfig(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	file, err := filepath.Abs(c.Config)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(file)
	relative, err := filepath.Rel(dir, path)
	if err != nil || strings.Count(relative, "../") >= strings.Count(dir, "/") {
		return path, nil
	}
	return relative, nil
}
