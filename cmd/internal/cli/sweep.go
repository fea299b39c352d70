package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/cmd/internal/rundir"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/slurm"
)

type sweepCmd struct {
	Config string   `arg:"" complete:"config" help:"The run config, a TOML file."`
	Set    []string `name:"set" sep:"none" complete:"key" placeholder:"KEY=V1,V2,..." help:"The values of a key to try (repeatable). Every combination is run."`
	Out    string   `placeholder:"DIR" help:"The folder for the folders of the runs. Default: job.out with -sweep appended."`
	Index  int      `placeholder:"N" help:"Run only the Nth combination, counted from 1, for example in a Slurm array."`
	DryRun bool     `help:"Print the commands without running them."`
	Train  []string `arg:"" optional:"" name:"train-flags" help:"After --: flags for ecrec train, passed to each run."`
}

// combination is one run of a sweep.
type combination struct {
	name string // of its folder
	sets []string
	cfg  *config.Config
	args []string // of ecrec

	givesRanks bool // the config or a setting has job.ranks
}

// Run trains a config with each combination of values, one after another. It skips finished runs,
// so that the same command continues a sweep.
func (c *sweepCmd) Run(a *app) error {
	all, err := c.listRuns()
	if err != nil {
		return err
	}
	if c.Index < 0 || c.Index > len(all) {
		return errUsage(fmt.Sprintf("--index %d: the sweep has combinations 1 to %d", c.Index, len(all)))
	}
	if c.Index > 0 {
		all = all[c.Index-1 : c.Index]
	}
	if c.DryRun {
		for _, x := range all {
			fmt.Fprintln(a.out, slurm.Line(append([]string{"ecrec"}, x.args...)))
		}
		return nil
	}
	failed, err := a.runAll(all)
	if err == nil && len(all) > 1 {
		err = (&runsCmd{Dir: c.Out}).Run(a)
	}
	if err == nil && len(failed) > 0 {
		err = fmt.Errorf("sweep: %d of %s failed: %s; fix the cause and run the same command again", len(failed),
			report.Count(int64(len(all)), "run"), strings.Join(failed, ", "))
	}
	return err
}

// runAll runs combinations and returns the names of the runs that failed.
func (a *app) runAll(all []combination) (failed []string, err error) {
	for i, x := range all {
		if err := a.stop.err(); err != nil {
			return failed, err
		}
		if x.isFinished() {
			report.Line(a.out, "sweep: %d of %d, %s: already finished", i+1, len(all), x.name)
			continue
		}
		report.Line(a.out, "sweep: %d of %d, %s", i+1, len(all), x.name)
		err := a.runChild(x.args, a.out, a.errw)
		if a.stop.isRequested() {
			return failed, fmt.Errorf("%w; run the same command again to continue the sweep", errStopped)
		}
		if err != nil {
			failed = append(failed, x.name)
		}
	}
	return failed, nil
}

// isFinished reports whether the folder of a combination holds its result. Other content of the
// folder is left to ecrec train to judge.
func (x *combination) isFinished() bool {
	r, err := readRun(x.cfg.Job.Out)
	if err != nil || r.State != rundir.Finished {
		return false
	}
	other, err := config.Load(filepath.Join(x.cfg.Job.Out, "config.toml"), nil)
	if err != nil {
		return false
	}
	mine := *x.cfg
	if !x.givesRanks { // ecrec train has as many as it starts processes
		mine.Job.Ranks = other.Job.Ranks
	}
	return len(lineage.OfConfig(other).Diff(lineage.OfConfig(&mine), false)) == 0
}

// forwardEvery is how often a command checks for a signal to forward to its child.
const forwardEvery = 50 * time.Millisecond

// runChild runs ecrec in a process group of its own, so that it receives the Ctrl-C of a terminal
// only once, from here.
func (a *app) runChild(args []string, out, errw io.Writer) error {
	program, err := self()
	if err != nil {
		return err
	}
	child := exec.Command(program, args...)
	child.Args[0] = os.Args[0]
	child.Stdout, child.Stderr = out, errw
	child.SysProcAttr = childOfReport()
	runtime.LockOSThread() // the child ends with this thread
	defer runtime.UnlockOSThread()
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for sent := false; ; {
		select {
		case err := <-ended:
			return err
		case <-time.After(forwardEvery):
		}
		if a.stop.isRequested() && !sent {
			sent = true
			_ = child.Process.Signal(syscall.Signal(a.stop.first.Load())) // it may have ended
		}
	}
}

