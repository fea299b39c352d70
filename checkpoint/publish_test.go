package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
)

// busy mounts a file system in a checkpoint, which then cannot be removed.
func busy(t *testing.T, folder string) {
	t.Helper()
	at := filepath.Join(folder, "busy")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no folder that cannot be removed: mount: %v", err)
	}
	t.Cleanup(func() { // it may have another name now
		all, _ := filepath.Glob(filepath.Join(filepath.Dir(folder), "*", "busy"))
		for _, at := range all {
			_ = unix.Unmount(at, unix.MNT_DETACH)
		}
	})
}

// A checkpoint or leftover that cannot be removed fails no save.
func TestFoldersThatCannotBeRemoved(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 2)
	defer w.close()
	dir := t.TempDir()
	save := func(step int64) error {
		t.Helper()
		s := &Save{Dir: dir, Step: step, Keep: 1}
		if err := w.saveRows(s, change(rnd, w, 1)); err != nil {
			t.Fatal(err)
		}
		return s.NotRemoved()
	}
	if err := save(1); err != nil {
		t.Error(err)
	}
	busy(t, filepath.Join(dir, stepName(1)))
	if err := save(2); !errors.Is(err, unix.EBUSY) {
		t.Errorf("step 1 is in use: %v", err)
	}
	if err := save(3); err != nil {
		t.Errorf("a leftover: %v", err)
	}
	if want := []string{tmpName(stepName(1), lineage.ID{}, removed), stepName(3)}; !slices.Equal(names(t, dir), want) {
		t.Errorf("folder holds %v, want %v", names(t, dir), want)
	}
	busy(t, filepath.Join(dir, stepName(3)))
	if err := save(3); !errors.Is(err, unix.EBUSY) { // it is replaced
		t.Errorf("step 3 is in use: %v", err)
	}
}

// Two jobs of a lineage save the same step where there are no locks. The second removes the files of the first, whose
// save fails. It does not publish those of the second.
func TestSessions(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 1)
	defer w.close()
	dir, run := t.TempDir(), runOf("run", "1")
	saved(t, w, Save{Dir: dir, Step: 1, Run: run})
	begin := func(session string) (*Save, []Part) {
		s := &Save{Env: env.Real(), Dir: dir, Step: 2, Session: session, Ranks: 1, Model: w.model, Run: run}
		return s, w.write(t, s)
	}
	first, firstParts := begin("one")
	second, secondParts := begin("two")
	if err := first.Commit(firstParts, "", nil); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "another job") {
		t.Errorf("the first: %v", err)
	}
	if got := Newest(dir); got != stepName(1) {
		t.Errorf("the newest is %s", got)
	}
	if err := second.Commit(secondParts, "", nil); err != nil || Newest(dir) != stepName(2) {
		t.Errorf("the second: %v", err)
	}
}

// No checkpoint is published without all of its files.
func TestFilesAreThere(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 1)
	defer w.close()
	for what, change := range map[string]func(path string) error{
		"missing": os.Remove,
		"short":   func(path string) error { return os.Truncate(path, 1) },
	} {
		for _, name := range []string{rowsFile(0), denseFile} {
			s := &Save{Env: env.Real(), Dir: t.TempDir(), Step: 2, Ranks: 1, Model: w.model}
			parts := w.write(t, s)
			if err := change(filepath.Join(s.tmpPath(), name)); err != nil {
				t.Fatal(err)
			}
			err := s.Commit(parts, "", nil)
			if err == nil || !strings.Contains(err.Error(), name) || Newest(s.Dir) != "" {
				t.Errorf("%s is %s: %v, the newest is %q", name, what, err, Newest(s.Dir))
			}
		}
	}
}

// write begins a checkpoint of a world of one rank, and writes its parts.
func (w *world) write(t *testing.T, s *Save) []Part {
	t.Helper()
	err := s.Begin()
	rows, rowsErr := s.WriteRows(0, w.shards[0])
	dense, denseErr := s.WriteDense(w.weights, w.state)
	if err := errors.Join(err, rowsErr, denseErr); err != nil {
		t.Fatal(err)
	}
	return []Part{rows, dense}
}

// A leftover loses its name before its files are removed, so that a process that writes there cannot publish the rest.
func TestLeftoversLoseTheirNames(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, tmpName(stepName(2), lineage.ID{}, "1"))
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	busy(t, left)
	for range 2 { // it is not renamed once more
		if err := removeLeftovers(dir, lineage.ID{}, false); !errors.Is(err, unix.EBUSY) {
			t.Errorf("a leftover in use: %v", err)
		}
		if want := []string{filepath.Base(left) + "-" + removed}; !slices.Equal(names(t, dir), want) {
			t.Errorf("folder holds %v, want %v", names(t, dir), want)
		}
	}
}
