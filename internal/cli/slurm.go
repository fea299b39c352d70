package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/slurm"
	"github.com/ecrec/ecrec/train"
)

type slurmCmd struct {
	configFlags
	Nodes        int    `default:"1" help:"Nodes that train."`
	SpareNodes   int    `help:"Nodes that wait for another's loss, beside those that train; needs ec.code."`
	TasksPerNode int    `placeholder:"N" help:"Processes per node; default 1, or as many as --gpus-per-node."`
	CPUsPerTask  int    `name:"cpus-per-task" placeholder:"N" help:"Cores of a process; Slurm's own default is often 1."`
	GPUsPerNode  int    `name:"gpus-per-node" placeholder:"N" help:"GPUs of a node."`
	Mem          string `placeholder:"SIZE" help:"Memory of a node, as sbatch has it: 64G."`
	Time         string `placeholder:"LIMIT" help:"Time limit, as sbatch has it: 24:00:00. Before it the run saves, and the job is queued again."`
	Name         string `help:"Name of the Slurm job; default: job.name."`
	Partition    string `help:"Partition."`
	Account      string `help:"Account."`
	QOS          string `name:"qos" help:"Quality of service."`
	Constraint   string `placeholder:"FEATURES" help:"Features that nodes must have."`
	Exclusive    bool   `help:"Share no node with other jobs."`
	Array        string `placeholder:"INDICES" help:"A job array, 0-7%2: the run with seeds job.seed + index; each has an output folder and checkpoints of its own, whose names end in -INDEX."`
	SignalBefore int    `default:"120" placeholder:"SECONDS" help:"How long before the time limit the run saves (120)."`
	MaxRequeues  int    `default:"100" placeholder:"N" help:"How often the job is queued again after its time limit (100)."`
	Logs         string `default:"." placeholder:"DIR" help:"Folder of the job's log; it must be there when the job starts."`
	TaskLogs     bool   `help:"Give each task a log of its own."`
	Ecrec        string `placeholder:"PATH" help:"The program to run on the nodes; default: this one."`

	Sbatch []string `sep:"none" placeholder:"OPTION" help:"One more option for sbatch: --sbatch=--reservation=x; repeatable."`
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
		Logs: c.Logs, TaskLogs: c.TaskLogs, Ecrec: c.Ecrec, Config: c.Config, Sets: c.sets(), Array: c.Array,
	}
	if job.Ecrec == "" {
		var err error
		if job.Ecrec, err = os.Executable(); err != nil {
			return fmt.Errorf("cannot tell where this program lies (%w); give --ecrec PATH", err)
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
		return errUsage("slurm: collectives.transport = \"mpi\": the script starts tasks without MPI; leave it at \"auto\", or write one that starts them by mpirun")
	}
	if err := c.fill(&job, cfg); err != nil {
		return err
	}
	script, err := job.Script()
	if err != nil {
		return errUsage("slurm: " + err.Error())
	}
	if cfg.Checkpoint.Dir == "" {
		fmt.Fprintf(a.errw, "ecrec: warning: %s: checkpoint.dir is not set, so a job that is queued again starts anew; add --set checkpoint.dir=DIR\n", c.Config)
	}
	_, err = io.WriteString(a.out, script)
	return err
}

// loadFor loads the config as the job's tasks will.
func (c *slurmCmd) loadFor(job *slurm.Job) (*config.Config, error) {
	all, spares := job.Tasks()
	if all <= 1 {
		return config.LoadFor(1, c.Config, c.sets())
	}
	sets := c.sets()
	if spares > 0 {
		sets = append(sets[:len(sets):len(sets)], fmt.Sprintf("elastic.spares=%d", spares))
	}
	return config.LoadAmong(all, c.Config, sets)
}

// fill completes a job by what its config says.
func (c *slurmCmd) fill(job *slurm.Job, cfg *config.Config) (err error) {
	all, _ := job.Tasks()
	job.Elastic = elastic(cfg) && all > 1
	if job.Name == "" {
		job.Name = cfg.Job.Name
	}
	job.Seed = cfg.Job.Seed
	if job.Out, err = c.fromConfig(cfg.Job.Out); err != nil {
		return err
	}
	job.Checkpoints, err = c.fromConfig(cfg.Checkpoint.Dir)
	return err
}

// fromConfig is a config's path as the config may have it: relative to its file, unless
// they have no folder in common.
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
