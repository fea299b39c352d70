package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// resumed resumes a job, on a number of processes and for some more steps, and checks that the
// result is that of an uninterrupted run.
func (x *runningJob) resumed(t *testing.T, out, home string, np int, done int64) {
	t.Helper()
	steps := fmt.Sprintf("train.iterations=%d", done+30)
	args := append(train(golden("dlrm-adagrad"), out, "checkpoint.dir="+home, "job.ranks=4", steps), "--resume", "auto",
		"--np", strconv.Itoa(np))
	if r := run(t, ecrec(t), []string{x.mark}, args...); r.code != 0 || r.stderr != "" {
		t.Fatalf("resumed after %d steps: %+v", done, r)
	}
	x.nothingLeft(t)
	whole := filepath.Join(t.TempDir(), "whole")
	if r := run(t, ecrec(t), nil, train(golden("dlrm-adagrad"), whole, "job.ranks=4", steps)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	equal(t, fmt.Sprintf("resumed after %d steps on %d processes", done, np), readSummary(t, out), readSummary(t, whole))
	for _, dir := range []string{out, home} {
		if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp-*")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// namesNothing checks that the job has nothing in /dev/shm, which its end could leave behind.
func (x *runningJob) namesNothing(t *testing.T) {
	t.Helper()
	looked := 0
	for _, p := range x.processes() {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.pid))
		if err != nil {
			continue
		}
		looked++
		if strings.Contains(string(maps), "/dev/shm/") {
			t.Errorf("process %d has files of /dev/shm", p.pid)
		}
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); strings.HasPrefix(to, "/dev/shm/") {
				t.Errorf("process %d has %s", p.pid, to)
			}
		}
	}
	if looked < 3 { // the launcher, a supervisor, a worker
		t.Errorf("looked at %d processes only", looked)
	}
}

// A job that SIGTERM stops at any step resumes with another number of processes.
func TestStoppedJobGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, np := range [][2]int{{2, 4}, {4, 2}} {
		home := t.TempDir()
		out, x := endless(t, np[0], "checkpoint.dir="+home)
		x.namesNothing(t)
		untilSteps(t, out, 4+random.IntN(100))
		if err := syscall.Kill(x.pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		checkRefused(t, x.wait(), 143, "progress is saved; continue with --resume auto")
		x.nothingLeft(t)
		x.resumed(t, out, home, np[1], int64(readSummary(t, out).Steps))
	}
}

// newestCheckpoint returns the step of the newest checkpoint of a folder, or 0.
func newestCheckpoint(home string) (step int64) {
	all, _ := filepath.Glob(filepath.Join(home, "step-*"))
	for _, path := range all {
		if n, err := strconv.ParseInt(strings.TrimPrefix(filepath.Base(path), "step-"), 10, 64); err == nil {
			step = max(step, n)
		}
	}
	return step
}

// A job whose processes are all killed at once resumes from its newest checkpoint, and cleans up.
func TestKilledJobGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	home := t.TempDir()
	out, x := endless(t, 2, "checkpoint.dir="+home, "checkpoint.every=5")
	until(t, "a checkpoint", func() bool { return newestCheckpoint(home) > 0 })
	until(t, "all to be killed", func() bool {
		all := x.processes()
		for _, p := range all {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		return len(all) == 0
	})
	x.wait()
	// As if it was killed while it wrote its model.
	write(t, filepath.Join(out, "..model.safetensors.new.tmp-123"), "half")
	x.resumed(t, out, home, 1, newestCheckpoint(home))
}

// A second run cannot save to a folder of checkpoints in use, even if its output folder is another
// one.
func TestTwoRunsInOneCheckpointDir(t *testing.T) {
	home := filepath.Join(t.TempDir(), "checkpoints")
	_, x := endless(t, 2, "checkpoint.dir="+home)
	for _, np := range []int{1, 2} {
		other := filepath.Join(t.TempDir(), "other")
		got := run(t, ecrec(t), nil, append(train(golden("dlrm-adagrad"), other, "checkpoint.dir="+home, "train.iterations=1"),
			"--np", strconv.Itoa(np))...)
		checkRefused(t, got, 2, home+": another run is saving checkpoints to this folder")
		if _, err := os.Stat(other); err == nil {
			t.Error("the second run has written its output folder")
		}
	}
	if err := syscall.Kill(x.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	checkRefused(t, x.wait(), 143, "progress is saved")
}

// A second run cannot write to an output folder in use. It reports that and does no harm.
func TestTwoRunsInOneFolder(t *testing.T) {
	for _, np := range []int{1, 2} {
		out, x := endless(t, np)
		for _, other := range []int{1, 2} {
			got := run(t, ecrec(t), nil, append(train(golden("dlrm-adagrad"), out, "train.iterations=1"), "--np", strconv.Itoa(other))...)
			checkRefused(t, got, 2, out+": another run is writing to this folder")
		}
		lines, _ := os.ReadFile(filepath.Join(out, "metrics.jsonl"))
		untilSteps(t, out, strings.Count(string(lines), `"loss":`)+3)
		if err := syscall.Kill(x.pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		checkRefused(t, x.wait(), 143, "the model is saved; without checkpoint.dir or store.path the run cannot be resumed")
		if s := readSummary(t, out); !s.Stopped {
			t.Errorf("%+v", s)
		}
	}
}
