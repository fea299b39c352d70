package data

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/env"
)

func TestIdentity(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	identity := func(files ...string) Identity {
		id, err := Identify(env.Real(), files)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 3*identityBytes/16)
	first, last, middle := bytes.Clone(large), bytes.Clone(large), bytes.Clone(large)
	first[0], last[len(last)-1], middle[len(middle)/2] = 'x', 'x', 'x'
	a, b := file("a", large), file("b", []byte("short"))
	if !reflect.DeepEqual(identity(a, b), identity(file("moved", large), b)) {
		t.Error("a file that moves is another one")
	}
	if !reflect.DeepEqual(identity(a), identity(file("middle", middle))) {
		t.Error("more than the ends of a large file is read")
	}
	for what, other := range map[string]Identity{
		"order": identity(b, a), "number": identity(a), "head": identity(file("first", first), b), "tail": identity(file("last", last), b),
		"length": identity(file("longer", append(bytes.Clone(large), '0')), b), "short": identity(a, file("shirt", []byte("shirt"))),
	} {
		if reflect.DeepEqual(identity(a, b), other) {
			t.Errorf("another %s is the same data", what)
		}
	}
	id := identity(b)
	id.Samples = 7
	if got := id.String(); got != "7 samples: 5 bytes "+id.Files[0].XXH3 {
		t.Errorf("%q", got)
	}
}

// A FIFO, a device or a folder is refused at once.
func TestIdentityOfWhatIsNoFile(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, path := range []string{fifo, "/dev/zero", t.TempDir(), fifo + "-none"} {
			if _, err := Identify(env.Real(), []string{path}); !errors.Is(err, ErrInput) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a FIFO is waited for")
	}
}
