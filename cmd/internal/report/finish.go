package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ecrec/ecrec/internal/atomicfile"
)

// newSummary is the temporary name of summary.json. Its space is reserved when a run begins, so that
// the end of the run can be recorded on a full disk.
const newSummary = "." + summaryFile + ".new"

const (
	summaryBytes = 64 << 10 // of a summary without the losses of the steps
	lossBytes    = 24       // of the loss of a step
	mostReserved = 16 << 20
)

// reserveSummary reserves the space for the summary of a run of steps steps, or for a summary without
// losses if the disk has less.
func (r *Run) reserveSummary(steps int64) (err error) {
	r.reserve, err = os.OpenFile(r.path(newSummary), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	full := min(mostReserved, summaryBytes+lossBytes*min(steps, mostReserved))
	if allocate(r.reserve, full) == nil {
		return nil
	}
	return allocate(r.reserve, summaryBytes)
}

// Finish writes summary.json. The folder and its logs stay open until Close. The files of a finished run replace those of the
// earlier result. A run that failed, or that was stopped over a finished result, leaves that
// result unchanged: its own files are in the folder unfinished, which Written returns.
func (r *Run) Finish(s Summary) error {
	s.MetricsLost = r.metrics.lost
	if s.Digest != "" && exists(NewModel(r.dir)) {
		s.Model = ModelFile
	}
	var earlier *Result
	err := r.writeSummary(s)
	if err == nil && r.over {
		earlier, err = Look(r.dir)
	}
	if err == nil {
		r.kept = s.keepsEarlier(earlier, r.dir)
		err = place(r.dir, &s, r.kept)
	}
	return err
}

// Written returns the folder with the summary, after Finish.
func (r *Run) Written() string {
	if r.kept {
		return r.path(unfinished)
	}
	return r.dir
}

// keepsEarlier reports whether a run leaves an earlier result in place. A stopped run does, unless it
// continues the files of that result, or that result is of a stopped run too.
func (s *Summary) keepsEarlier(earlier *Result, dir string) bool {
	switch {
	case earlier == nil:
		return false
	case !s.isComplete():
		return true
	}
	return s.Stopped && !earlier.Stopped && exists(filepath.Join(dir, unfinished, metricsFile))
}

// isComplete reports whether a run left a complete result.
func (s *Summary) isComplete() bool { return s.Digest != "" && (s.Model != "" || s.Error == "") }

// writeSummary writes the summary to its reserved space.
func (r *Run) writeSummary(s Summary) error {
	text, err := s.toJSON()
	if err != nil {
		return err
	}
	err = rewrite(r.reserve, text)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		s.TrainLoss, s.LossesLeftOut = nil, len(s.TrainLoss)
		if text, err = s.toJSON(); err == nil {
			err = rewrite(r.reserve, text)
		}
	}
	return err
}

// rewrite replaces the content of a file.
func rewrite(f *os.File, text []byte) error {
	if _, err := f.WriteAt(text, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(text))); err != nil {
		return err
	}
	return f.Sync()
}

// place renames the files of a run that has written its summary, the summary last. If the process
// dies before the end, the next run in the folder completes the renames.
func place(dir string, s *Summary, kept bool) error {
	at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	var err error
	switch {
	case !s.isComplete():
		err = os.RemoveAll(NewModel(dir))
	case s.Model == "" && !kept:
		err = os.RemoveAll(at(ModelFile)) // of the result that is replaced
	}
	if err != nil {
		return err
	}
	moves := [][2]string{{NewModel(dir), at(ModelFile)}, {at(unfinished, metricsFile), at(metricsFile)},
		{at(unfinished, configFile), at(configFile)}, {at(unfinished, RecipeFile), at(RecipeFile)}, {at(newSummary), at(summaryFile)}}
	if kept {
		if err := os.MkdirAll(at(unfinished), 0o755); err != nil {
			return err
		}
		moves = [][2]string{{NewModel(dir), at(unfinished, ModelFile)}, {at(newSummary), at(unfinished, summaryFile)}}
	}
	for _, m := range moves {
		if err := os.Rename(m[0], m[1]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// A rename to another name of the same file leaves both: the model of an earlier run, kept again.
		if err := os.Remove(m[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if kept {
		return atomicfile.SyncDir(dir)
	}
	return errors.Join(clearUnfinished(dir, false), atomicfile.SyncDir(dir))
}

// clearUnfinished removes the files of an unfinished run over a result. With another, the folder
// stays for the next run.
func clearUnfinished(dir string, another bool) error {
	for _, name := range []string{summaryFile, metricsFile, configFile, RecipeFile, ModelFile} {
		if err := os.Remove(filepath.Join(dir, unfinished, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if !another {
		_ = os.Remove(filepath.Join(dir, unfinished)) // fails if it is absent or not empty
	}
	return nil
}

// cleanUp cleans up after a run that died. If its summary is complete, its files are renamed; else
// its model is removed. Incomplete files are removed in both cases.
func (r *Run) cleanUp() error {
	for _, name := range []string{NewModel(r.dir), r.path(configFile), r.path(unfinished, configFile), r.path(RecipeFile),
		r.path(unfinished, RecipeFile)} {
		if !exists(filepath.Dir(name)) {
			continue
		}
		if err := atomicfile.RemoveLeftovers(name); err != nil {
			return err
		}
	}
	var s Summary
	text, err := readRegular(r.path(newSummary))
	if err != nil || json.Unmarshal(bytes.TrimRight(text, "\x00"), &s) != nil {
		return errors.Join(os.RemoveAll(r.path(newSummary)), os.RemoveAll(NewModel(r.dir)))
	}
	found, err := Look(r.dir)
	if err != nil {
		return err
	}
	return place(r.dir, &s, s.keepsEarlier(found, r.dir))
}
