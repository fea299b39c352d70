package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/lineage"
)

// The output folder is chosen before a job starts, by each process that a person or a launcher
// starts. No process writes before all have started, so all choose the same folder. Processes
// started by our own launcher take over its choice.

// outFlags choose what happens to an earlier run in job.out.
type outFlags struct {
	Overwrite bool   `help:"Replace the result of an earlier run in job.out once this run has finished."`
	Numbered  bool   `help:"Keep the result of an earlier run in job.out: write to the next free folder of job.out-2, job.out-3, ..., and point the link job.out-latest to it."`
	Latest    string `hidden:"" help:"The link to point to job.out."` // set by --numbered for the processes of the job
}

// claimOutput returns the config with the folder that this run may write to. It returns an error
// if the folder holds files that the run must not destroy.
func (c *trainCmd) claimOutput(a *app, cfg *config.Config, place place.Place) (*config.Config, error) {
	if a.stop.world != nil || place.IsLaunched() {
		return cfg, nil
	}
	late := !place.Launch && !place.IsAlone() && elastic(cfg) // it may rejoin a running job
	if c.Numbered {
		return c.claimNumbered(a, cfg, place, late)
	}
	err := report.CheckFree(cfg.Job.Out)
	if err == nil {
		err = c.checkResult(cfg)
	}
	if err == nil || late && inUse(cfg.Job.Out, errors.As(err, new(*savedError))) {
		return cfg, nil
	}
	return nil, a.reportOnce(place, err)
}

// inUse reports whether a run is writing to a folder. With wait it retries for a while: if the
// process that held the lock is lost, another process of the job takes the lock soon.
func inUse(dir string, wait bool) bool {
	const takenOver, again = 3 * time.Second, 50 * time.Millisecond
	for begin := time.Now(); ; time.Sleep(again) {
		if report.CheckFree(dir) != nil {
			return true
		}
		if !wait || time.Since(begin) > takenOver {
			return false
		}
	}
}

// savedError is a takenError for a folder with checkpoints and no result: the job that saved
// them may still run.
type savedError struct{ takenError }

// takenError describes the content of a folder that a run must not destroy.
type takenError struct{ dir, what, advice string }

func (e *takenError) Error() string        { return e.dir + ": holds " + e.what + "; " + e.advice }
func (e *takenError) Is(target error) bool { return target == report.ErrOutput }

const (
	resumeIt      = "give --resume auto to continue it, "
	replaceOrKeep = "--overwrite to replace it once the new run has finished, or --numbered to keep both"
)

// checkResult returns an error if this run would replace files that it was not asked to replace.
func (c *trainCmd) checkResult(cfg *config.Config) error {
	if c.Overwrite {
		return nil
	}
	found, err := report.Look(cfg.Job.Out)
	if err != nil {
		return err
	}
	saved := checkpoint.Newest(cfg.Checkpoint.Dir)
	switch {
	case found == nil && (c.Resume != "" || saved == "" || !inside(cfg.Job.Out, cfg.Checkpoint.Dir)):
		return nil
	case found == nil:
		return &savedError{takenError{cfg.Job.Out, "the checkpoints of an unfinished run (newest: " + saved + ")",
			resumeIt + "--overwrite to start a new run beside them, or --numbered to keep both"}}
	case found.Foreign != "" || c.Resume == "" && saved == "":
		return &takenError{cfg.Job.Out, found.String(), "give " + replaceOrKeep}
	case c.Resume == "":
		return &takenError{cfg.Job.Out, found.String(), resumeIt + replaceOrKeep}
	}
	var differs []string
	for _, path := range found.Configs {
		result := found
		if filepath.Dir(path) != cfg.Job.Out {
			result = nil // a run that began over it
		}
		if differs = differences(cfg, path, result, saved != ""); len(differs) == 0 {
			return nil
		}
	}
	return &takenError{cfg.Job.Out, found.String() + ", which is a different run (" + strings.Join(differs, "; ") + ")",
		"give " + replaceOrKeep}
}

// inside reports whether a folder is below another.
func inside(outer, dir string) bool {
	path, err := filepath.Rel(outer, dir)
	return err == nil && filepath.IsLocal(path)
}

// differences lists how the run whose resolved config is at path differs from this one. result is
// its result, nil if unknown. With a checkpoint the data are compared by the checkpoint's recipe.
func differences(cfg *config.Config, path string, result *report.Result, checkpoint bool) (list []string) {
	other, err := config.Load(path, nil)
	if err != nil {
		return []string{"its config cannot be read: " + err.Error()}
	}
	for _, d := range lineage.Refused(lineage.OfConfig(other).Diff(lineage.OfConfig(cfg), false), nil) {
		list = append(list, d.String())
	}
	same, known := sameData(cfg, result)
	if !known {
		same = slices.Equal(other.Data.Train, cfg.Data.Train)
	}
	switch {
	case same || checkpoint:
	case slices.Equal(other.Data.Train, cfg.Data.Train):
		list = append(list, fmt.Sprintf("data.train %q has changed", cfg.Data.Train))
	default:
		list = append(list, fmt.Sprintf("data.train was %q and is now %q", other.Data.Train, cfg.Data.Train))
	}
	return list
}

// sameData reports whether a result is of the data that this run reads, in whatever folder.
func sameData(cfg *config.Config, result *report.Result) (same, known bool) {
	var there struct{ Train data.Identity }
	if result == nil || json.Unmarshal(result.Data, &there) != nil || len(there.Train.Files) == 0 {
		return false, false // or a topic, which has no content that could be compared
	}
	here, err := data.Identify(env.Real(), cfg.Data.Train)
	return slices.Equal(here.Files, there.Train.Files), err == nil
}

// sameRun returns a function that reports whether a resolved config is of the run that cfg
// continues.
func sameRun(cfg *config.Config) func(path string) bool {
	return func(path string) bool { return len(differences(cfg, path, nil, true)) == 0 }
}

// claimNumbered takes the next numbered folder, and adds it to the command line of the processes
// that this one starts.
func (c *trainCmd) claimNumbered(a *app, cfg *config.Config, place place.Place, late bool) (*config.Config, error) {
	if c.Overwrite || c.Resume == "auto" {
		return nil, errUsage("--numbered starts a new run in a folder of its own; remove --overwrite and --resume auto")
	}
	base := cfg.Job.Out
	newest, out := report.Numbered(base)
	switch {
	case newest != "" && place.IsWaitingIn(newest): // process 0 was first and created the folder
		out = newest
	case late && newest != "":
		found, err := report.Look(newest)
		if err != nil {
			return nil, err
		}
		if inUse(newest, found == nil) {
			out = newest
		}
	case place.Launch || place.IsAlone():
		if err := report.CheckDir(base, "job.out"); err != nil {
			return nil, err
		}
		var err error
		if out, err = report.ClaimNumbered(base); err != nil {
			return nil, err
		}
		a.claimed = out
	}
	c.Set, c.Latest = append(c.Set, "job.out="+out), report.Latest(base)
	a.args = append(slices.DeleteFunc(slices.Clone(a.args), func(arg string) bool { return arg == "--numbered" }),
		"--set", "job.out="+out, "--latest", c.Latest)
	if place.Launch {
		place.Processes -= cfg.Elastic.Spares // loadAt adds them
	}
	return c.loadAt(&place, false)
}

// releaseOutput removes the folder that --numbered created, if the run was refused.
func (a *app) releaseOutput() {
	if a.claimed != "" {
		_ = os.Remove(a.claimed) // fails if the folder has files
	}
}
