package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

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

// busyError says that another run has the folder.
type busyError struct{ dir string }

func (e *busyError) Error() string {
	return fmt.Sprintf("%s: another run is writing to this folder; wait for its end or choose another with job.out", e.dir)
}
func (e *busyError) Is(target error) bool { return target == ErrOutput }

func (e *outputError) Error() string {
	return fmt.Sprintf("%s: the folder cannot be written: %v; choose another with %s", e.dir, e.err, e.setting)
}
func (e *outputError) Is(target error) bool { return target == ErrOutput }
func (e *outputError) Unwrap() error        { return e.err }

const (
	summaryFile = "summary.json"
	configFile  = "config.toml"
	// ModelFile is where a run leaves its model.
	ModelFile = "model.safetensors"
)

// Run is the output folder of a run in progress.
type Run struct {
	dir     string
	locked  bool
	log     zerolog.Logger
	logFile *os.File
	metrics *os.File
	adopted *os.File // process 0's log, for its lock
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

// CheckFree tells whether no run is writing to a folder. A run's own processes do
// not ask once process 0 has opened it.
func CheckFree(dir string) error {
	log, err := os.Open(filepath.Join(dir, logName(0)))
	if err != nil {
		return nil // nobody holds what is not there; what else is wrong Open says
	}
	defer log.Close()
	_, err = lock(dir, log, syscall.LOCK_SH)
	return err
}

// lock takes the lock that process 0 of a run holds on its log, until it closes it
// or dies. Some file systems have no locks: held is false there, and no error.
func lock(dir string, log *os.File, how int) (held bool, err error) {
	switch err := syscall.Flock(int(log.Fd()), how|syscall.LOCK_NB); err {
	case nil:
		return true, nil
	case syscall.EWOULDBLOCK:
		return false, &busyError{dir}
	default:
		return false, nil
	}
}

// inherit takes the lock of a process 0 that is lost. Should that stand still and hold it,
// the run goes on without: it is the one that the job has.
func (r *Run) inherit(log *os.File) {
	const patience, again = time.Second, 10 * time.Millisecond
	for begin := time.Now(); ; time.Sleep(again) {
		held, err := lock(r.dir, log, syscall.LOCK_EX)
		if r.locked = held; err == nil || time.Since(begin) > patience {
			return
		}
	}
}

func logName(process int) string { return fmt.Sprintf("process-%d.log", process) }

// Open makes the folder and begins its files. resolved is the run's config,
// process the number of this process: all but process 0 have a log only. Process 0
// holds the folder until Finish or Close: no other run can open it.
func Open(dir string, resolved []byte, process int) (*Run, error) {
	return open(dir, resolved, process, os.O_TRUNC)
}

// Reopen is Open for a process that takes the place of one of this run that died: it
// goes on where that stopped to write.
func Reopen(dir string, resolved []byte, process int) (*Run, error) {
	return open(dir, resolved, process, os.O_APPEND)
}

// Adopt has another process go on with the files of process 0, which is lost, but for
// its log.
func (r *Run) Adopt(resolved []byte) (err error) {
	if r.adopted, err = os.OpenFile(r.path(logName(0)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err == nil {
		r.inherit(r.adopted)
		err = r.begin(resolved, os.O_APPEND)
	}
	if err != nil {
		return &outputError{r.dir, "job.out", err}
	}
	return nil
}

// open begins files anew (mode os.O_TRUNC), or goes on with them (os.O_APPEND).
func open(dir string, resolved []byte, process, mode int) (*Run, error) {
	const setting = "job.out"
	if err := CheckDir(dir, setting); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, &outputError{dir, setting, err}
	}
	r := &Run{dir: dir}
	err := r.openLog(process, mode)
	if err == nil && process == 0 {
		err = r.begin(resolved, mode)
	}
	if err != nil {
		r.Close()
		if errors.Is(err, ErrOutput) {
			return nil, err
		}
		return nil, &outputError{dir, setting, err}
	}
	return r, nil
}

// openLog begins the log, for process 0 with the lock. A process's supervisor adds
// what the process says as it dies.
func (r *Run) openLog(process, mode int) (err error) {
	if r.logFile, err = os.OpenFile(r.path(logName(process)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return err
	}
	switch {
	case process != 0:
	case mode == os.O_APPEND:
		r.inherit(r.logFile)
	default:
		if r.locked, err = lock(r.dir, r.logFile, syscall.LOCK_EX); err != nil {
			return err
		}
	}
	r.log = zerolog.New(r.logFile).With().Timestamp().Int("process", process).Logger()
	if mode == os.O_TRUNC {
		return r.logFile.Truncate(0)
	}
	return nil
}

// begin is process 0's part: it removes what an earlier run wrote, or was writing
// when it died, and must not pass for this run's.
func (r *Run) begin(resolved []byte, mode int) (err error) {
	for _, name := range []string{summaryFile, configFile, ModelFile} {
		if !r.locked {
			break // somebody may be writing them
		}
		if err := atomicfile.RemoveLeftovers(r.path(name)); err != nil {
			return err
		}
	}
	for _, name := range []string{summaryFile, ModelFile} {
		if err := os.Remove(r.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := atomicfile.WriteFile(r.path(configFile), resolved); err != nil {
		return err
	}
	r.metrics, err = os.OpenFile(r.path("metrics.jsonl"), os.O_CREATE|os.O_WRONLY|mode, 0o644)
	return err
}

func (r *Run) path(name string) string { return filepath.Join(r.dir, name) }

// Dir is the output folder.
func (r *Run) Dir() string { return r.dir }

// Log is this process's log.
func (r *Run) Log() *zerolog.Logger { return &r.log }

// Metrics appends a line to metrics.jsonl, with the time.
func (r *Run) Metrics(m Metrics) error {
	m.UnixMS = time.Now().UnixMilli()
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
		err = atomicfile.WriteFile(r.path(summaryFile), out)
	}
	return errors.Join(err, r.Close())
}

// Close closes the files; after the first call it does nothing.
func (r *Run) Close() error {
	var err error
	for _, f := range []**os.File{&r.metrics, &r.logFile, &r.adopted} {
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	return err
}
