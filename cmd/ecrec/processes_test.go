package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/heartbeat"
)

// The number of processes and the transport between them change no bit.
func TestOneDigestForProcesses(t *testing.T) {
	program := ecrec(t)
	out := filepath.Join(t.TempDir(), "out")
	job := func(np int, sets ...string) ended {
		args := train(golden("dlrm-adagrad"), out, append(sets, "job.ranks=4", "train.iterations=10")...)
		return run(t, program, nil, append(args, "--overwrite", "--np", strconv.Itoa(np))...)
	}
	if r := job(1); r.code != 0 {
		t.Fatal(r.stderr)
	}
	want := readSummary(t, out)
	for _, np := range []int{2, 3, 4} {
		for _, transport := range []string{"auto", "tcp"} {
			what := fmt.Sprintf("%d processes, %s", np, transport)
			r := job(np, "collectives.transport="+transport)
			if r.code != 0 || r.stderr != "" || strings.Count(r.stdout, "digest ") != 1 {
				t.Fatalf("%s: exit code %d, stdout %q, stderr %q", what, r.code, r.stdout, r.stderr)
			}
			equal(t, what, readSummary(t, out), want)
			for p := range np {
				if !exists(filepath.Join(out, fmt.Sprintf("process-%d.log", p))) {
					t.Errorf("%s: process %d has no log", what, p)
				}
			}
		}
	}
	// The number of ranks defaults to that of processes.
	r := run(t, program, nil, append(train(golden("dlrm-adagrad"), out, "train.iterations=2"), "--overwrite", "--np", "2")...)
	if r.code != 0 || !strings.Contains(r.stdout, " 2 ranks") || !strings.Contains(r.stdout, "2 processes") {
		t.Errorf("%+v", r)
	}
}

// endless is a job of several processes, with settings, that only a signal ends.
func endless(t *testing.T, np int, sets ...string) (out string, x *runningJob) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "out")
	mark := "ECREC_TEST_MARK=" + out
	cmd, stdout, stderr := start(ecrec(t), []string{mark}, append(train(golden("dlrm-adagrad"), out, append(sets, "job.ranks=4",
		"train.iterations=100000000", "train.log_every=1")...), "--np", strconv.Itoa(np))...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x = &runningJob{mark: mark, pid: cmd.Process.Pid, wait: func() ended {
		code := exitCode(t, cmd.Wait())
		return ended{code, stdout.String(), stderr.String()}
	}}
	t.Cleanup(func() {
		for _, p := range x.processes() {
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
	})
	untilSteps(t, out, 4)
	return out, x
}

// untilSteps waits for a number of lines of metrics.
func untilSteps(t *testing.T, out string, steps int) {
	t.Helper()
	until(t, fmt.Sprintf("%d steps", steps), func() bool {
		lines, _ := os.ReadFile(filepath.Join(out, "metrics.jsonl"))
		return strings.Count(string(lines), `"loss":`) >= steps
	})
}

type runningJob struct {
	mark string
	pid  int // the launcher's
	wait func() ended
}

type process struct{ pid, parent int }

// processes returns all processes of the job.
func (x *runningJob) processes() (all []process) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		if !strings.Contains("\x00"+string(text), "\x00"+x.mark+"\x00") {
			continue
		}
		var p process
		stat, _ := os.ReadFile(filepath.Dir(path) + "/stat")
		if i := strings.LastIndexByte(string(stat), ')'); i > 0 {
			var state string
			if _, err := fmt.Sscan(string(stat[i+1:]), &state, &p.parent); err != nil {
				continue
			}
		}
		p.pid, _ = strconv.Atoi(strings.Split(path, "/")[2])
		all = append(all, p)
	}
	return all
}

// supervisor and worker return the processes of the first place.
func (x *runningJob) supervisor() process {
	for _, p := range x.processes() {
		if p.parent == x.pid {
			return p
		}
	}
	return process{}
}

func (x *runningJob) worker() process {
	s := x.supervisor()
	for _, p := range x.processes() {
		if p.parent == s.pid {
			return p
		}
	}
	return process{}
}

// nothingLeft checks that all processes end.
func (x *runningJob) nothingLeft(t *testing.T) {
	t.Helper()
	until(t, "the last process to go", func() bool { return len(x.processes()) == 0 })
}

// After a signal the output is that of a complete run of fewer steps, as in one process.
func TestSignalToManyProcesses(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		out, x := endless(t, 3)
		if err := syscall.Kill(x.pid, signal); err != nil {
			t.Fatal(err)
		}
		got := x.wait()
		checkRefused(t, got, code, "stopped by a signal; the model is saved; without checkpoint.dir or store.path the run cannot be resumed")
		x.nothingLeft(t)
		s := readSummary(t, out)
		if !s.Stopped || s.Steps < 4 {
			t.Fatalf("%+v", s)
		}
		whole := filepath.Join(t.TempDir(), "whole")
		if r := run(t, ecrec(t), nil, train(golden("dlrm-adagrad"), whole, "job.ranks=4",
			fmt.Sprintf("train.iterations=%d", s.Steps))...); r.code != 0 {
			t.Fatal(r.stderr)
		}
		equal(t, fmt.Sprintf("%v after %d steps", signal, s.Steps), s, readSummary(t, whole))
	}
}

