package launcher

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
)

// The tests of elastic jobs: lost workers are replaced.

const testHeartbeat = 200 * time.Millisecond

// workOn is the worker of an elastic job. It connects to all others in each generation, until
// the file "finish" exists or the job is stopped. TEST_DO may be "fire DO PROCESS DURATION", a
// fault, or "miss PROCESS": process 0 reports in the first two generations that it cannot
// reach that process.
func workOn(w *World) int {
	for {
		stop, done := generation(w)
		if done && w.Done() {
			if !stop {
				return 0
			}
			w.Report(control.Report{Code: 143, Error: "stopped by a signal", Stopped: true})
			return 143
		}
		var err error
		if w, err = w.Next(); err != nil {
			return control.ExitFailed
		}
	}
}

// generation works until the file "finish" exists, the job is stopped, or the world changes.
func generation(w *World) (stop, done bool) {
	told := time.Now()
	over := make(chan struct{})
	defer close(over)
	go func() { // ends the connecting below
		select {
		case <-w.Changed():
			w.Listener.Close()
		case <-over:
		}
	}()
	peers, err := mesh(w)
	defer func() {
		for _, c := range peers.conns {
			c.Close()
		}
	}()
	if err != nil {
		<-w.Changed()
		return false, false
	}
	record(w, told, false)
	misbehave(w)
	for committed := false; ; {
		select {
		case <-w.Changed():
			return false, false
		case <-time.After(2 * time.Millisecond):
		}
		if there("commit") {
			w.Committed(there("whole"))
			if !committed {
				committed = true
				record(w, told, true)
			}
		}
		if stop = w.StopRequested() && os.Getenv("TEST_DO") != "deaf"; stop || there("finish") {
			return stop, true
		}
	}
}

func misbehave(w *World) {
	words := append(strings.Fields(os.Getenv("TEST_DO")), "", "", "", "")
	switch me := fmt.Sprint(w.Process); {
	case words[0] == "fire" && words[2] == me:
		long, _ := time.ParseDuration(words[3])
		w.Fire(control.Fault{Number: 7, Do: control.FaultKind(words[1]), For: long})
	case words[0] == "miss" && w.Process == 0 && w.Generation <= 2:
		who, _ := strconv.Atoi(words[1])
		w.Lost(who)
	}
}

// there reports whether the test has created a file.
func there(name string) bool {
	_, err := os.Stat(filepath.Join(os.Getenv("TEST_OUT"), name))
	return err == nil
}

// make creates the file.
func (x *trial) make(name string) {
	x.t.Helper()
	if err := os.WriteFile(filepath.Join(x.out, name), nil, 0o644); err != nil {
		x.t.Fatal(err)
	}
}

func (x *trial) remove(name string) {
	x.t.Helper()
	if err := os.Remove(filepath.Join(x.out, name)); err != nil {
		x.t.Fatal(err)
	}
}

// reaches waits until the workers of some processes have all seen the same generation, that one
// or a later one.
func (x *trial) reaches(generation uint64, processes ...int) []seen {
	x.t.Helper()
	return x.see(generation, func(seen) bool { return true }, processes...)
}

// commits waits until they have also reported a commit there.
func (x *trial) commits(generation uint64, processes ...int) []seen {
	x.t.Helper()
	return x.see(generation, func(s seen) bool { return s.Committed }, processes...)
}

func (x *trial) see(generation uint64, enough func(seen) bool, processes ...int) (all []seen) {
	x.t.Helper()
	until(x.t, fmt.Sprintf("generation %d", generation), func() bool {
		all = nil
		for _, p := range processes {
			var s seen
			text, err := os.ReadFile(filepath.Join(x.out, fmt.Sprintf("worker-%d.json", p)))
			if err != nil || json.Unmarshal(text, &s) != nil || s.Generation < generation || !enough(s) {
				return false
			}
			all = append(all, s)
		}
		if len(x.finished) > 0 {
			x.t.Fatalf("the job has ended: %s", x.err1.String())
		}
		return !slices.ContainsFunc(all, func(s seen) bool { return s.Generation != all[0].Generation })
	})
	for _, s := range all {
		if !reflect.DeepEqual(s.Processes, all[0].Processes) || s.Secret != all[0].Secret {
			x.t.Errorf("two workers of generation %d saw %+v and %+v", s.Generation, all[0], s)
		}
	}
	return all
}

