package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// within fails the test when f takes longer than a person would wait.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it hangs")
	}
}

// A device was read without an end, and a pipe without a writer waited for ever.
func TestWhatIsNoConfigFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large.bin")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxFileBytes+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/dev/zero": "/dev/zero: is neither a file nor a pipe",
		pipe:        "the pipe is empty",
		large:       "too many for a config; is this a data file?",
	} {
		within(t, func() {
			_, err := Load(path, nil)
			expect(t, err, want)
		})
	}
}

// A pipe with a writer, as a shell's <(...), is a config whose paths begin at the working directory.
func TestConfigThroughAPipe(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	through := func(name, doc string, load func(path string)) {
		path := filepath.Join(dir, name)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := os.OpenFile(path, os.O_RDWR, 0) // does not wait for a reader
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString(doc); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(100*time.Millisecond, func() { w.Close() }) // the reader waits for the end
		within(t, func() { load(path) })
	}
	doc := strings.Replace(base, `name = "t"`, "", 1)
	through("one", doc, func(path string) {
		c, err := Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(dir, "train.bin"); c.Data.Train[0] != want || c.Job.Name != "run" {
			t.Errorf("train %s, name %s; want %s and run", c.Data.Train[0], c.Job.Name, want)
		}
		if given, err := Gives(path, nil, "job.ranks"); !given || err != nil {
			t.Errorf("a second look at what came through the pipe: %v, %v", given, err)
		}
	})
	through("two", doc, func(path string) {
		_, err := LoadFor(2, path, nil)
		expect(t, err, "is a pipe, which one process can read")
	})
}