// The loss of any process soon ends the job, with one message and nothing left.
func TestLostProcesses(t *testing.T) {
	t.Parallel() // a stopped worker is noticed after heartbeat.Patience
	for _, c := range []struct {
		name   string
		whom   func(x *runningJob) int
		signal syscall.Signal
		code   int
		says   string
	}{
		{"a worker killed", func(x *runningJob) int { return x.worker().pid }, syscall.SIGKILL, 1, "was ended by signal 9"},
		{"a worker stopped", func(x *runningJob) int { return x.worker().pid }, syscall.SIGSTOP, 1, "stopped answering and was killed"},
		{"a worker crashed", func(x *runningJob) int { return x.worker().pid }, syscall.SIGQUIT, 1, "crashed: SIGQUIT: quit"},
		{"a supervisor killed", func(x *runningJob) int { return x.supervisor().pid }, syscall.SIGKILL, 1, "is lost: its supervisor"},
		{"the launcher killed", func(x *runningJob) int { return x.pid }, syscall.SIGKILL, -1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, x := endless(t, 2)
			pid := c.whom(x)
			if pid == 0 {
				t.Fatal("not found")
			}
			begin := time.Now()
			if err := syscall.Kill(pid, c.signal); err != nil {
				t.Fatal(err)
			}
			got := x.wait()
			if got.code != c.code || c.says != "" && strings.Count(got.stderr, "ecrec: ") != 1 || !strings.Contains(got.stderr, c.says) {
				t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
			}
			x.nothingLeft(t)
			limit := 2 * time.Minute         // 6 s on an idle machine, 25 with 4 other processes for each core
			if c.signal == syscall.SIGSTOP { // only its silence shows
				limit += max(heartbeat.Patience, silenceLimit(t, out))
			}
			if took := time.Since(begin); took > limit {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// silenceLimit returns the limit that a rank reports in its log when it declares a silent peer lost. On a
// busy machine it is longer than heartbeat.Patience.
func silenceLimit(t *testing.T, out string) (limit time.Duration) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(out, "process-*.log"))
	for _, path := range paths {
		log, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, after, found := strings.Cut(string(log), "(limit "); found {
			text, _, _ := strings.Cut(after, ")")
			if limit, err = time.ParseDuration(text); err != nil {
				t.Error(err)
			}
		}
	}
	return limit
}

// Bad input is refused as in one process: one line, exit code 2, nothing written.
func TestBadInputForManyProcesses(t *testing.T) {
	for _, c := range []struct {
		name string
		vars []string
		sets []string
		np   string
		says []string
	}{
		{name: "config", sets: []string{"job.rank=2"}, np: "2", says: []string{"--set job.rank=2", "job.ranks"}},
		{name: "data", sets: []string{`data.train=["none.csv"]`}, np: "2", says: []string{"none.csv: "}},
		{name: "model", sets: []string{"model.init_from=none.safetensors"}, np: "2", says: []string{"none.safetensors"}},
		{name: "few ranks", sets: []string{"job.ranks=2"}, np: "3",
			says: []string{"--set job.ranks=2: job.ranks: 2 ranks cannot be spread over 3 processes"}},
		{name: "transport", sets: []string{"collectives.transport=mem"}, np: "2", says: []string{"collectives.transport", "mem"}},
		{name: "environment", vars: []string{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4"}, np: "2",
			says: []string{"--np 2 disagrees", "OMPI_COMM_WORLD_SIZE=4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := job(t, small, nil)
			before, out := tree(t, filepath.Dir(path)), filepath.Join(filepath.Dir(path), "out")
			got := run(t, ecrec(t), c.vars, append(train(path, out, c.sets...), "--np", c.np)...)
			checkRefused(t, got, 2, c.says...)
			for name := range tree(t, filepath.Dir(path)) {
				if !before[name] && (!strings.HasPrefix(name, out) || strings.Contains(name, "process-") || strings.Contains(name, "config.toml")) {
					t.Errorf("%s was left behind", name)
				}
			}
		})
	}
}

// A run that fails while it trains prints the reason once. Its summary has it too.
func TestDivergedRunOfManyProcesses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	got := run(t, ecrec(t), nil, append(train(golden("dlrm-sgd"), out, "job.ranks=2", "optimizer.dense.lr=3e38"), "--np", "2")...)
	checkRefused(t, got, 1, "step ", "largest dense gradient: ", "optimizer.dense.lr")
	if s := readSummary(t, out); s.Error == "" || s.Digest != "" {
		t.Errorf("summary %+v", s)
	}
}
