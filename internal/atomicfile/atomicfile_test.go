package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func onlyFile(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("folder holds %v, want %s alone", entries, name)
	}
}

func TestOldContentRemainsUntilCommit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := WriteFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("new"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); got != "old" {
		t.Errorf("before Commit: %q", got)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	if got := read(t, path); got != "new" {
		t.Errorf("after Commit: %q", got)
	}
	if f.Commit() == nil {
		t.Error("a second Commit gave no error")
	}
	onlyFile(t, dir, "a")
}

func TestAbortLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := WriteFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Abort()
	onlyFile(t, dir, "a")
	if got := read(t, path); got != "old" {
		t.Errorf("after Abort: %q", got)
	}
}

// RemoveLeftovers removes the files of a process that died while writing, and no others.
func TestRemoveLeftovers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.b")
	if err := WriteFile(path, nil); err != nil {
		t.Fatal(err)
	}
	var left []string
	for range 2 {
		f, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, f.Name())
		f.Close()
	}
	others := []string{".a.b.tmp-", ".a.b.tmp-1x", ".ab.tmp-1", ".c.tmp-1", "a.b.tmp-1", ".a.b.tmp-1.b"}
	for _, name := range others {
		if err := WriteFile(filepath.Join(dir, name), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".a.b.tmp-2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := RemoveLeftovers(path); err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s stays: %v", name, err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != len(others)+2 {
		t.Errorf("left: %v", entries)
	}
	if err := RemoveLeftovers(filepath.Join(dir, "none", "a")); !os.IsNotExist(err) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "no", "a"), nil); !os.IsNotExist(err) {
		t.Errorf("a missing folder gave %v", err)
	}
	// The name is taken by a folder: the rename fails and the temporary file is removed.
	if err := os.MkdirAll(filepath.Join(dir, "d", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "d"), nil); err == nil {
		t.Error("a folder in the way gave no error")
	}
	onlyFile(t, dir, "d")
}
