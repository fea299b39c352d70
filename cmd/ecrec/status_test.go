package main

import (
	"encoding/json"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestStatusOfAJob reads the status of a running job, after a loss, and after all processes were
// killed.
func TestStatusOfAJob(t *testing.T) {
	dir, program := t.TempDir(), ecrec(t)
	write(t, filepath.Join(dir, "run.toml"), siteConfig)
	job, _, errs := start(program, nil, "train", filepath.Join(dir, "run.toml"), "--np", "4", "--chaos", "kill:0@50",
		"--set", "train.iterations=10000000")
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = job.Process.Kill()
			_ = job.Wait() // it was killed
		}
	}()
	out := filepath.Join(dir, "runs/run")
	type status struct {
		State      string
		Step       int64
		Steps      int64
		Recoveries int
		Losses     []struct{ Process *int }
		EtaS       float64 `json:"eta_s"`
	}
	ask := func() (s status) {
		if r := run(t, program, nil, "status", "--json", out); r.code == 0 {
			if err := json.Unmarshal([]byte(r.stdout), &s); err != nil {
				t.Fatal(err, r.stdout)
			}
		}
		return s
	}
	until := func(what string, is func(s status) bool) {
		t.Helper()
		var s status
		for begin := time.Now(); time.Since(begin) < 60*time.Second; time.Sleep(100 * time.Millisecond) {
			if s = ask(); is(s) {
				return
			}
		}
		t.Fatalf("the job is not %s: %+v\n%s", what, s, errs)
	}
	until("running after a recovery", func(s status) bool {
		return s.State == "running" && s.Step > 100 && s.Steps == 10000000 && s.EtaS > 0 && s.Recoveries == 1 &&
			len(s.Losses) == 1 && *s.Losses[0].Process == 0
	})
	_ = job.Process.Signal(syscall.SIGKILL)
	_ = job.Wait() // it was killed
	ended = true
	until("interrupted", func(s status) bool { return s.State == "interrupted" })
}
