package launcher

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// prepared is the preparation of a standby: it leaves a trace of the number of processes.
func prepared(processes int) {
	path := filepath.Join(os.Getenv("TEST_OUT"), fmt.Sprintf("standby-%d-of-%d", os.Getpid(), processes))
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		panic(err)
	}
}

// standbys waits until the supervisors of some workers have a standby each, none of which is of
// others, and returns their ids.
func (x *trial) standbys(supervisors []int, others ...int) (pids []int) {
	x.t.Helper()
	until(x.t, fmt.Sprintf("the standbys of %v", supervisors), func() bool {
		pids = make([]int, len(supervisors))
		for _, pid := range processes(x.id) {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			fields := strings.Fields(string(stat))
			if !strings.HasSuffix(strings.TrimSpace(string(comm)), standbyName) || len(fields) < 4 {
				continue
			}
			for i, s := range supervisors {
				if fields[3] == fmt.Sprint(s) && !slices.Contains(others, pid) {
					pids[i] = pid
				}
			}
		}
		return !slices.Contains(pids, 0)
	})
	return pids
}

// supervisorsOf returns the supervisors of workers.
func supervisorsOf(all []seen) (pids []int) {
	for _, s := range all {
		pids = append(pids, s.PPID)
	}
	return pids
}

// steady starts a job whose workers report that it is fully redundant, with its standbys.
func steady(t *testing.T, limits string, vars ...string) (*trial, []seen, []int) {
	t.Helper()
	x := begin(t, t.TempDir(), append([]string{"TEST_NP=3", "TEST_ELASTIC=" + limits}, vars...)...)
	all := x.reaches(1, 0, 1, 2)
	x.make("whole")
	x.make("commit")
	return x, all, x.standbys(supervisorsOf(all))
}

// A lost worker is replaced by its supervisor's standby, which another one follows.
func TestStandby(t *testing.T) {
	t.Parallel()
	x, all, standbys := steady(t, "100 0")
	for turn := range 2 {
		kill(t, syscall.SIGKILL, all[1].PID)
		next := x.commits(uint64(turn)+2, 0, 1, 2)
		if next[1].PID != standbys[1] || next[0].PID != all[0].PID || next[1].PGR != next[1].PID || len(next[1].Left) > 0 || !next[1].Fresh {
			t.Errorf("worker 1 is %+v, and its standby was %d", next[1], standbys[1])
		}
		if got := next[1].Processes[1].Incarnation; got != turn+2 {
			t.Errorf("worker 1 has incarnation %d", got)
		}
		if kept := strings.Fields(next[1].Kept); len(kept) != turn+2 || kept[turn+1] != fmt.Sprint(standbys[1]) {
			t.Errorf("workers %v had the kept file", kept)
		}
		if found, _ := filepath.Glob(filepath.Join(x.out, fmt.Sprintf("standby-%d-of-3", standbys[1]))); len(found) != 1 {
			t.Error("the standby did not prepare itself for 3 processes")
		}
		all, standbys = next, x.standbys(supervisorsOf(next), standbys[1])
	}
	x.make("finish")
	x.over(0)
}

// A standby that ends is replaced, and the job does not change.
func TestStandbyIsLost(t *testing.T) {
	t.Parallel()
	x, all, standbys := steady(t, "100 0", "TEST_REVIVE=50ms")
	kill(t, syscall.SIGKILL, standbys[2])
	kill(t, syscall.SIGKILL, x.standbys(supervisorsOf(all), standbys[2])[2])
	last := x.standbys(supervisorsOf(all), standbys[2])
	if now := x.reaches(1, 0, 1, 2); now[0].Generation != 1 {
		t.Errorf("generation %d", now[0].Generation)
	}
	kill(t, syscall.SIGTERM, last...) // only its supervisor ends it
	x.make("finish")
	if said := x.over(0); said != "" {
		t.Errorf("stderr %q", said)
	}
}

