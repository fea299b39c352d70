package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
)

// The tests of elastic jobs without the local launcher: each supervisor is a program of its
// own, and any of them may lead.

// together is such a job.
type together struct {
	*trial // a process that stays
	all    []*trial
}

// startTogether starts a job of several processes. The process stays will not be lost.
func startTogether(t *testing.T, processes, stays int, limits, do string) *together {
	t.Helper()
	x, out, port := &together{}, t.TempDir(), freePort(t)
	for p := range processes {
		x.all = append(x.all, begin(t, out, fmt.Sprintf("RANK=%d", p), fmt.Sprintf("WORLD_SIZE=%d", processes), "TEST_RDZV=127.0.0.1:"+port,
			"ECREC_SECRET=0123456789abcdef", "TEST_RANKS=5", "TEST_ELASTIC="+limits, "TEST_DO="+do))
	}
	x.trial = x.all[stays]
	t.Cleanup(func() {
		for p, y := range x.all {
			if t.Failed() {
				t.Logf("process %d said %q", p, y.err1.String())
			}
		}
	})
	return x
}

// finish ends the job, checks the exit codes of the remaining processes, and returns what all
// have printed.
func (x *together) finish(code int, left ...int) string {
	x.t.Helper()
	x.make("finish")
	return x.allEnd(code, left...)
}

func (x *together) allEnd(code int, left ...int) string {
	x.t.Helper()
	for _, p := range left {
		x.all[p].over(code)
	}
	said := ""
	for p, y := range x.all {
		if !slices.Contains(left, p) {
			select {
			case <-y.finished:
			case <-time.After(patience):
				x.t.Fatalf("process %d, which was lost, does not end", p)
			}
		}
		said += y.err1.String()
		until(x.t, "the last process to end", func() bool { return len(processes(y.id)) == 0 })
	}
	return said
}

func TestNodesLost(t *testing.T) {
	for _, c := range []struct {
		name   string
		np     int
		limits string
		lose   [][]int // supervisors, at the same time, by generation
		left   []int
		ranks  string
	}{
		{name: "the leader", np: 3, lose: [][]int{{0}}, left: []int{1, 2}, ranks: "[[] [1 3 4] [0 2]]"},
		{name: "the leader, with a spare", np: 4, limits: "100 1", lose: [][]int{{0}}, left: []int{1, 2, 3}},
		{name: "another voter", np: 3, lose: [][]int{{2}}, left: []int{0, 1}},
		{name: "one that does not vote", np: 4, lose: [][]int{{3}}, left: []int{0, 1, 2}},
		{name: "the leader and another", np: 5, lose: [][]int{{0, 3}}, left: []int{1, 2, 4}},
		{name: "two others", np: 5, lose: [][]int{{1, 2}}, left: []int{0, 3, 4}},
		{name: "each leader in turn", np: 5, lose: [][]int{{0}, {1}, {2}}, left: []int{3, 4}},
		{name: "the second of two", np: 2, lose: [][]int{{1}}, left: []int{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.limits == "" {
				c.limits = "100 0"
			}
			x := startTogether(t, c.np, c.left[0], c.limits, "")
			gone := map[int]bool{}
			spares := strings.HasSuffix(c.limits, "1")
			for g, lose := range c.lose {
				var pids []int
				living := living(c.np, spares, gone)
				all := x.reaches(uint64(g+1), living...)
				for i, p := range living {
					for _, l := range lose {
						if p == l {
							pids = append(pids, all[i].PPID)
						}
					}
				}
				if len(pids) != len(lose) {
					t.Fatalf("%v of %v", lose, living)
				}
				if g > 0 {
					elected() // others vote in place of the lost
				}
				kill(t, syscall.SIGKILL, pids...)
				for _, l := range lose {
					gone[l] = !spares
				}
			}
			all := x.reaches(uint64(len(c.lose)+1), living(c.np, spares, gone)...)
			var ranks [][]int
			for _, p := range all[0].Processes {
				ranks = append(ranks, append([]int{}, p.Ranks...))
			}
			if c.ranks != "" && fmt.Sprint(ranks) != c.ranks {
				t.Errorf("processes host %v, want %s", ranks, c.ranks)
			}
			said := x.finish(0, c.left...)
			for _, lose := range c.lose {
				for _, p := range lose {
					if n := strings.Count(said, fmt.Sprintf("ecrec: node %s: process %d (", machine.NodeName(), p)); n != 1 {
						t.Errorf("the loss of process %d is printed %d times: %q", p, n, said)
					}
				}
			}
		})
	}
}

// living are the processes with a worker.
func living(np int, spares bool, gone map[int]bool) (all []int) {
	if spares {
		np--
	}
	for p := range np {
		if !gone[p] {
			all = append(all, p)
		}
	}
	return all
}

