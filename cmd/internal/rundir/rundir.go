package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/event"
)

// State is the state of a run.
type State string

// The states; doc.go explains them.
const (
	Running     State = "running"
	Finished    State = "finished"
	Stopped     State = "stopped"
	Failed      State = "failed"
	Interrupted State = "interrupted"
	Unknown     State = "unknown"
)

// Lock is the state of the folder's lock.
type Lock int

// The states of a lock.
const (
	LockUnknown Lock = iota
	LockFree
	LockHeld
)

// Rebuild is the progress of a rebuild of lost rows, of all ranks.
type Rebuild struct {
	LeftBytes  int64   `json:"left_bytes"`
	BytesPerS  float64 `json:"bytes_per_s"`
	EndsAfterS float64 `json:"ends_after_s"` // at this rate; 0: unknown
}

// Run describes a run. Fields without a value are zero, and omitted in JSON.
type Run struct {
	Path    string    `json:"path"` // of the folder, as given by the user
	Name    string    `json:"name"`
	State   State     `json:"state"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	WallS   float64   `json:"wall_s,omitempty"` // of a run that has ended; of a running one, so far
	Error   string    `json:"error,omitempty"`

	Step        int64    `json:"step"`
	Steps       int64    `json:"steps,omitempty"` // the last one of the run
	EtaS        float64  `json:"eta_s,omitempty"`
	SamplesPerS float64  `json:"samples_per_s,omitempty"`
	Loss        *float64 `json:"loss,omitempty"`
	Eval        *Eval    `json:"eval,omitempty"` // the last one

	Digest  string   `json:"digest,omitempty"`
	Version string   `json:"version,omitempty"`
	Commit  string   `json:"commit,omitempty"`
	Hosts   []string `json:"hosts,omitempty"`
	Ranks   int      `json:"ranks,omitempty"`
	Command []string `json:"command,omitempty"`

	// Rebuild is the progress of a rebuild of lost rows, by the newest line of a run that trains. Nil: none is under way.
	Rebuild *Rebuild `json:"rebuild,omitempty"`

	Losses     []event.Event `json:"losses,omitempty"`  // as in events.jsonl
	Returns    int           `json:"returns,omitempty"` // processes that rejoined and got their ranks back, each with a recovery
	Recoveries int           `json:"recoveries"`
	Spares     *int          `json:"spares,omitempty"` // available; only of elastic jobs
	Checkpoint *Checkpoint   `json:"checkpoint,omitempty"`
	Warnings   []string      `json:"warnings,omitempty"`
	Earlier    *Result       `json:"earlier,omitempty"` // result of an earlier run, kept until this one finishes
	SeenAt     time.Time     `json:"seen,omitzero"`     // time of the newest line in its files

	// Differs lists the settings that differ from those of another run, as key=value.
	Differs []string `json:"differs,omitempty"`
	// Config is the resolved config, by key as in "train.global_batch".
	Config map[string]string `json:"-"`

	stepMS float64 // of the newest lines, the mean
}

// Eval is an evaluation.
type Eval struct {
	Step    int64    `json:"step"`
	LogLoss *float64 `json:"logloss"`
	AUC     *float64 `json:"auc"`
}

// Checkpoint is the newest checkpoint of a run.
type Checkpoint struct {
	Step int64     `json:"step"`
	Time time.Time `json:"time"`
	Path string    `json:"path"`
}

// Result is the result of an earlier run.
type Result struct {
	Digest string    `json:"digest"`
	Steps  int64     `json:"steps"`
	Ended  time.Time `json:"ended,omitzero"`
}

// ErrNoRun is the error of Read for a folder without the files of a run.
var ErrNoRun = errors.New("not the output folder of a run")

const (
	summaryFile = "summary.json"
	metricsFile = "metrics.jsonl"
	configFile  = "config.toml"
	unfinished  = "unfinished"
)

// IsRun reports whether a folder looks like that of a run.
func IsRun(dir fs.FS) bool { return isRun(dir, ".") }

// isRun is IsRun for a folder in dir. It does not use fs.Sub of dir, which opens files to find
// their type and would block on a FIFO.
func isRun(dir fs.FS, at string) bool {
	for _, name := range []string{summaryFile, metricsFile, event.File} {
		if isRegular(dir, path.Join(at, name)) {
			return true
		}
	}
	if !isRegular(dir, path.Join(at, configFile)) {
		return false
	}
	entries, _ := fs.ReadDir(dir, at)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		match, _ := path.Match("process-*.log", e.Name())
		return match
	})
}

func isRegular(dir fs.FS, name string) bool {
	info, err := fs.Stat(dir, name)
	return err == nil && info.Mode().IsRegular()
}

// Read returns the state of the run in a folder at time now.
func Read(dir fs.FS, lock Lock, now time.Time) (*Run, error) {
	if !IsRun(dir) {
		return nil, ErrNoRun
	}
	r := &Run{}
	at := "."
	if _, err := fs.Stat(dir, path.Join(unfinished, configFile)); err == nil {
		at = unfinished
		if s, err := readSummary(dir, summaryFile); err == nil {
			r.Earlier = &Result{Digest: s.Digest, Steps: s.Steps, Ended: s.Ended}
		}
	}
	r.takeConfig(dir, path.Join(at, configFile))
	metrics := path.Join(at, metricsFile)
	if _, err := fs.Stat(dir, metrics); err != nil { // a run that resumes appends to the earlier ones
		metrics = metricsFile
	}
	r.takeMetrics(dir, metrics)
	if err := r.takeEvents(dir); err != nil {
		return nil, err
	}
	if r.Steps == 0 {
		r.Steps = stepsOfLogs(dir)
	}
	s, err := readSummary(dir, path.Join(at, summaryFile))
	switch {
	case err == nil && lock != LockHeld: // else it is of an earlier run
		r.takeSummary(s)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %v", summaryFile, err))
	}
	r.setState(lock, now)
	return r, nil
}

// setState sets the values that follow from several files: the state, the duration, the remaining
// time.
func (r *Run) setState(lock Lock, now time.Time) {
	switch {
	case lock == LockHeld:
		r.State, r.Error, r.Ended = Running, "", time.Time{}
	case r.State != "":
	case lock == LockFree:
		r.State = Interrupted
	default:
		r.State = Unknown
	}
	if r.WallS == 0 && !r.Started.IsZero() {
		end := r.Ended
		switch {
		case r.State == Running:
			end = now
		case end.IsZero():
			end = r.SeenAt
		}
		r.WallS = max(0, end.Sub(r.Started).Seconds())
	}
	if r.State == Running {
		r.EtaS = float64(max(0, r.Steps-r.Step)) * r.stepMS / 1000
	}
}
