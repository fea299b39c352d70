package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ecrec/ecrec/internal/regular"
)

// Result describes files in a folder that a new run must not destroy: the model of an earlier run,
// its summary with a digest, or files of other programs.
type Result struct {
	Name    string // of the job; empty: unknown
	Steps   int
	Digest  string
	Stopped bool // ended by a signal, before the last step
	Ended   time.Time
	Foreign string // a file of another program; empty: none
	// Data is the summary's description of the data.
	Data json.RawMessage
	// Configs lists the resolved configs in the folder: of the result, and of an unfinished run
	// over it.
	Configs []string
}

func (r *Result) String() string {
	if r.Foreign != "" {
		return fmt.Sprintf("a file %s that was not written by a run", r.Foreign)
	}
	s := "the result of a run"
	if r.Name != "" {
		s = fmt.Sprintf("the result of run %q", r.Name)
	}
	if r.Digest == "" {
		return s + fmt.Sprintf(" (%s of %s)", ModelFile, r.Ended.UTC().Format(time.DateTime))
	}
	how := "ended"
	if r.Stopped {
		how = "stopped"
	}
	return s + fmt.Sprintf(" (%s, digest %s, %s %s UTC)", Count(int64(r.Steps), "step"), r.Digest, how, r.Ended.UTC().Format(time.DateTime))
}

// Look returns the result in a folder, nil if there is none. Metrics, logs, record files, and the
// summary of a failed run without a digest are not results.
func Look(dir string) (*Result, error) {
	r := &Result{}
	found, err := r.readSummary(filepath.Join(dir, summaryFile))
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(filepath.Join(dir, ModelFile)); err == nil {
		if found = true; r.Ended.IsZero() {
			r.Ended = info.ModTime()
		}
	}
	own := exists(filepath.Join(dir, lockFile)) || exists(filepath.Join(dir, logName(0)))
	for _, config := range []string{filepath.Join(dir, configFile), filepath.Join(dir, unfinished, configFile)} {
		if !exists(config) {
			continue
		}
		if r.Configs = append(r.Configs, config); !own && r.Digest == "" && r.Foreign == "" {
			r.Foreign, found = configFile, true
		}
	}
	if !found {
		return nil, nil
	}
	return r, nil
}

// readSummary reports whether there is a summary with a digest, or one of another program.
func (r *Result) readSummary(path string) (found bool, err error) {
	text, err := readRegular(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.As(err, new(*regular.Error)):
		r.Foreign = summaryFile
		return true, nil
	case err != nil:
		return false, err
	}
	var s struct {
		Name, Digest string
		Steps        *int
		Stopped      bool
		Ended        time.Time
		Data         json.RawMessage
	}
	if json.Unmarshal(text, &s) != nil || s.Steps == nil {
		r.Foreign = summaryFile
		return true, nil
	}
	if s.Digest == "" {
		return false, nil
	}
	if info, err := os.Stat(path); err == nil && s.Ended.IsZero() {
		s.Ended = info.ModTime()
	}
	r.Name, r.Digest, r.Steps, r.Stopped, r.Ended, r.Data = s.Name, s.Digest, *s.Steps, s.Stopped, s.Ended, s.Data
	return true, nil
}

// readRegular reads a regular file. A FIFO or a device could block a reader forever.
func readRegular(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// IsModel reports whether a file is the model of a run, next to its summary.
func IsModel(path string) bool {
	return filepath.Base(path) == ModelFile && exists(filepath.Join(filepath.Dir(path), summaryFile))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Numbered returns two of the folders out, out-2, out-3 and so on, one per run. newest is the last
// that exists, empty if none does; next is the first that does not exist.
func Numbered(out string) (newest, next string) {
	next = out
	for n := 2; exists(next); n++ {
		newest, next = next, fmt.Sprintf("%s-%d", strings.TrimSuffix(out, "/"), n)
	}
	return newest, next
}

// ClaimNumbered creates the next numbered folder, so that no other run takes it.
func ClaimNumbered(out string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return "", &outputError{out, "job.out", err}
	}
	for {
		_, next := Numbered(out)
		err := os.Mkdir(next, 0o755)
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", &outputError{next, "job.out", err}
		}
	}
}

// Link points a link to the folder of a run next to it. It returns an error if link exists and is
// not a link.
func Link(link, dir string) error {
	if info, err := os.Lstat(link); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return &outputError{link, "job.out", errors.New("exists and is not a symbolic link")}
	}
	fresh := fmt.Sprintf("%s.tmp-%d", link, os.Getpid())
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a killed process with this id
		return err
	}
	if err := os.Symlink(filepath.Base(dir), fresh); err != nil {
		return err
	}
	return os.Rename(fresh, link)
}

// Latest returns the name of the link to the newest numbered folder.
func Latest(out string) string { return strings.TrimSuffix(out, "/") + "-latest" }