// A leader is lost while a generation forms.
func TestLeaderLostWhileForming(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			x := startTogether(t, 5, 1, "100 0", "")
			all := x.reaches(1, 0, 1, 2, 3, 4)
			kill(t, syscall.SIGKILL, all[3].PID)
			time.Sleep(time.Duration(i) * 3 * time.Millisecond)
			kill(t, syscall.SIGKILL, all[0].PPID)
			x.reaches(2, 1, 2, 3, 4)
			x.finish(0, 1, 2, 3, 4)
		})
	}
}

// A suspended leader is replaced. When it resumes, it learns that its place is given away, and
// ends.
func TestLeaderStandsStill(t *testing.T) {
	t.Parallel()
	x := startTogether(t, 3, 1, "100 0", "")
	all := x.reaches(1, 0, 1, 2)
	elected()
	kill(t, syscall.SIGSTOP, all[0].PPID)
	x.reaches(2, 1, 2)
	if syscall.Kill(all[0].PID, 0) != nil {
		t.Error("its worker has ended before the suspended supervisor, its parent, could end it")
	}
	kill(t, syscall.SIGCONT, all[0].PPID)
	until(t, "the old leader to end", func() bool { return len(x.all[0].finished) > 0 })
	x.finish(0, 1, 2)
	if code := x.all[0].cmd.ProcessState.ExitCode(); code != control.ExitFailed {
		t.Errorf("the old leader ends with exit code %d", code)
	}
}

// elected waits until all voters vote. They are added one after the other while the first
// generation works; a loss before that is another case.
func elected() { time.Sleep(2 * silentBeats * testHeartbeat) }

// killAtOnce kills all before the others can agree on the loss of the first. A process that is sent SIGSTOP may run on for
// a moment, and vote.
func killAtOnce(t *testing.T, pids ...int) {
	t.Helper()
	kill(t, syscall.SIGSTOP, pids...)
	for _, pid := range pids {
		until(t, fmt.Sprintf("process %d to stop", pid), func() bool { return isStopped(pid) })
	}
	kill(t, syscall.SIGKILL, pids...)
}

// isStopped reports whether all threads of a process are stopped.
func isStopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		if _, state, ok := strings.Cut(string(text), ") "); ok && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

// A signal to any process stops all of them.
func TestSignalsToOne(t *testing.T) {
	for _, c := range []struct{ whom, times int }{{0, 1}, {2, 1}, {0, 2}, {2, 2}} {
		t.Run(fmt.Sprintf("%d to process %d", c.times, c.whom), func(t *testing.T) {
			t.Parallel()
			do := ""
			if c.times == 2 {
				do = "deaf"
			}
			x := startTogether(t, 4, 3, "100 0", do)
			all := x.reaches(1, 0, 1, 2, 3)
			for range c.times {
				kill(t, syscall.SIGTERM, all[c.whom].PPID)
				time.Sleep(50 * time.Millisecond) // the system merges two signals at once
			}
			said := x.allEnd(143, 0, 1, 2, 3)
			if want := map[int]string{1: "ecrec: stopped by a signal\n", 2: ""}[c.times]; said != want {
				t.Errorf("said %q, want %q", said, want)
			}
		})
	}
}

// Without a majority of the voters all processes end soon, and one prints why.
func TestMajorityLost(t *testing.T) {
	for _, c := range []struct {
		np   int
		lose []int
		left []int
		says string
	}{
		{2, []int{0}, []int{1}, "process 1 ends: process 0 is lost"},
		{3, []int{1, 2}, []int{0}, "process 0 ends: too few are left of the supervisors that vote on the job's state (0, 1, 2)"},
		{3, []int{0, 2}, []int{1}, "process 1 ends: too few are left"},
		{5, []int{0, 1, 2}, []int{3, 4}, "process 3 ends: too few are left of the supervisors that vote on the job's state (0, 1, 2, 3, 4)"},
		{5, []int{1, 2, 3}, []int{0, 4}, "process 0 ends: too few are left"},
	} {
		t.Run(fmt.Sprint(c.lose, " of ", c.np), func(t *testing.T) {
			t.Parallel()
			x := startTogether(t, c.np, c.left[0], "100 0", "")
			var all, pids []int
			for p := range c.np {
				all = append(all, p)
			}
			world := x.reaches(1, all...)
			for _, p := range c.lose {
				pids = append(pids, world[p].PPID)
			}
			killAtOnce(t, pids...)
			if said := x.allEnd(1, c.left...); strings.Count(said, "ecrec: ") != 1 || !strings.Contains(said, c.says) {
				t.Errorf("said %q, want once %q", said, c.says)
			}
		})
	}
}

