package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// broken is a Writer that panics.
type broken struct{}

func (broken) Write([]byte) (int, error) { panic("a bug") }

// A bug is not mistaken for a success.
func TestPanicIsNotSwallowed(t *testing.T) {
	defer func() {
		if p := recover(); p != "a bug" {
			t.Errorf("recovered %v", p)
		}
	}()
	code := Main([]string{"bench", "list"}, broken{}, &bytes.Buffer{})
	t.Errorf("exit code %d", code)
}

// onFirstStep calls do at the first line about a step.
type onFirstStep struct {
	bytes.Buffer
	do func()
}

func (w *onFirstStep) Write(p []byte) (int, error) {
	if w.do != nil && bytes.Contains(p, []byte(" step ")) {
		w.do()
		w.do = nil
	}
	return w.Buffer.Write(p)
}

// A run whose data become unreadable while it trains fails with exit code 1. Code 2 would mean
// that nothing was written.
func TestDataLostUnderARun(t *testing.T) {
	dir := t.TempDir()
	config, file := filepath.Join(dir, "run.toml"), filepath.Join(dir, "train.bin")
	text := strings.Replace(endless, `format = "synthetic"`, "format = \"criteo-bin\"\ntrain = [\"train.bin\"]", 1)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, make([]byte, 160*1000), 0o644); err != nil {
		t.Fatal(err)
	}
	out, errs := &onFirstStep{do: func() { _ = os.Truncate(file, 160) }}, &bytes.Buffer{}
	code := Main([]string{"train", config, "--set", "job.ranks=2"}, out, errs)
	if code != 1 || !strings.Contains(errs.String(), "train.bin: it became shorter") {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs", "run", "summary.json")); err != nil {
		t.Error(err)
	}
}
