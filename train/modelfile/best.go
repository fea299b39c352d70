package modelfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/internal/atomicfile"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/lineage"
)

// Best is a folder of models that were the best of their run when they were evaluated. Each is a
// file named by the step and the run's lineage in its short form, so its content follows from its name.
type Best struct {
	Env env.Env
	Dir string
}

const (
	bestPrefix = "model-best-"
	bestDigits = 12
	bestSuffix = ".safetensors"
	unfinished = ".tmp-" // in the names of files that a dead process left (package atomicfile)
)

// Path is the file of the model that a run had after a step.
func (b Best) Path(step int64, run string) string {
	return filepath.Join(b.Dir, fmt.Sprintf("%s%0*d-%s%s", bestPrefix, bestDigits, step, run, bestSuffix))
}

// Make makes the folder, if it is not there.
func (b Best) Make() error {
	return b.Env.Do("make "+b.Dir, func() error { return os.MkdirAll(b.Dir, 0o755) })
}

// stepOf is the step of a file of the folder, and whether it is the model of a run of that
// lineage. Names of files that were never completed count too.
func (b Best) stepOf(name string, run string) (step int64, ok bool) {
	name, _, left := strings.Cut(name, unfinished)
	if left {
		name = strings.TrimPrefix(name, ".")
	}
	number, found := strings.CutPrefix(name, bestPrefix)
	number, ours := strings.CutSuffix(number, "-"+run+bestSuffix)
	step, err := strconv.ParseInt(number, 10, 64)
	return step, found && ours && err == nil
}

// Prune removes the models of a lineage up to a step, except those of the steps in keep.
func (b Best) Prune(run string, upTo int64, keep []int64) error {
	return b.remove(func(name string) bool {
		step, ok := b.stepOf(name, run)
		return ok && step <= upTo && (!slices.Contains(keep, step) || strings.Contains(name, unfinished))
	})
}

// RemoveAll removes the models of all lineages.
func (b Best) RemoveAll() error {
	return b.remove(func(name string) bool {
		name = strings.TrimPrefix(name, ".")
		return strings.HasPrefix(name, bestPrefix) && strings.Contains(name, bestSuffix)
	})
}

// remove removes the files of the folder that match.
func (b Best) remove(match func(name string) bool) error {
	return b.Env.Do("remove models", func() error {
		entries, err := os.ReadDir(b.Dir)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		for _, e := range entries {
			if e.Type().IsRegular() && match(e.Name()) {
				err = errors.Join(err, os.Remove(filepath.Join(b.Dir, e.Name())))
			}
		}
		return err
	})
}

// Adopt makes the model that a run had after a step that of runs[0], unless it is there. It
// searches this folder and from, for the lineages runs, and then the files final, which are known by
// their metadata. It reports whether there is one.
func (b Best) Adopt(step int64, runs []lineage.ID, from string, final ...string) (found bool, err error) {
	to := b.Path(step, runs[0].Short())
	err = b.Env.Do("find the best model", func() error {
		for _, dir := range []string{b.Dir, from} {
			for _, run := range runs {
				path := Best{Dir: dir}.Path(step, run.Short())
				if _, err := os.Stat(path); err != nil {
					continue
				}
				found = true
				if path == to {
					return nil
				}
				return link(path, to)
			}
		}
		for _, path := range final {
			if isModelOf(path, step, runs) {
				found = true
				return link(path, to)
			}
		}
		return nil
	})
	return found, err
}

// isModelOf reports whether a file holds the model that one of some runs had after a step.
func isModelOf(path string, step int64, runs []lineage.ID) bool {
	f, err := safetensors.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	of := f.Metadata[KeyLineage]
	return f.Metadata[KeyStep] == strconv.FormatInt(step, 10) && slices.ContainsFunc(runs, func(id lineage.ID) bool { return id.String() == of })
}

// Publish gives the model that a run had after a step a second name.
func (b Best) Publish(step int64, run string, to string) error {
	return b.Env.Do("write "+to, func() error { return link(b.Path(step, run), to) })
}

// link gives a file a second name, in place of another file of that name. It copies the file if
// the file system has no links, or the names are on different ones.
func link(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if os.Link(from, to) == nil {
		return atomicfile.SyncDir(filepath.Dir(to))
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := atomicfile.Create(to)
	if err != nil {
		return err
	}
	defer out.Abort()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Commit()
}
