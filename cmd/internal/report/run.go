package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/ecrec/ecrec/internal/atomicfile"
)

// ErrOutput is wrapped by errors about the output folder.
var ErrOutput = errors.New("output folder cannot be used")

type outputError struct {
	dir     string
	setting string // the flag or key that names the folder
	err     error
}

func (e *outputError) Error() string {
	return fmt.Sprintf("%s: cannot write to this folder: %v; choose another with %s", e.dir, e.err, e.setting)
}
func (e *outputError) Is(target error) bool { return target == ErrOutput }
func (e *outputError) Unwrap() error        { return e.err }

const (
	summaryFile = "summary.json"
	configFile  = "config.toml"
	RecipeFile  = "recipe.json" // the way from a row of data to a sample
	metricsFile = "metrics.jsonl"
	// ModelFile is the name of a run's model.
	ModelFile = "model.safetensors"

	// unfinished is the folder, in job.out, of a run over the result of another: it holds the
	// files that will replace those of the result.
	unfinished = "unfinished"
)

// Run is the output folder of a run in progress.
type Run struct {
	// Began is the start of the run.
	Began time.Time

	dir    string
	over   bool // an earlier result stays in dir until this run has finished
	kept   bool // the run has ended, and the earlier result stays
	locked bool
	// continues is set if another process of this run has begun its files.
	continues bool
	lock      *os.File
	log       zerolog.Logger
	logFile   *lineFile
	metrics   *lineFile
	reserve   *os.File // reserved space for summary.json
}

// NewModel returns the temporary name of a run's model. Finish renames the file.
func NewModel(dir string) string { return filepath.Join(dir, "."+ModelFile+".new") }

// CheckDir returns an error unless files can be written to dir, and leaves no file behind. If dir
// does not exist, it checks the nearest folder above. setting is the flag or key that names dir.
func CheckDir(dir, setting string) error {
	at := dir
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return &outputError{dir, setting, fmt.Errorf("%s is not a folder", at)}
		}
		if err == nil {
			break
		}
		if up := filepath.Dir(at); errors.Is(err, fs.ErrNotExist) && up != at {
			at = up
			continue
		}
		return &outputError{dir, setting, err}
	}
	if makeNameless(at) {
		return nil
	}
	probe, err := os.CreateTemp(at, ".ecrec-probe-*")
	if err != nil {
		return &outputError{dir, setting, err}
	}
	probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return &outputError{dir, setting, err}
	}
	return nil
}

func logName(process int) string { return fmt.Sprintf("process-%d.log", process) }

// Open creates the folder and opens this process's log in it. The process with rank 0 then calls
// Begin for the files of the run.
func Open(dir string, process int) (*Run, error) {
	const setting = "job.out"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, cmp.Or(CheckDir(dir, setting), error(&outputError{dir, setting, err}))
	}
	r := &Run{dir: dir}
	info, err := os.Lstat(r.path(unfinished))
	if err == nil && !info.IsDir() { // a run would remove the files behind a link
		return nil, &outputError{dir, setting, fmt.Errorf("%s is not a folder; remove it", r.path(unfinished))}
	}
	if r.logFile, err = openLines(r.path(logName(process))); err != nil {
		return nil, &outputError{dir, setting, err}
	}
	r.log = zerolog.New(r.logFile).With().Timestamp().Int("process", process).Logger()
	return r, nil
}

// Beginning describes a run to Begin.
type Beginning struct {
	Config []byte // the resolved config
	Recipe []byte // data.Recipe as JSON; empty: there is none
	Steps  int64  // the last step
	// Resumed is the step of the checkpoint that the run resumes from; 0: none.
	Resumed int64
	// Same reports whether a resolved config in this folder is of the same run.
	Same func(path string) bool
	// Job is the id of the run, the same in all its processes. A process continues files that
	// another process with this id has begun.
	Job string
	// Replaces is set if the process replaces a lost one, which may still hold the lock.
	Replaces bool
}