// A worker and its standby are lost at once, or the standby is suspended: the job has lost one worker. A fresh process
// replaces it.
func TestStandbyIsLostWithItsWorker(t *testing.T) {
	for _, first := range []string{"worker", "standby", "frozen"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			x, all, standbys := steady(t, "1 0")
			pids := []int{all[1].PID, standbys[1]}
			if first == "standby" {
				pids[0], pids[1] = pids[1], pids[0]
			}
			if first == "frozen" { // it takes the place, and never answers
				kill(t, syscall.SIGSTOP, standbys[1])
				kill(t, syscall.SIGKILL, all[1].PID)
			} else {
				kill(t, syscall.SIGSTOP, all[1].PPID) // it sees both ends at once
				kill(t, syscall.SIGKILL, pids...)
				kill(t, syscall.SIGCONT, all[1].PPID)
			}
			next := x.commits(2, 0, 1, 2)
			if next[1].PID == all[1].PID || next[1].PID == standbys[1] || next[1].Processes[1].Incarnation != 2 || next[1].Generation != 2 {
				t.Errorf("worker 1 is %+v; its standby was %d", next[1], standbys[1])
			}
			x.standbys(supervisorsOf(next))
			x.make("finish")
			x.over(0)
		})
	}
}

// A standby that has become a worker and stays silent is killed at once if it is suspended, and has more time if it runs.
func TestSlowStandby(t *testing.T) {
	for _, suspended := range []bool{false, true} {
		ended := make(chan bool)
		c, err := startChild(exec.Command("sleep", "1000"), func(*os.ProcessState) { close(ended) })
		if err != nil {
			t.Fatal(err)
		}
		w := &workerChild{child: c, link: new(link)}
		if suspended {
			kill(t, syscall.SIGSTOP, c.cmd.Process.Pid)
			until(t, "the child to stop", func() bool { return isStopped(c.cmd.Process.Pid) })
		}
		if got := w.isSuspended(); got != suspended {
			t.Errorf("suspended: %t, want %t", got, suspended)
		}
		if got := w.killIfSilent(w.isSuspended()); got != suspended {
			t.Errorf("killed: %t, want %t", got, suspended)
		}
		if !suspended && !w.killIfSilent(true) {
			t.Error("it is not killed after the second limit")
		}
		<-ended
		if w.isSuspended() {
			t.Error("a child that has ended is suspended")
		}
	}
}

// A standby that has sent a message is not killed.
func TestStandbyThatAnswers(t *testing.T) {
	w := &workerChild{link: new(link)}
	w.link.received.Add(1)
	if !w.killIfSilent(true) {
		t.Error("it has more time")
	}
}

// A standby ends with its supervisor. That of a spare replaces the worker of the process that the
// spare takes.
func TestStandbyOfSpare(t *testing.T) {
	t.Parallel()
	x, all, standbys := steady(t, "100 1")
	var spare int
	until(t, "the standby of the spare", func() bool {
		for _, pid := range processes(x.id) {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			if strings.HasSuffix(strings.TrimSpace(string(comm)), standbyName) && !slices.Contains(standbys, pid) {
				spare = pid
			}
		}
		return spare != 0
	})
	kill(t, syscall.SIGKILL, all[1].PPID)
	next := x.commits(2, 0, 1, 2)
	if next[1].PID != spare {
		t.Errorf("worker 1 is %d, and the standby of the spare was %d", next[1].PID, spare)
	}
	until(t, "the end of the lost supervisor's standby", func() bool { return !slices.Contains(processes(x.id), standbys[1]) })
	x.standbys(supervisorsOf(next), spare)
	x.make("finish")
	x.over(0)
}

// Signals and the launcher's end reach the standbys.
func TestEndWithStandbys(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		code   int
	}{{"SIGTERM", syscall.SIGTERM, 143}, {"SIGINT", syscall.SIGINT, 130}, {"SIGKILL", syscall.SIGKILL, -1}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x, _, _ := steady(t, "100 0")
			kill(t, c.signal, x.cmd.Process.Pid)
			x.over(c.code)
		})
	}
}
