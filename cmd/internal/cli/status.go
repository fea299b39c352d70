package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/cmd/internal/rundir"
)

type statusCmd struct {
	Path string `arg:"" name:"run" complete:"dir" help:"The output folder of a run (job.out)."`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

// Run prints the state of a run, read from its files.
func (c *statusCmd) Run(a *app) error {
	r, err := readRun(c.Path)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(a, r)
	}
	r.WriteStatus(a.out, time.Now())
	return nil
}

type runsCmd struct {
	Dir  string `arg:"" complete:"dir" help:"A folder that contains runs, directly or in subfolders."`
	JSON bool   `name:"json" help:"Print a JSON list."`
}

// Run prints a table of the runs in a folder, in the order in which they began.
func (c *runsCmd) Run(a *app) error {
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return errUsage(c.Dir + ": not a folder")
	}
	found, foreign := rundir.Find(os.DirFS(c.Dir))
	runs := []*rundir.Run{}
	for _, path := range found {
		r, err := readRun(filepath.Join(c.Dir, path))
		if err != nil {
			foreign = append(foreign, path)
			continue
		}
		if r.Path = path; path == "." {
			r.Path = filepath.Base(c.Dir)
		}
		runs = append(runs, r)
	}
	rundir.Sort(runs)
	if c.JSON {
		for _, r := range runs {
			r.Differs = rundir.Differs(runs[0], r)
		}
		return writeJSON(a, runs)
	}
	if len(runs) > 0 {
		rundir.WriteTable(a.out, runs)
	}
	for _, path := range foreign {
		fmt.Fprintf(a.out, "%s: contains no run\n", oneLine(errors.New(path)))
	}
	return nil
}

// readRun reads the state of the run in a folder.
func readRun(dir string) (*rundir.Run, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, errUsage(dir + ": not a folder; give the output folder of a run (job.out)")
	}
	r, err := rundir.Read(os.DirFS(dir), lockOf(dir), time.Now())
	for begin := time.Now(); err == nil && r.State == rundir.Interrupted && time.Since(r.SeenAt) < takeoverTime &&
		time.Since(begin) < takeoverTime; {
		time.Sleep(takeoverTime / 10)
		r, err = rundir.Read(os.DirFS(dir), lockOf(dir), time.Now())
	}
	if errors.Is(err, rundir.ErrNoRun) {
		return nil, errUsage(fmt.Sprintf("%s: %v; give the output folder of a run (job.out)", dir, err))
	}
	if err != nil {
		return nil, err
	}
	r.Path = dir
	return r, nil
}

// takeoverTime is how long the lock of a running job may be free: from the loss of the process
// that held it until another process has it.
const takeoverTime = 2 * time.Second

// lockOf returns the state of a folder's lock.
func lockOf(dir string) rundir.Lock {
	held, err := report.InUse(dir)
	switch {
	case err != nil:
		return rundir.LockUnknown
	case held:
		return rundir.LockHeld
	}
	return rundir.LockFree
}

func writeJSON(a *app, v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
