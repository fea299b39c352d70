package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/atomicfile"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
)

const (
	stepPrefix = "step-"
	stepDigits = 12
	// tmpMark follows a checkpoint's name in the names of folders that are being written or
	// removed. A lineage follows, and the reason.
	tmpMark = ".tmp-"
	// removed is the reason while a checkpoint is being removed.
	removed = "removed"
)

func stepName(step int64) string { return fmt.Sprintf("%s%0*d", stepPrefix, stepDigits, step) }

// nameOf is the name of a checkpoint if the plain name is that of one that cannot be replaced: it is of another lineage,
// or a parent, or the file system cannot exchange names.
func nameOf(step int64, id lineage.ID) string { return stepName(step) + "-" + id.Short() }

var nameForm = regexp.MustCompile(`^(step-(\d+))(-[0-9a-f]{8}|-unknown)?$`)

// stepOf is the step of a checkpoint's folder name.
func stepOf(name string) (step int64, ok bool) {
	parts := nameForm.FindStringSubmatch(name)
	if parts == nil {
		return 0, false
	}
	step, err := strconv.ParseInt(parts[2], 10, 64)
	return step, err == nil && stepName(step) == parts[1]
}

// entry is a checkpoint's folder.
type entry struct {
	name string
	step int64
}

// list returns a folder's checkpoints, ascending, and none if there is no such folder.
func list(dir string) ([]entry, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var all []entry
	for _, e := range entries {
		if step, ok := stepOf(e.Name()); ok && e.IsDir() {
			all = append(all, entry{e.Name(), step})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.step, b.step) })
	return all, nil
}

// Newest is the name of a folder's newest checkpoint, empty if there is none or no such
// folder.
func Newest(dir string) string {
	all, err := list(dir)
	if err != nil || len(all) == 0 {
		return ""
	}
	return all[len(all)-1].name
}

// Oldest is the step of the oldest checkpoint of a lineage in a folder, and whether there is one.
func Oldest(e env.Env, dir string, id lineage.ID) (step int64, ok bool, err error) {
	err = e.Do("find the oldest checkpoint", func() error {
		all, err := list(dir)
		for _, at := range all {
			if ofLineage(filepath.Join(dir, at.name), id) {
				step, ok = at.step, true
				break
			}
		}
		return err
	})
	return step, ok, err
}

// At reports whether a path looks like a checkpoint, or a folder of some. Open and Find
// find out whether they can be used.
func At(path string) bool {
	all, err := list(path)
	return isOne(path) || err == nil && len(all) > 0
}

// isOne reports whether a path looks like one checkpoint.
func isOne(path string) bool {
	if _, ok := stepOf(filepath.Base(path)); ok {
		info, err := os.Stat(path)
		return err == nil && info.IsDir()
	}
	_, err := os.Stat(filepath.Join(path, manifestFile))
	return err == nil
}

// tmpName is the name of a folder that is not yet a checkpoint, or no longer.
func tmpName(name string, id lineage.ID, why string) string {
	return name + tmpMark + id.Short() + "-" + why
}

