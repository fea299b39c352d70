package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestJobs(t *testing.T) {
	for _, c := range []struct {
		name string
		vars []string
		code int
		says []string
		one  bool // exactly one line on stderr
	}{
		{name: "two", vars: []string{"TEST_NP=2", "TEST_DO=done"}},
		{name: "four", vars: []string{"TEST_NP=4", "TEST_DO=done"}},
		{name: "at an address", vars: []string{"TEST_NP=2", "TEST_DO=done", "TEST_RDZV=127.0.0.1:" + freePort(t)}},
		{name: "an error", vars: []string{"TEST_NP=3", "TEST_DO=error:1"}, code: 1, one: true,
			says: []string{": process 1 (rank 1): the disk is full; and that is that"}},
		{name: "an error on process 0", vars: []string{"TEST_NP=3", "TEST_DO=error:0"}, code: 1, one: true,
			says: []string{": process 0 (ranks 0, 3): the disk is full"}},
		{name: "bad input", vars: []string{"TEST_NP=3", "TEST_DO=bad"}, code: 2, one: true, says: []string{"ecrec: data.csv:3: no number"}},
		{name: "a panic", vars: []string{"TEST_NP=2", "TEST_DO=panic:1"}, code: 1,
			says: []string{": process 1 (ranks 1, 3) crashed: panic: a bug; the end of ", "process-1.log:\n  | ", "goroutine"}},
		{name: "an exit without a word", vars: []string{"TEST_NP=2", "TEST_DO=exit:0"}, code: 1,
			says: []string{"process 0 (ranks 0, 2) ended with exit code 3 and gave no reason; the end of ", "| worker 0 has begun"}},
		{name: "more processes than ranks", vars: []string{"TEST_NP=5"}, code: 2, one: true,
			says: []string{"5 processes for 4 ranks", "job.ranks"}},
		{name: "disagreement", vars: []string{"TEST_NP=4", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2"}, code: 2,
			one: true, says: []string{"--np 4 disagrees", "OMPI_COMM_WORLD_SIZE=2"}},
		{name: "no secret", vars: []string{"RANK=1", "WORLD_SIZE=2", "TEST_RDZV=127.0.0.1:1"}, code: 2, one: true,
			says: []string{"ECREC_SECRET", "openssl"}},
		{name: "an address elsewhere", vars: []string{"TEST_NP=2", "TEST_RDZV=192.0.2.1:4000"}, code: 1, one: true,
			says: []string{"192.0.2.1:4000 is not on this machine"}},
		{name: "nobody else comes", vars: []string{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
			"MASTER_PORT=" + freePort(t), "TEST_MEET=300ms"}, code: 1, one: true,
			says: []string{"process 1 (ranks 1, 3) did not join within 300ms (1 of 2 did)"}},
		{name: "process 0 does not come", vars: []string{"RANK=1", "WORLD_SIZE=2", "TEST_RDZV=127.0.0.1:" + freePort(t),
			"TEST_MEET=300ms", "ECREC_SECRET=0123456789abcdef"}, code: 1, one: true,
			says: []string{"process 0 was not found there for 300ms", "connection refused", "--rdzv"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := begin(t, t.TempDir(), c.vars...)
			x.ends(c.code, c.says...)
			if text := x.err1.String(); c.one && strings.Count(text, "\n") != 1 {
				t.Errorf("stderr is not one line: %q", text)
			}
			if out := x.out1.String(); c.code == 0 && out != "worker 0 prints\n" {
				t.Errorf("stdout %q", out)
			}
		})
	}
}

// All workers see the same world.
func TestWorld(t *testing.T) {
	t.Parallel()
	x := begin(t, t.TempDir(), "TEST_NP=3")
	all := x.running(3)
	x.cmd.Process.Signal(syscall.SIGTERM)
	x.ends(143, "stopped by a signal")
	for p, s := range all {
		if len(s.Processes) != 3 || s.Generation != 1 || s.Secret != all[0].Secret || len(s.Left) > 0 || s.PGR != s.PID {
			t.Errorf("worker %d saw %+v", p, s)
		}
		for q, o := range s.Processes {
			if fmt.Sprint(o.Ranks) != [...]string{"[0 3]", "[1]", "[2]"}[q] || o.Host == "" || o.Host != s.Processes[0].Host ||
				!strings.HasPrefix(o.Addr, "127.0.0.1:") || o.Addr != all[0].Processes[q].Addr {
				t.Errorf("worker %d sees process %d as %+v", p, q, o)
			}
		}
	}
}

func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name   string
		whom   func(x *trial, all []seen) int
		signal syscall.Signal
		do     string
		times  int
		code   int
	}{
		{"SIGTERM at the launcher", func(x *trial, _ []seen) int { return x.cmd.Process.Pid }, syscall.SIGTERM, "loop", 1, 143},
		{"SIGINT at the launcher", func(x *trial, _ []seen) int { return x.cmd.Process.Pid }, syscall.SIGINT, "loop", 1, 130},
		{"SIGTERM at supervisor 0", func(_ *trial, all []seen) int { return all[0].PPID }, syscall.SIGTERM, "loop", 1, 143},
		{"SIGINT at supervisor 1", func(_ *trial, all []seen) int { return all[1].PPID }, syscall.SIGINT, "loop", 1, 130},
		{"two at the launcher", func(x *trial, _ []seen) int { return x.cmd.Process.Pid }, syscall.SIGINT, "deaf", 2, 130},
		{"two at supervisor 1", func(_ *trial, all []seen) int { return all[1].PPID }, syscall.SIGTERM, "deaf", 2, 143},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := begin(t, t.TempDir(), "TEST_NP=2", "TEST_DO="+c.do)
			all := x.running(2)
			whom := c.whom(x, all)
			if err := syscall.Kill(whom, c.signal); err != nil {
				t.Fatal(err)
			}
			if c.times > 1 {
				// The system merges two signals if the second arrives before the first is
				// handled, so a few more are sent.
				for again := 0; again < 20 && len(x.finished) == 0; again++ {
					time.Sleep(50 * time.Millisecond)
					_ = syscall.Kill(whom, c.signal)
				}
				x.ends(c.code)
				return
			}
			x.ends(c.code, "ecrec: stopped by a signal\n")
		})
	}
}

