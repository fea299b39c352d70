package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// open opens a file for a lock of its own.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestLocksExcludeEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	for _, c := range []struct {
		first, second Mode
		want          error
	}{{Exclusive, Exclusive, ErrHeld}, {Exclusive, Shared, ErrHeld}, {Shared, Exclusive, ErrHeld}, {Shared, Shared, nil}} {
		if err := Try(first, c.first); err != nil {
			t.Fatal(err)
		}
		if err := Try(second, c.second); !errors.Is(err, c.want) {
			t.Errorf("mode %d while another file has mode %d: %v, want %v", c.second, c.first, err, c.want)
		}
	}
}

func TestCloseReleases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := open(t, path)
	if err := Try(first, Exclusive); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Try(open(t, path), Exclusive); err != nil {
		t.Errorf("after the file is closed: %v", err)
	}
	if err := Try(first, Exclusive); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("a closed file: %v", err)
	}
}