// Begin begins the files of the run. No other run can begin in the folder until Close. An
// earlier result stays until Finish.
func (r *Run) Begin(b Beginning) error {
	err := r.takeLock(b)
	if err == nil && r.locked {
		err = r.cleanUp()
	}
	if err == nil {
		err = r.beginFiles(b)
	}
	if err == nil || errors.Is(err, ErrOutput) {
		return err
	}
	return &outputError{r.dir, "job.out", err}
}

func (r *Run) beginFiles(b Beginning) error {
	found, err := Look(r.dir)
	if err != nil {
		return err
	}
	r.over = found != nil
	if err := r.openMetrics(b); err != nil {
		return err
	}
	at := r.path()
	if r.over {
		at = r.path(unfinished)
	}
	stale := []string{filepath.Join(at, summaryFile)} // of a failed run
	if r.over {
		stale = append(stale, filepath.Join(at, ModelFile)) // of a stopped one
	}
	for _, path := range stale {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := r.writeOnce(filepath.Join(at, configFile), b.Config); err != nil {
		return err
	}
	if len(b.Recipe) > 0 {
		if err := r.writeOnce(filepath.Join(at, RecipeFile), b.Recipe); err != nil {
			return err
		}
	}
	return r.reserveSummary(b.Steps)
}

// writeOnce writes a file, unless another process of the run has written it: a process that takes the place of a lost one
// does not wait for a busy disk then, and neither do all ranks.
func (r *Run) writeOnce(path string, text []byte) error {
	if old, err := os.ReadFile(path); r.continues && err == nil && bytes.Equal(old, text) {
		return nil
	}
	return atomicfile.WriteFile(path, text)
}

// openMetrics opens metrics.jsonl. A run that resumes appends to the lines of the run that it
// continues. A run over a result has a file of its own until it has finished.
func (r *Run) openMetrics(b Beginning) (err error) {
	path, keep := r.metricsOf(b)
	if r.over {
		err = os.MkdirAll(r.path(unfinished), 0o755)
	}
	if path == r.path(metricsFile) {
		err = errors.Join(err, clearUnfinished(r.dir, r.over))
	}
	if err != nil {
		return err
	}
	if r.metrics, err = openLines(path); err != nil || r.continues {
		return err
	}
	return r.metrics.cutAfter(keep)
}

// metricsOf returns the file for lines, and the step up to which its lines stay.
func (r *Run) metricsOf(b Beginning) (path string, keep int64) {
	same := func(config string) bool { return b.Resumed > 0 && exists(config) && b.Same(config) }
	path, beside := r.path(metricsFile), r.path(unfinished, metricsFile)
	switch {
	case r.continues && exists(beside):
		return beside, 0
	case r.continues:
		return path, 0
	case r.over && exists(beside) && same(r.path(unfinished, configFile)):
		return beside, b.Resumed
	case same(r.path(configFile)):
		return path, b.Resumed
	case r.over:
		return beside, 0
	}
	return path, 0
}

func (r *Run) path(names ...string) string {
	return filepath.Join(append([]string{r.dir}, names...)...)
}

// Dir returns the output folder.
func (r *Run) Dir() string { return r.dir }

// Log returns this process's log.
func (r *Run) Log() *zerolog.Logger { return &r.log }

// Metrics appends a line to metrics.jsonl, with the time. It returns an error only for the first
// line that cannot be written. Such lines are left out.
func (r *Run) Metrics(m Metrics) error {
	m.UnixMS = time.Now().UnixMilli()
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	before := r.metrics.lost
	_, _ = r.metrics.Write(append(line, '\n')) // see lost and err
	if r.metrics.lost == before || before > 0 {
		return nil
	}
	return r.metrics.err
}

// Close closes the files. After the first call it does nothing.
func (r *Run) Close() error {
	var err error
	for _, f := range []**lineFile{&r.metrics, &r.logFile} {
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	for _, f := range []**os.File{&r.reserve, &r.lock} { // the lock last
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	return err
}
