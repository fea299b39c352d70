package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The loss in metrics.jsonl is the mean of the steps since the line before.
func TestMetricsHaveMeanLosses(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "run.toml")
	if err := os.WriteFile(config, []byte(endless), 0o644); err != nil {
		t.Fatal(err)
	}
	out, errs := &bytes.Buffer{}, &bytes.Buffer{}
	if code := Main([]string{"train", config, "--set", "train.iterations=25", "--set", "train.log_every=10", "--set",
		"job.out=" + dir}, out, errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var sum struct {
		TrainLoss []float64 `json:"train_loss"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err == nil {
		err = json.Unmarshal(text, &sum)
	}
	if err != nil || len(sum.TrainLoss) != 25 {
		t.Fatal(err, len(sum.TrainLoss))
	}
	if text, err = os.ReadFile(filepath.Join(dir, "metrics.jsonl")); err != nil {
		t.Fatal(err)
	}
	var steps []int
	from := 0
	for line := range strings.Lines(string(text)) {
		var m struct {
			Step int
			Loss *float64
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m.Loss == nil {
			continue
		}
		want := 0.0
		for _, l := range sum.TrainLoss[from:m.Step] {
			want += l / float64(m.Step-from)
		}
		if math.Abs(*m.Loss-want) > 1e-12 {
			t.Errorf("step %d: loss %v, want the mean of steps %d to %d, %v", m.Step, *m.Loss, from+1, m.Step, want)
		}
		steps, from = append(steps, m.Step), m.Step
	}
	if len(steps) != 3 || from != 25 {
		t.Errorf("lines for steps %v", steps)
	}
}
