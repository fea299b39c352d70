package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/ecrec/ecrec/internal/atomicfile"
)

// ErrOutput is what an error about the output folder is.
var ErrOutput = errors.New("output folder cannot be used")

type outputError struct {
	dir     string
	setting string // what chose the folder
	err     error
}

func (e *outputError) Error() string {
	return fmt.Sprintf("%s: the folder cannot be written: %v; choose another with %s", e.dir, e.err, e.setting)
}
func (e *outputError) Is(target error) bool { return target == ErrOutput }
func (e *outputError) Unwrap() error        { return e.err }

// Run is the output folder of a run in progress.
type Run struct {
	dir     string
	log     zerolog.Logger
	logFile *os.File
	metrics *os.File
}

// CheckDir tells whether files could be written into dir, which setting chose,
// and leaves nothing behind. A folder that is not there yet is judged by the nearest one above it.
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

// Open makes the folder and begins its files. resolved is the run's config,
// process the number of this process: all but process 0 have a log only.
func Open(dir string, resolved []byte, process int) (*Run, error) {
	const setting = "job.out"
	if err := CheckDir(dir, setting); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, &outputError{dir, setting, err}
	}
	r := &Run{dir: dir}
	if err := r.begin(resolved, process); err != nil {
		r.Close()
		return nil, &outputError{dir, setting, err}
	}
	return r, nil
}

func (r *Run) begin(resolved []byte, process int) (err error) {
	// A process's supervisor adds to the log what the process says as it dies.
	if r.logFile, err = os.OpenFile(r.path(fmt.Sprintf("process-%d.log", process)), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return err
	}
	r.log = zerolog.New(r.logFile).With().Timestamp().Int("process", process).Logger()
	if process != 0 {
		return nil
	}
	if err := os.Remove(r.path("summary.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := atomicfile.WriteFile(r.path("config.toml"), resolved); err != nil {
		return err
	}
	r.metrics, err = os.Create(r.path("metrics.jsonl"))
	return err
}

func (r *Run) path(name string) string { return filepath.Join(r.dir, name) }

// Dir is the output folder.
func (r *Run) Dir() string { return r.dir }

// Log is this process's log.
func (r *Run) Log() *zerolog.Logger { return &r.log }

// Metrics appends a line to metrics.jsonl.
func (r *Run) Metrics(m Metrics) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = r.metrics.Write(append(line, '\n'))
	return err
}

// Finish writes summary.json and closes the other files.
func (r *Run) Finish(s Summary) error {
	out, err := s.encode()
	if err == nil {
		err = atomicfile.WriteFile(r.path("summary.json"), out)
	}
	return errors.Join(err, r.Close())
}

// Close closes the files; after the first call it does nothing.
func (r *Run) Close() error {
	var err error
	for _, f := range []**os.File{&r.metrics, &r.logFile} {
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	return err
}
