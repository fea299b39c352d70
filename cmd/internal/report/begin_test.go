package report

import (
	"os"
	"path/filepath"
	"testing"
)

// A process that continues the run of another one does not write its config again, which would wait for the disk.
func TestConfigIsWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	file := func() os.FileInfo {
		info, err := os.Stat(filepath.Join(dir, "config.toml"))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	b := beginning("a", 0)
	b.Job = "first"
	begun(t, dir, b).Close()
	first := file()
	b.Replaces = true
	begun(t, dir, b).Close()
	if !os.SameFile(first, file()) {
		t.Error("a process of the same job wrote the config again")
	}
	b.Job = "second"
	begun(t, dir, b).Close()
	if os.SameFile(first, file()) {
		t.Error("another job did not write its config")
	}
}
