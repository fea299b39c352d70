package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/atomicfile"
)

const (
	stepPrefix = "step-"
	stepDigits = 12
	// tmpMark follows a checkpoint's name in the names of folders that are not one:
	// being written, or on their way out.
	tmpMark = ".tmp-"
	// removed is what follows tmpMark while a checkpoint is being removed.
	removed = "removed"
)

func stepName(step int64) string { return fmt.Sprintf("%s%0*d", stepPrefix, stepDigits, step) }

// stepOf is the step of a checkpoint's folder name.
func stepOf(name string) (step int64, ok bool) {
	digits, ok := strings.CutPrefix(name, stepPrefix)
	if !ok {
		return 0, false
	}
	step, err := strconv.ParseInt(digits, 10, 64)
	return step, err == nil && stepName(step) == name
}

// list gives the steps of a folder's checkpoints, ascending; none if there is no
// such folder.
func list(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var steps []int64
	for _, e := range entries {
		if step, ok := stepOf(e.Name()); ok && e.IsDir() {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// At reports whether a path looks like a checkpoint, or a folder of some; whether
// one can be used is for Open and Find to say.
func At(path string) bool {
	if _, ok := stepOf(filepath.Base(path)); ok {
		info, err := os.Stat(path)
		return err == nil && info.IsDir()
	}
	if _, err := os.Stat(filepath.Join(path, manifestFile)); err == nil {
		return true
	}
	steps, err := list(path)
	return err == nil && len(steps) > 0
}

// removeLeftovers removes folders that are no checkpoints any more or yet.
func removeLeftovers(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, _, tmp := strings.Cut(e.Name(), tmpMark)
		if _, ok := stepOf(name); !tmp || !ok {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// retain removes all but the keep newest checkpoints up to step. Later ones are
// not this run's to judge.
func retain(dir string, step int64, keep int) error {
	steps, err := list(dir)
	if err != nil || keep < 1 {
		return err
	}
	steps = slices.DeleteFunc(steps, func(s int64) bool { return s > step })
	for _, old := range steps[:max(0, len(steps)-keep)] {
		// First the name: a checkpoint that stands is whole, also after a crash here.
		from := filepath.Join(dir, stepName(old))
		to := from + tmpMark + removed
		if err := os.Rename(from, to); err != nil {
			return err
		}
		if err := atomicfile.SyncDir(dir); err != nil {
			return err
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	return nil
}

// rename gives the folder tmp its final name. A checkpoint of that name, which a
// run that went back to an earlier one wrote before, is replaced.
func rename(tmp, final string) error {
	err := os.Rename(tmp, final)
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, final, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// No exchange on this file system. The one before may be away for a moment; what
		// takes its place is already whole on the disk.
		if err = os.Rename(final, final+tmpMark+removed); err == nil {
			err = os.Rename(tmp, final)
		}
		tmp = final + tmpMark + removed
	}
	if err != nil {
		return err
	}
	if err := atomicfile.SyncDir(filepath.Dir(final)); err != nil {
		return err
	}
	return os.RemoveAll(tmp)
}
