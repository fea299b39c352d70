package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

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