// elastic starts a job with limits "restarts spares".
func elastic(t *testing.T, np int, limits, do string) *trial {
	return begin(t, t.TempDir(), fmt.Sprintf("TEST_NP=%d", np), "TEST_ELASTIC="+limits, "TEST_DO="+do)
}

// kill sends a signal to processes. Several are suspended first: a loaded machine may take
// long between two signals, and no generation may form there with a process that is about to die.
func kill(t *testing.T, signal syscall.Signal, pids ...int) {
	t.Helper()
	if len(pids) > 1 && signal == syscall.SIGKILL {
		kill(t, syscall.SIGSTOP, pids...)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatal(err)
		}
	}
}

// After any loss the job forms a new generation and succeeds. Short tests draw a third of the losses.
func TestLostAndFoundAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits string // "100 0"
		do     string
		lose   func(all []seen) []int
		signal syscall.Signal // SIGKILL
		left   []int          // processes that remain; nil: all
		ranks  string         // of the processes
		says   []string
	}{
		{name: "worker 0", lose: func(all []seen) []int { return []int{all[0].PID} }, says: []string{"process 0 (ranks 0, 3) was ended by signal 9", "it is started again"}},
		{name: "worker 1", lose: func(all []seen) []int { return []int{all[1].PID} }},
		{name: "two workers", lose: func(all []seen) []int { return []int{all[1].PID, all[2].PID} }},
		{name: "all workers", lose: func(all []seen) []int { return []int{all[0].PID, all[1].PID, all[2].PID} }},
		{name: "a worker crashes", lose: func(all []seen) []int { return []int{all[1].PID} }, signal: syscall.SIGQUIT, says: []string{"process 1 (rank 1) crashed: SIGQUIT"}},
		{name: "a worker is suspended", lose: func(all []seen) []int { return []int{all[1].PID} }, signal: syscall.SIGSTOP, says: []string{"process 1 (rank 1) stopped answering and was killed"}},
		{name: "supervisor 1", lose: func(all []seen) []int { return []int{all[1].PPID} }, left: []int{0, 2}, ranks: "[[0 3] [] [1 2]]",
			says: []string{"process 1 (rank 1) is lost: its supervisor is gone; process 2 takes over its ranks"}},
		{name: "supervisor 1 and worker 2", lose: func(all []seen) []int { return []int{all[1].PPID, all[2].PID} }, left: []int{0, 2}, ranks: "[[0 3] [] [1 2]]"},
		{name: "supervisors 1 and 2", lose: func(all []seen) []int { return []int{all[1].PPID, all[2].PPID} }, left: []int{0}, ranks: "[[0 1 2 3] [] []]"},
		{name: "supervisor 1, with a spare", limits: "100 1", lose: func(all []seen) []int { return []int{all[1].PPID} }, says: []string{"a spare takes its place"}},
		{name: "two supervisors, with a spare", limits: "100 1", lose: func(all []seen) []int { return []int{all[1].PPID, all[2].PPID} }, says: []string{"a spare takes its place", "takes over its ranks"},
			left: []int{0}},
		{name: "supervisor 1 stands still", lose: func(all []seen) []int { return []int{all[1].PPID} }, signal: syscall.SIGSTOP, left: []int{0, 2}, ranks: "[[0 3] [] [1 2]]"},
		{name: "supervisor 0", lose: func(all []seen) []int { return []int{all[0].PPID} }, left: []int{1, 2}, ranks: "[[] [0 1] [2 3]]",
			says: []string{"process 0 (ranks 0, 3) is lost: its supervisor is gone; processes 1, 2 take over its ranks"}},
		{name: "supervisor 0, with a spare", limits: "100 1", lose: func(all []seen) []int { return []int{all[0].PPID} }, says: []string{"a spare takes its place"}},
		{name: "supervisor 0 stands still", lose: func(all []seen) []int { return []int{all[0].PPID} }, signal: syscall.SIGSTOP, left: []int{1, 2}, ranks: "[[] [0 1] [2 3]]"},
		{name: "supervisor 0 and worker 1", lose: func(all []seen) []int { return []int{all[0].PPID, all[1].PID} }, left: []int{1, 2}},
		{name: "a fault kills node 0", do: "fire node 0", left: []int{1, 2}, ranks: "[[] [0 1] [2 3]]"},
		{name: "a fault kills", do: "fire kill 1", says: []string{"process 1 (rank 1) was ended by signal 9"}},
		{name: "a fault kills a node", do: "fire node 2", left: []int{0, 1}, ranks: "[[0 3] [1 2] []]"},
		{name: "a fault stops for long", do: "fire stop 1 10s", says: []string{"stopped answering and was killed"}},
		{name: "a worker is unreachable", do: "miss 1", says: []string{"process 0 cannot reach process 1 (rank 1); all processes reconnect (generation 2)", "it is started again (generation 3)"}},
	} {
		if testing.Short() && rand.IntN(3) > 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.limits == "" {
				c.limits = "100 0"
			}
			if c.left == nil {
				c.left = []int{0, 1, 2}
			}
			if c.signal == 0 {
				c.signal = syscall.SIGKILL
			}
			x := elastic(t, 3, c.limits, c.do)
			if c.lose != nil {
				all := x.reaches(1, 0, 1, 2)
				kill(t, c.signal, c.lose(all)...)
			}
			all := x.reaches(2, c.left...)
			if c.do == "miss 1" {
				all = x.reaches(3, c.left...)
			}
			ranks := [][]int{}
			for _, p := range all[0].Processes {
				ranks = append(ranks, p.Ranks)
			}
			if c.ranks != "" && fmt.Sprint(ranks) != c.ranks {
				t.Errorf("processes host %v, want %s", ranks, c.ranks)
			}
			x.make("finish")
			said := x.over(0)
			for _, s := range c.says {
				if !strings.Contains(said, s) {
					t.Errorf("stderr %q lacks %q", said, s)
				}
			}
			if strings.Count(x.out1.String(), "worker 0 prints") == 0 {
				t.Errorf("stdout %q", x.out1.String())
			}
		})
	}
}