// A worker ignores signals, which its supervisor passes on.
func TestWorkerIgnoresSignals(t *testing.T) {
	t.Parallel()
	x := begin(t, t.TempDir(), "TEST_NP=2")
	all := x.running(2)
	for _, s := range all {
		syscall.Kill(s.PID, syscall.SIGINT)
		syscall.Kill(s.PID, syscall.SIGTERM)
	}
	time.Sleep(50 * time.Millisecond)
	if len(x.finished) > 0 {
		t.Fatal("the job has ended")
	}
	x.cmd.Process.Signal(syscall.SIGTERM)
	x.ends(143, "stopped by a signal")
}

func TestKills(t *testing.T) {
	for _, c := range []struct {
		name string
		whom func(x *trial, all []seen) int
		do   string
		code int
		says []string
	}{
		{"worker 0", func(_ *trial, all []seen) int { return all[0].PID }, "loop", 1,
			[]string{"process 0 (ranks 0, 2) was ended by signal 9", "process-0.log:\n  | worker 0 has begun"}},
		{"worker 1", func(_ *trial, all []seen) int { return all[1].PID }, "loop", 1,
			[]string{"process 1 (ranks 1, 3) was ended by signal 9", "process-1.log:\n  | worker 1 has begun"}},
		{"worker 1, others deaf", func(_ *trial, all []seen) int { return all[1].PID }, "parent", 1,
			[]string{"process 1 (ranks 1, 3) was ended by signal 9"}},
		{"supervisor 0", func(_ *trial, all []seen) int { return all[0].PPID }, "loop", 1,
			[]string{"process 0 (ranks 0, 2) is lost: its supervisor is gone"}},
		{"supervisor 1", func(_ *trial, all []seen) int { return all[1].PPID }, "loop", 1,
			[]string{"process 1 (ranks 1, 3) is lost: its supervisor is gone"}},
		{"supervisor 1, others deaf", func(_ *trial, all []seen) int { return all[1].PPID }, "deaf:0", 1,
			[]string{"process 1 (ranks 1, 3) is lost: its supervisor is gone"}},
		{"the launcher", func(x *trial, _ []seen) int { return x.cmd.Process.Pid }, "loop", -1, nil},
		{"the launcher, workers deaf", func(x *trial, _ []seen) int { return x.cmd.Process.Pid }, "deaf", -1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := begin(t, t.TempDir(), "TEST_NP=2", "TEST_DO="+c.do)
			if err := syscall.Kill(c.whom(x, x.running(2)), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			x.ends(c.code, c.says...)
		})
	}
}

// The consensus library writes nothing into the logs of a job that succeeds: no debug lines,
// and no errors for voters that leave.
func TestLogsOfAGoodEnd(t *testing.T) {
	t.Parallel()
	launched := elastic(t, 4, "100 0", "")
	launched.reaches(1, 0, 1, 2, 3)
	together := startTogether(t, 3, 0, "100 0", "")
	together.reaches(1, 0, 1, 2)
	time.Sleep(5 * testHeartbeat) // the voters agree on a few more entries
	launched.make("finish")
	launched.over(0)
	together.finish(0, 0, 1, 2)
	for _, out := range []string{launched.out, together.out} {
		logs, err := filepath.Glob(filepath.Join(out, "process-*.log"))
		if err != nil || len(logs) < 3 {
			t.Fatal(logs, err)
		}
		for _, path := range logs {
			text, err := os.ReadFile(path)
			if err != nil || strings.Contains(string(text), "raft") {
				t.Errorf("%s: %s, %v", filepath.Base(path), text, err)
			}
		}
	}
}