// The loss of a majority ends a job of the local launcher too, with one line.
func TestMajorityLostHere(t *testing.T) {
	t.Parallel()
	x := begin(t, t.TempDir(), "TEST_NP=5", "TEST_RANKS=5", "TEST_ELASTIC=100 0", "TEST_DO=")
	all := x.reaches(1, 0, 1, 2, 3, 4)
	elected()
	killAtOnce(t, all[0].PPID, all[1].PPID, all[2].PPID)
	x.ends(1, "ecrec: too few are left of the supervisors that vote on the job's state (0, 1, 2, 3)")
}

// If the local launcher is suspended, others lead.
func TestLauncherStandsStill(t *testing.T) {
	t.Parallel()
	x := elastic(t, 3, "100 0", "")
	all := x.reaches(1, 0, 1, 2)
	kill(t, syscall.SIGSTOP, x.cmd.Process.Pid)
	time.Sleep(silentBeats * testHeartbeat)
	kill(t, syscall.SIGKILL, all[1].PID)
	x.reaches(2, 0, 1, 2)
	kill(t, syscall.SIGCONT, x.cmd.Process.Pid)
	x.make("finish")
	x.ends(0, "process 1 (rank 1) was ended by signal 9")
}

// The local launcher is suspended while the others end the job. It exits with the job's code.
func TestEndWhileLauncherStandsStill(t *testing.T) {
	t.Parallel()
	x := elastic(t, 3, "100 0", "")
	x.reaches(1, 0, 1, 2)
	kill(t, syscall.SIGSTOP, x.cmd.Process.Pid)
	time.Sleep(2 * silentBeats * testHeartbeat)
	x.make("finish")
	until(t, "the workers to end", func() bool { return len(processes(x.id)) <= 1+3 }) // supervisors may be zombies
	time.Sleep(500 * time.Millisecond)
	kill(t, syscall.SIGCONT, x.cmd.Process.Pid)
	if text := x.over(0); strings.Contains(text, "exit code") {
		t.Errorf("stderr %q", text)
	}
}

// supervisorOf is the process id of the supervisor started for a process.
func (x *trial) supervisorOf(process int) int {
	x.t.Helper()
	for _, pid := range processes(x.id) {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if strings.Contains(string(env), fmt.Sprintf("\x00%s=%d\x00", place.EnvProcess, process)) {
			return pid
		}
	}
	x.t.Fatalf("no supervisor was started for process %d", process)
	return 0
}

// prepareSlowly prepares until it must stop. A file exists meanwhile.
func prepareSlowly(goOn func() bool) {
	name := filepath.Join(os.Getenv("TEST_OUT"), fmt.Sprintf("preparing-%d", os.Getpid()))
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		panic(err)
	}
	for goOn() {
		time.Sleep(time.Millisecond)
	}
	if err := os.Remove(name); err != nil {
		panic(err)
	}
}

// A supervisor without a worker prepares for one, and stops when there is one.
func TestSparePrepares(t *testing.T) {
	t.Parallel()
	x := elastic(t, 3, "100 1", "")
	all := x.reaches(1, 0, 1, 2)
	preparing := func() (pids []int) {
		names, _ := filepath.Glob(filepath.Join(x.out, "preparing-*"))
		for _, name := range names {
			pid, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(name), "preparing-"))
			pids = append(pids, pid)
		}
		return pids
	}
	spare := x.supervisorOf(3)
	until(t, "the spare alone to prepare", func() bool { return slices.Equal(preparing(), []int{spare}) })
	kill(t, syscall.SIGKILL, all[1].PPID)
	x.reaches(2, 0, 1, 2)
	until(t, "preparing to end", func() bool { return len(preparing()) == 0 })
	x.make("finish")
	x.over(0)
}

// The loss of a spare is printed, and the spare is not used.
func TestLostSpare(t *testing.T) {
	t.Parallel()
	x := elastic(t, 3, "100 1", "")
	all := x.reaches(1, 0, 1, 2)
	spare := x.supervisorOf(3)
	kill(t, syscall.SIGKILL, spare)
	until(t, "the spare to end", func() bool { return len(processes(x.id)) == 7 })
	time.Sleep(50 * time.Millisecond)
	kill(t, syscall.SIGKILL, all[1].PPID)
	x.reaches(2, 0, 2)
	x.make("finish")
	said := x.over(0)
	for _, s := range []string{"process 3 (a spare) is lost: its supervisor is gone; no spare left\n", "process 2 takes over its ranks"} {
		if strings.Count(said, s) != 1 {
			t.Errorf("stderr %q, want once %q", said, s)
		}
	}
}