// A worker that is suspended for less than the limit is not lost.
func TestShortStop(t *testing.T) {
	t.Parallel()
	x := elastic(t, 3, "100 0", "fire stop 1 200ms")
	x.reaches(1, 0, 1, 2)
	time.Sleep(time.Second)
	x.make("finish")
	x.ends(0)
}

// All workers know which incarnations are new and which ranks were lost.
func TestIncarnations(t *testing.T) {
	t.Parallel()
	x := elastic(t, 3, "100 0", "")
	all := x.reaches(1, 0, 1, 2)
	for _, s := range all {
		if s.Fresh || fmt.Sprint(s.Processes[1].Since) != "[1]" {
			t.Errorf("fresh at the start: %+v", s)
		}
	}
	kill(t, syscall.SIGKILL, all[1].PID)
	for p, s := range x.reaches(2, 0, 1, 2) {
		if got := s.Processes[1]; s.Fresh != (p == 1) || fmt.Sprint(got.Since) != "[2]" || got.Incarnation != 2 || s.Processes[0].Incarnation != 1 || fmt.Sprint(s.Processes[0].Since) != "[1 1]" {
			t.Errorf("worker %d has seen %+v", p, s)
		}
		if (s.PID == all[p].PID) != (p != 1) || s.Secret == all[p].Secret || s.Processes[p].Addr == all[p].Processes[p].Addr {
			t.Errorf("worker %d of both generations: %+v, %+v", p, all[p], s)
		}
		kept := fmt.Sprintf("%d ", all[p].PID)
		if p == 1 {
			kept += fmt.Sprintf("%d ", s.PID)
		}
		if s.Kept != kept {
			t.Errorf("worker %d found %q in the file that its supervisor keeps, want %q", p, s.Kept, kept)
		}
	}
	x.make("finish")
	x.ends(0, "generation 2")
}

