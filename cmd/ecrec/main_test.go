// The tests of this package run the program as a user does: as a process, judged by its exit code,
// messages and files. Lower packages test its results.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// builds is the folder of the tests' programs, for the duration of the tests.
var builds string

func TestMain(m *testing.M) {
	var err error
	if builds, err = os.MkdirTemp("", "ecrec-builds"); err != nil {
		panic(err)
	}
	code := m.Run()
	stopCluster()
	os.RemoveAll(builds)
	os.Exit(code)
}

// build builds the program of a package, with these variables and flags, and returns its path.
func build(t *testing.T, name, pkg string, vars []string, flags ...string) string {
	t.Helper()
	path := filepath.Join(builds, name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), pkg)...)
	cmd.Env = append(os.Environ(), vars...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return path
}

var buildOnce sync.Mutex

// ecrec returns the program of the default build.
func ecrec(t *testing.T) string {
	t.Helper()
	buildOnce.Lock()
	defer buildOnce.Unlock()
	if path := filepath.Join(builds, "default"); exists(path) {
		return path
	}
	return build(t, "default", ".", nil)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ended is the result of a process.
type ended struct {
	code           int
	stdout, stderr string
}

// start prepares a program, with variables in addition to those of the tests.
func start(program string, vars []string, args ...string) (*exec.Cmd, *strings.Builder, *strings.Builder) {
	var out, errs strings.Builder
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), vars...)
	return cmd, &out, &errs
}

// run runs a program to its end.
func run(t *testing.T, program string, vars []string, args ...string) ended {
	t.Helper()
	cmd, out, errs := start(program, vars, args...)
	return ended{exitCode(t, cmd.Run()), out.String(), errs.String()}
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit == nil {
		return 0
	}
	return exit.ExitCode()
}

// train returns the command line of a run with settings.
func train(config, out string, sets ...string) []string {
	args := []string{"train", config, "--set", "job.out=" + out}
	for _, s := range sets {
		args = append(args, "--set", s)
	}
	return args
}

// summary is the part of summary.json that tests read. Values that must be equal bit for bit are
// kept as text.
type summary struct {
	Digest    string
	Steps     int
	Stopped   bool
	Skipped   int
	Error     string
	TrainLoss []json.Number `json:"train_loss"`
	Eval      json.RawMessage
	// Recoveries lists the losses.
	Recoveries []struct {
		Ranks        []int
		StepsRedone  int     `json:"steps_redone"`
		ResumeMS     float64 `json:"resume_ms"`
		WholeMS      float64 `json:"whole_ms"`
		RebuildSteps int64   `json:"rebuild_steps"`
		RebuildRate  float64 `json:"rebuild_bytes_per_s"`
	}
}

func readSummary(t *testing.T, out string) summary {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s summary
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if len(s.Eval) > 0 {
		var eval bytes.Buffer
		if err := json.Compact(&eval, s.Eval); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		s.Eval = eval.Bytes()
	}
	return s
}

// equal reports a difference between two runs that must be the same.
func equal(t *testing.T, what string, got, want summary) {
	t.Helper()
	if want.Digest == "" || len(want.TrainLoss) == 0 {
		t.Fatalf("nothing to compare with: %+v", want)
	}
	if got.Digest != want.Digest {
		t.Errorf("%s: digest %q, want %q", what, got.Digest, want.Digest)
	}
	if got.Steps != want.Steps || len(got.TrainLoss) != len(want.TrainLoss) {
		t.Fatalf("%s: %d steps with %d losses, want %d with %d", what, got.Steps, len(got.TrainLoss), want.Steps, len(want.TrainLoss))
	}
	for i, l := range want.TrainLoss {
		if got.TrainLoss[i] != l {
			t.Errorf("%s: step %d: loss %s, want %s", what, i+1, got.TrainLoss[i], l)
		}
	}
	if string(got.Eval) != string(want.Eval) {
		t.Errorf("%s: evaluation %s, want %s", what, got.Eval, want.Eval)
	}
}

// golden is a small run config of the repository.
func golden(kind string) string {
	return filepath.Join("..", "..", "train", "testdata", "golden", kind, "config.toml")
}