// listRuns returns the runs of the sweep; the last key varies fastest. It checks all their
// configs.
func (c *sweepCmd) listRuns() ([]combination, error) {
	for _, flag := range c.Train {
		if name, _, _ := strings.Cut(flag, "="); name == "--set" || name == "--device" || name == "--resume" {
			return nil, errUsage(name + " is not allowed after --: use --set before it (job.device for the device); every run has --resume auto")
		}
	}
	all := []combination{{}}
	for _, set := range c.Set {
		key, values, ok := strings.Cut(set, "=")
		if !ok || strings.TrimSpace(values) == "" {
			return nil, errUsage("--set " + set + ": want KEY=V1,V2,...")
		}
		list := splitValues(values)
		var next []combination
		for _, x := range all {
			for _, v := range list {
				y := combination{name: x.name, sets: append(x.sets[:len(x.sets):len(x.sets)], key+"="+v)}
				if len(list) > 1 {
					y.name = strings.TrimPrefix(x.name+","+folderName(key, v), ",")
				}
				next = append(next, y)
			}
		}
		all = next
	}
	seen, streams := map[string]bool{}, map[string]string{}
	for i := range all {
		x := &all[i]
		if x.name == "" {
			x.name = "run"
		}
		if seen[x.name] {
			return nil, errUsage("--set: two runs would use the folder " + x.name + "; give each value once")
		}
		seen[x.name] = true
		if err := c.loadRun(x); err != nil {
			return nil, err
		}
		to := x.cfg.Stream.To
		if other := streams[to]; to != "" && other != "" {
			return nil, errUsage(fmt.Sprintf("sweep: stream.to = %q: %s and %s would write to one topic; "+
				"give each a topic by --set stream.to=T1,T2,..., or none by --set 'stream.to=\"\"'",
				to, other, x.name))
		}
		streams[to] = x.name
	}
	return all, nil
}

// loadRun loads the config of a combination and sets its command line.
func (c *sweepCmd) loadRun(x *combination) (err error) {
	if x.cfg, err = config.Load(c.Config, x.sets); err != nil {
		return err
	}
	if x.givesRanks, err = config.Gives(c.Config, x.sets, "job.ranks"); err != nil {
		return err
	}
	if c.Out == "" {
		c.Out = x.cfg.Job.Out + "-sweep"
	}
	if c.Out, err = filepath.Abs(c.Out); err != nil {
		return err
	}
	x.cfg.Job.Out = filepath.Join(c.Out, x.name)
	x.args = []string{"train", c.Config}
	sets := append(x.sets, "job.out="+x.cfg.Job.Out)
	if format, ok := data.FindFormat(x.cfg.Data.Format); ok && format.IsConverted() && x.cfg.Data.Cache == "" {
		sets = append(sets, "data.cache="+c.Out) // the runs convert their data once
	}
	for _, folder := range []struct {
		key  string
		path *string
	}{{"checkpoint.dir", &x.cfg.Checkpoint.Dir}, {"store.path", &x.cfg.Store.Path}} {
		given, err := config.Gives(c.Config, x.sets, folder.key)
		if err != nil {
			return err
		}
		if given && *folder.path != "" { // else it is in job.out
			*folder.path = filepath.Join(*folder.path, x.name)
			sets = append(sets, folder.key+"="+*folder.path)
		}
	}
	for _, set := range sets {
		x.args = append(x.args, "--set", set)
	}
	x.args = append(append(x.args, "--resume", "auto"), c.Train...)
	return nil
}

// splitValues splits a list at the commas outside of brackets, braces and quotes.
func splitValues(text string) (list []string) {
	depth, begin := 0, 0
	var quote rune
	for i, r := range text {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case r == '[' || r == '{':
			depth++
		case r == ']' || r == '}':
			depth--
		case r == ',' && depth == 0:
			list = append(list, text[begin:i])
			begin = i + 1
		}
	}
	return append(list, text[begin:])
}

// folderName returns a setting as a part of a folder's name.
func folderName(key, value string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-=", r) {
			return r
		}
		return '_'
	}, strings.TrimSpace(key)+"="+strings.Trim(strings.TrimSpace(value), `"'`))
}
