package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// broken panics when it is written to.
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

// A full disk under metrics.jsonl ends the run: exit 1, one line that says so, and
// a summary.
func TestFullDiskUnderMetrics(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full")
	}
	dir := t.TempDir()
	config, out := filepath.Join(dir, "run.toml"), filepath.Join(dir, "runs", "run")
	if err := os.WriteFile(config, []byte(endless), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", filepath.Join(out, "metrics.jsonl")); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := Main([]string{"train", config, "--set", "job.ranks=4"}, &stdout, &stderr)
	if code != 1 || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), "cannot write metrics.jsonl") {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
	text, err := os.ReadFile(filepath.Join(out, "summary.json"))
	if err != nil || !strings.Contains(string(text), `"error": "`) {
		t.Errorf("%v, summary %.200s", err, text)
	}
}

// onFirstStep calls do when the output first tells of a step.
type onFirstStep struct {
	bytes.Buffer
	do func()
}

func (w *onFirstStep) Write(p []byte) (int, error) {
	if w.do != nil && bytes.HasPrefix(p, []byte("step ")) {
		w.do()
		w.do = nil
	}
	return w.Buffer.Write(p)
}

// Data that goes bad under a run fails it with exit code 1: code 2 says that
// nothing was written.
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
