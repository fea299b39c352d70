package rundir

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// depth is how many levels below a folder Find searches for runs.
const depth = 3

// Find returns the folders of runs in a folder and below, and the folders directly in it that
// contain no run. It does not search the folders of a run.
func Find(dir fs.FS) (runs, foreign []string) {
	if IsRun(dir) {
		return []string{"."}, nil
	}
	entries, _ := fs.ReadDir(dir, ".") // an unreadable folder has no readable run
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		found := below(dir, e.Name(), depth-1)
		if len(found) == 0 {
			foreign = append(foreign, e.Name())
		}
		runs = append(runs, found...)
	}
	return runs, foreign
}

func below(dir fs.FS, name string, depth int) (runs []string) {
	if isRun(dir, name) {
		return []string{name}
	}
	entries, _ := fs.ReadDir(dir, name)
	for _, e := range entries {
		if depth > 0 && e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			runs = append(runs, below(dir, path.Join(name, e.Name()), depth-1)...)
		}
	}
	return runs
}

// Sort orders runs by their start; runs without one are last.
func Sort(runs []*Run) {
	slices.SortStableFunc(runs, func(a, b *Run) int {
		switch {
		case a.Started.IsZero() != b.Started.IsZero():
			if a.Started.IsZero() {
				return 1
			}
			return -1
		case !a.Started.Equal(b.Started):
			return a.Started.Compare(b.Started)
		}
		return strings.Compare(a.Path, b.Path)
	})
}
