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

// On a file system that cannot exchange names, a checkpoint is complete at any time while it is replaced.
func TestReplaceWithoutExchange(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 2)
	defer w.close()
	dir, run := t.TempDir(), runOf("run", "1")
	want := []string{stepName(2), nameOf(2, run.Lineage)}
	stop := false
	exchangeNames = func(tmp, final string) error {
		if stop && filepath.Base(final) == want[1] { // as if the process ended after the first of two renames
			if err := os.Rename(tmp, tmp+"-stopped"); err != nil {
				t.Error(err)
			}
		}
		return unix.ENOSYS
	}
	defer func() { exchangeNames = exchange }()
	for n := range 3 { // the third replaces the second
		s := &Save{Dir: dir, Step: 2, Run: run}
		if err := errors.Join(w.saveRows(s, change(rnd, w, 1)), s.NotRemoved()); err != nil {
			t.Fatal(err)
		}
		all := want[:min(n+1, 2)]
		if got := names(t, dir); !slices.Equal(got, all) || filepath.Base(s.Path()) != all[len(all)-1] {
			t.Errorf("save %d is %s, and the folder holds %v", n, s.Path(), got)
		}
		c, _, err := Find(env.Real(), dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		if sum, bad := c.Verify(); len(bad) > 0 || sum != w.digest() {
			t.Errorf("save %d: digest %v, want %v; %v", n, sum, w.digest(), bad)
		}
	}
	if _, err := Open(env.Real(), filepath.Join(dir, stepName(2))); err != nil {
		t.Error(err)
	}
	stop = true
	if err := w.save(Save{Dir: dir, Step: 2, Run: run}); err == nil {
		t.Error("a save that was stopped has no error")
	}
	if err := removeLeftovers(dir, run.Lineage, true); err != nil {
		t.Error(err)
	}
	c, problems, err := Find(env.Real(), dir, 0)
	if err != nil || len(problems) > 0 || c == nil || c.Step != 2 {
		t.Errorf("after a crash: %+v, %v, %v", c, problems, err)
	}
}

// No increment is published if a parent is gone, or is another checkpoint.
func TestParentsAreThere(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 2)
	defer w.close()
	for _, how := range []string{"missing", "other", "damaged"} {
		dir, run := t.TempDir(), runOf("run", "1")
		chain(t, rnd, w, 1, dir, t.TempDir())
		c, err := Open(env.Real(), filepath.Join(dir, stepName(20)))
		if err != nil {
			t.Fatal(err)
		}
		parent := c.AsParent(dir, 2)
		if err := parent.Check(env.Real(), dir); err != nil {
			t.Fatal(err)
		}
		first := filepath.Join(dir, stepName(10))
		switch how {
		case "missing":
			err = os.RemoveAll(first)
		case "other":
			w.fill(rnd, 0.5)
			err = errors.Join(os.RemoveAll(first), w.save(Save{Dir: dir, Step: 10, Run: run}))
		case "damaged":
			err = os.Truncate(filepath.Join(first, manifestFile), 9)
		}
		if err != nil {
			t.Fatal(err)
		}
		checked := parent.Check(env.Real(), dir)
		saved := w.saveRows(&Save{Dir: dir, Step: 30, Run: run, Parent: parent}, change(rnd, w, 0.2))
		for what, err := range map[string]error{"Check": checked, "Commit": saved} {
			if err == nil || !strings.Contains(err.Error(), first) {
				t.Errorf("%s, a parent is %s: %v", what, how, err)
			}
		}
		if got := Newest(dir); got != stepName(20) {
			t.Errorf("a parent is %s: the newest is %s", how, got)
		}
	}
}

// Nothing that a checkpoint with a damaged manifest may need is removed, and no checkpoint that the disk cannot read is replaced.
func TestUnreadableManifests(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 2)
	defer w.close()
	dir, run := t.TempDir(), runOf("run", "1")
	chain(t, rnd, w, 1, dir, t.TempDir())
	path := filepath.Join(dir, stepName(20), manifestFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[rnd.IntN(len(b))] ^= 1
	if err := errors.Join(os.WriteFile(path, b, 0o644), w.save(Save{Dir: dir, Step: 30, Run: run, Keep: 1})); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(env.Real(), filepath.Join(dir, stepName(10))); err != nil {
		t.Errorf("step 20 cannot be read, and step 10 is gone: %v", err)
	}
	path = filepath.Join(dir, stepName(30), manifestFile)
	if err := errors.Join(os.Remove(path), os.Symlink(manifestFile, path)); err != nil { // a link to itself: ELOOP
		t.Fatal(err)
	}
	if err := w.save(Save{Dir: dir, Step: 30, Run: run, Keep: 1}); err != nil {
		t.Fatal(err)
	}
	if want := []string{stepName(10), stepName(20), stepName(30), nameOf(30, run.Lineage)}; !slices.Equal(names(t, dir), want) {
		t.Errorf("folder holds %v, want %v", names(t, dir), want)
	}
}
