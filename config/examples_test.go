package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var trainSamples = regexp.MustCompile(`train\.csv +\(([0-9,]+) samples\)`)

// TestExamples loads the run configs of examples. Those of the benchmark evaluate once an epoch.
func TestExamples(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"*.toml", "*/*.toml"} {
		found, err := filepath.Glob(filepath.Join("..", "examples", pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	recipes := 0
	for _, path := range paths {
		c, err := Load(path, nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if name := strings.TrimSuffix(filepath.Base(path), ".toml"); c.Job.Name != name {
			t.Errorf("%s: job.name is %q", path, c.Job.Name)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m := trainSamples.FindSubmatch(text)
		if m == nil {
			continue
		}
		recipes++
		if c.Train.ClipNorm != 10 { // FuxiCTR's default
			t.Errorf("%s: train.clip_norm is %v, the benchmark's limit is 10", path, c.Train.ClipNorm)
		}
		samples, err := strconv.Atoi(strings.ReplaceAll(string(m[1]), ",", ""))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if steps := (samples + c.Train.GlobalBatch - 1) / c.Train.GlobalBatch; c.Train.EvalEvery != steps {
			t.Errorf("%s: train.eval_every is %d; an epoch of %d samples has %d steps", path, c.Train.EvalEvery, samples, steps)
		}
	}
	if recipes < 11 {
		t.Errorf("%d recipes in %d files, want 11 or more", recipes, len(paths))
	}
}
