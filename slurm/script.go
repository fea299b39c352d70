package slurm

import (
	_ "embed"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
)

//go:embed script.tmpl
var scriptText string

var script = template.Must(template.New("script").Funcs(template.FuncMap{"quote": Quote}).Parse(scriptText))

// Script returns the batch script.
func (j *Job) Script() (string, error) {
	if err := j.validate(); err != nil {
		return "", err
	}
	var out strings.Builder
	if err := script.Execute(&out, j); err != nil {
		return "", err
	}
	return out.String(), nil
}

// Header returns the options for sbatch.
func (j *Job) Header() (lines []string) {
	add := func(name, value string) {
		if value != "" && value != "0" {
			lines = append(lines, option(name, value))
		}
	}
	number := func(name string, n int) { add(name, strconv.Itoa(n)) }
	flag := func(name string, is bool) {
		if is {
			lines = append(lines, "--"+name)
		}
	}
	add("job-name", j.Name)
	number("nodes", j.Nodes+j.SpareNodes)
	number("ntasks-per-node", j.TasksPerNode)
	number("cpus-per-task", j.CPUsPerTask)
	number("gpus-per-node", j.GPUsPerNode)
	add("mem", j.Mem)
	add("time", j.Time)
	add("partition", j.Partition)
	add("account", j.Account)
	add("qos", j.QOS)
	add("constraint", j.Constraint)
	flag("exclusive", j.Exclusive)
	add("array", j.Array)
	add("output", j.logName(".out"))
	flag("open-mode=append", true)
	add("signal", "B:USR1@"+strconv.Itoa(j.SignalBefore))
	flag("requeue", true)
	flag("no-kill", j.Elastic)
	return append(lines, j.Options...)
}

// logName returns the name of a log, with Slurm's patterns for the name and the number of the job.
func (j *Job) logName(end string) string {
	id := "%j"
	if j.Array != "" {
		id = "%A_%a"
	}
	return filepath.Join(strings.ReplaceAll(j.Logs, "%", "%%"), "%x-"+id+end)
}

// Mark returns the name of the file that exists once the run has finished, quoted for bash.
func (j *Job) Mark() string { return Quote(filepath.Join(j.Logs, ".ecrec-done-")) + `"$SLURM_JOB_ID"` }

// Step returns the options of srun.
func (j *Job) Step() string {
	step := "--mpi=none --export=ALL --distribution=block --no-kill --kill-on-bad-exit=0 --wait=0"
	if j.TaskLogs {
		step += " --open-mode=append " + Quote("--output="+j.logName("-%t.out"))
	}
	return step
}

// Train returns the lines of a task's command, quoted for bash.
func (j *Job) Train() []string {
	lines := []string{Line([]string{j.Ecrec, "train", j.Config, "--resume", "auto"})}
	for _, s := range j.Sets {
		lines = append(lines, "--set "+Quote(s))
	}
	if _, spares := j.Tasks(); spares > 0 {
		lines = append(lines, "--set elastic.spares="+strconv.Itoa(spares))
	}
	if j.Array != "" {
		const index = `"$SLURM_ARRAY_TASK_ID"`
		lines = append(lines, "--set job.seed=$(("+strconv.FormatUint(j.Seed, 10)+" + SLURM_ARRAY_TASK_ID))",
			"--set "+Quote("job.out="+j.Out+"-")+index)
		if j.Checkpoints != "" {
			lines = append(lines, "--set "+Quote("checkpoint.dir="+j.Checkpoints+"-")+index)
		}
		if j.Store != "" {
			lines = append(lines, "--set "+Quote("store.path="+j.Store+"-")+index)
		}
	}
	return lines
}