// removeLeftovers removes the temporary folders of a lineage, or of all lineages if no
// other run can save to dir. It continues after an error.
func removeLeftovers(dir string, id lineage.ID, all bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, rest, tmp := strings.Cut(e.Name(), tmpMark)
		if _, ok := stepOf(name); !tmp || !ok || !all && !strings.HasPrefix(rest, id.Short()+"-") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if away := path + "-" + removed; !strings.HasSuffix(path, "-"+removed) {
			// The name goes first: a process that still writes there cannot publish the rest.
			err = errors.Join(err, os.RemoveAll(away), os.Rename(path, away))
			path = away
		}
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// folder is the checkpoints of a folder by name.
type folder map[string]folderEntry

// folderEntry is a checkpoint of a folder.
type folderEntry struct {
	entry
	manifest *Manifest // nil: it cannot be read, now or ever
}

// readFolder reads the manifests of a folder.
func readFolder(dir string) (folder, error) {
	all, err := list(dir)
	if err != nil {
		return nil, err
	}
	f := folder{}
	for _, at := range all {
		m, err := readManifest(filepath.Join(dir, at.name))
		if err != nil {
			m = nil
		}
		f[at.name] = folderEntry{at, m}
	}
	return f, nil
}

// parents are the names of the checkpoints of which others are increments.
func (f folder) parents() map[string]bool {
	names := map[string]bool{}
	for _, e := range f {
		if e.manifest != nil && e.manifest.Parent != nil {
			names[e.manifest.Parent.Name] = true
		}
	}
	return names
}

// expendable lists the checkpoints that retain removes, the newest first: increments are removed before their
// parents, so that no crash leaves an increment without its parent.
func (f folder) expendable(id lineage.ID, step int64, keep int) (names []string) {
	var own []entry
	needed, unread := map[string]bool{}, int64(-1)
	for name, e := range f {
		if e.step <= step && e.manifest != nil && lineageOf(e.manifest.Run) == id {
			own = append(own, e.entry)
		} else {
			needed[name] = true
		}
		if e.manifest == nil {
			unread = max(unread, e.step)
		}
	}
	for _, e := range own {
		if e.step <= unread { // one that cannot be read may be an increment of any of them, and the parent of later ones
			needed[e.name] = true
		}
	}
	slices.SortFunc(own, func(a, b entry) int { return -cmp.Or(cmp.Compare(a.step, b.step), strings.Compare(a.name, b.name)) })
	for _, e := range own[:min(keep, len(own))] {
		needed[e.name] = true
	}
	for _, name := range slices.Collect(maps.Keys(needed)) {
		for at := f[name].manifest; at != nil && at.Parent != nil; at = f[at.Parent.Name].manifest {
			if needed[at.Parent.Name] {
				break
			}
			needed[at.Parent.Name] = true
		}
	}
	for _, e := range own {
		if !needed[e.name] {
			names = append(names, e.name)
		}
	}
	return names
}

// retain removes all but the keep newest checkpoints of a lineage up to step. It keeps later
// ones, those of other lineages, the parents of each checkpoint that it keeps, and every possible
// parent of one that cannot be read.
func retain(dir string, id lineage.ID, step int64, keep int) error {
	if keep < 1 {
		return nil
	}
	all, err := readFolder(dir)
	if err != nil {
		return err
	}
	for _, old := range all.expendable(id, step, keep) {
		// The name goes first: a checkpoint with its name must be complete, also after a crash here.
		from, to := filepath.Join(dir, old), filepath.Join(dir, tmpName(old, id, removed))
		if stop := os.Rename(from, to); stop != nil { // the parents of an increment that stays must stay too
			return errors.Join(err, stop)
		}
		if stop := atomicfile.SyncDir(dir); stop != nil {
			return errors.Join(err, stop)
		}
		err = errors.Join(err, os.RemoveAll(to))
	}
	return err
}

// ofLineage reports whether a checkpoint can be read and is of a lineage.
func ofLineage(path string, id lineage.ID) bool {
	m, err := readManifest(path)
	return err == nil && lineageOf(m.Run) == id
}

// replaceable reports whether a checkpoint of a lineage may be published at a path: the path
// is free, or holds a checkpoint of this lineage, or a damaged one. An error of the disk is no damage.
func replaceable(path string, id lineage.ID) bool {
	m, err := readManifest(path)
	if err != nil {
		return errors.As(err, new(*Corrupt)) || errors.As(err, new(*NotFound))
	}
	return lineageOf(m.Run) == id
}

// errNoExchange is the error if a name is taken, and the file system cannot exchange two names.
var errNoExchange = errors.New("the file system cannot exchange two names")

// exchangeNames is exchange, except in tests.
var exchangeNames = exchange

// rename gives the folder tmp its final name. It replaces a checkpoint of that name, which
// the run wrote before it was restored from an earlier one, and returns the path that this
// one has then. The path is empty if there was none.
func rename(tmp, final string) (old string, err error) {
	err = os.Rename(tmp, final)
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return "", err
	}
	err = exchangeNames(tmp, final)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return "", errNoExchange
	}
	return tmp, err
}

// replace does the same on a file system that cannot exchange names. The checkpoint that it replaces gets the name away,
// and no checkpoint has the final name for a moment.
func replace(tmp, final, away string) error {
	if err := os.Rename(final, away); err != nil {
		return err
	}
	return os.Rename(tmp, final)
}