// Losses may follow each other at any time, also while the next world forms.
func TestManyLosses(t *testing.T) {
	t.Parallel()
	x := elastic(t, 4, "100 0", "")
	draw, rounds := rand.New(rand.NewPCG(1, 2)), 15
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		all := x.reaches(1, 0, 1, 2, 3)
		for range 3 {
			_ = syscall.Kill(all[draw.IntN(4)].PID, syscall.SIGKILL) // it may be gone
			time.Sleep(time.Duration(draw.IntN(20)) * time.Millisecond)
		}
		x.make("commit")
		x.reaches(all[0].Generation+1, 0, 1, 2, 3)
	}
	x.make("finish")
	x.over(0)
}

func TestTooManyLosses(t *testing.T) {
	t.Parallel()
	x := elastic(t, 2, "2 0", "")
	for g := range uint64(3) {
		kill(t, syscall.SIGKILL, x.reaches(g+1, 0, 1)[1].PID)
	}
	if said := x.over(1); !strings.Contains(said, "loss 3 in a row without a commit between, and elastic.max_restarts = 2") {
		t.Errorf("stderr %q", said)
	}
	x = elastic(t, 2, "2 0", "")
	x.make("commit")
	for g := range uint64(4) {
		all := x.reaches(g+1, 0, 1)
		time.Sleep(50 * time.Millisecond) // the commit is reported
		kill(t, syscall.SIGKILL, all[1].PID)
	}
	x.reaches(5, 0, 1)
	x.make("finish")
	x.over(0)
}

// A loss at the end of the job is repaired, or has no effect.
func TestLossAtTheEnd(t *testing.T) {
	for i := range 6 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			x := elastic(t, 3, "100 0", "")
			all := x.reaches(1, 0, 1, 2)
			x.make("finish")
			time.Sleep(time.Duration(i) * time.Millisecond)
			_ = syscall.Kill(all[i%3].PID, syscall.SIGKILL) // it may be gone
			x.over(0)
		})
	}
}

// A signal stops an elastic job too, also while a generation forms.
func TestStopElastic(t *testing.T) {
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			x := elastic(t, 3, "100 0", "")
			all := x.reaches(1, 0, 1, 2)
			if i > 0 {
				kill(t, syscall.SIGKILL, all[i].PID)
				time.Sleep(time.Duration(i) * time.Millisecond)
			}
			kill(t, syscall.SIGTERM, x.cmd.Process.Pid)
			if said := x.over(143); !strings.Contains(said, "stopped by a signal\n") {
				t.Errorf("stderr %q", said)
			}
		})
	}
}

// The time from the kill of a worker until all workers have the new world.
func TestRestartTime(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts processes many times; make test does it without -short")
	}
	x := begin(t, t.TempDir(), "TEST_NP=5", "TEST_RANKS=5", "TEST_ELASTIC=100 0")
	var took []time.Duration
	for g := range uint64(15) {
		all := x.reaches(g+1, 0, 1, 2, 3, 4)
		time.Sleep(20 * time.Millisecond)
		begin := time.Now()
		kill(t, syscall.SIGKILL, all[g%5].PID)
		var last time.Time
		for _, s := range x.reaches(g+2, 0, 1, 2, 3, 4) {
			if s.Told.After(last) {
				last = s.Told
			}
		}
		took = append(took, last.Sub(begin))
	}
	slices.Sort(took)
	t.Logf("5 processes: median %v, at most %v", took[len(took)/2], took[len(took)-1])
	x.make("finish")
	x.over(0)
}
