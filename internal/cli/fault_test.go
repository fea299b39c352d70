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
