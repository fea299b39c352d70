package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Each rank dies at 20 random steps, in jobs of 5 ranks and of 6; of 6 also two at once.
func TestKilledEachRank(t *testing.T) {
	r := drawing(t)
	if !*soak {
		t.Skip("some of TestKilledRanks's are such: make soak kills each rank 20 times")
	}
	for _, c := range []struct{ ranks, atOnce int }{{5, 1}, {6, 1}, {6, 2}} {
		for rank := range c.ranks {
			seed := r.Uint64()
			t.Run(fmt.Sprintf("%d_of_%d,rank=%d", c.atOnce, c.ranks, rank), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 0))
				j := drawJob(r, c.ranks)
				for step, n := 1+r.IntN(killGap), 0; n < 20; n++ {
					j.kill(rank, step, "")
					if c.atOnce == 2 {
						j.kill((rank+1+r.IntN(c.ranks-1))%c.ranks, step, "")
					}
					step += killGap + r.IntN(killGap)
				}
				j.check(t)
			})
		}
	}
}

// Every cache mode with every optimizer of the rows and of the dense part.
func TestKilledModes(t *testing.T) {
	r := drawing(t)
	if !*soak {
		t.Skip("TestKilledRanks draws some: make soak does all")
	}
	var all []*killedJob
	for _, kind := range killedKinds {
		for _, mode := range killedModes {
			j := drawJob(r, 5)
			j.kind, j.sets = kind, mode
			for step := range 3 {
				j.kill(r.IntN(5), 10+step*killGap, pick(r, alwaysMet))
			}
			all = append(all, j)
		}
	}
	for _, j := range all {
		t.Run(j.kind+","+strings.Join(j.sets, ","), j.check)
	}
}

// With two parities, a rank dies while another's rows are decoded.
func TestKilledWhileRebuilding(t *testing.T) {
	r := drawing(t)
	var all []*killedJob
	times := 1
	if *soak {
		times = 3
	}
	for range 4 {
		for _, point := range []string{"survey", "rebuild", "ask", "answer", "install", "installed"} {
			j := drawJob(r, 6)
			j.wide = r.IntN(2) == 0
			for step := killGap; step <= times*killGap; step += killGap {
				first := r.IntN(6)
				j.kill(first, step, pick(r, alwaysMet))
				j.killAgain((first+1+r.IntN(5))%6, step, point)
			}
			all = append(all, j)
		}
	}
	for i, j := range few(r, all, 1) {
		t.Run(fmt.Sprint(i), j.check)
	}
}

// A worker that is frozen for 3 s is replaced before it continues. One that is frozen for a moment
// is not.
func TestStoppedRanks(t *testing.T) {
	r := drawing(t)
	t.Parallel()
	for _, ranks := range few(r, []int{5, 6}, 1) {
		for _, rank := range few(r, r.Perm(ranks), 1) {
			j := drawJob(r, ranks)
			j.faults, j.steps = []string{fmt.Sprintf("stop:%d@%d:3s", rank, 1+r.IntN(killGap))}, killGap+killSteps
			t.Run(fmt.Sprintf("%d_of_%d", rank, ranks), j.check)
		}
	}
	t.Run("a moment", func(t *testing.T) {
		j := drawJob(r, 5)
		j.faults = []string{"stop:1@10:100ms"}
		x := j.begin(t)
		j.compare(t, x, x.ends(t, j))
	})
}

// A supervisor dies with its worker: a spare replaces it, or other processes take over its ranks.
func TestLostNodes(t *testing.T) {
	r := drawing(t)
	for _, spares := range []int{0, 1} {
		// Process 0 is always among them: another process reports for the run then.
		for _, rank := range append([]int{0}, few(r, []int{1, 2, 3, 4}, 1)...) {
			for _, ranks := range few(r, []int{5, 6}, 1) {
				j := drawJob(r, ranks)
				j.sets = append([]string{fmt.Sprint("elastic.spares=", spares)}, j.sets...)
				j.faults = []string{fmt.Sprintf("node:%d@%d", rank, 1+r.IntN(killGap))}
				// The other processes survive another loss. With one spare they do not survive
				// that of the process that took the ranks: 0, or 1 if 0 was lost.
				j.kill(1+max(rank, 1)%4, 2*killGap+r.IntN(killGap), pick(r, alwaysMet))
				t.Run(fmt.Sprintf("%d_of_%d,spares=%d", rank, ranks, spares), j.check)
			}
		}
	}
}

// Workers are killed one after the other, each a second after the last rebuild, until the run ends.
func TestKilledWhenRebuilt(t *testing.T) {
	r := drawing(t)
	if !*soak {
		t.Skip("takes a second per kill: make soak does it")
	}
	for _, ranks := range []int{5, 6} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			j := drawJob(r, ranks)
			j.steps, j.evalEvery = 6000, 1000
			x := j.begin(t)
			killed := 0
			for {
				select {
				case got := <-x.over:
					x.over <- got
				case <-time.After(time.Second):
				}
				p := x.workers()[r.IntN(ranks)]
				if p == 0 {
					break // the run ends
				}
				if err := syscall.Kill(p, syscall.SIGKILL); err != nil {
					break
				}
				killed++
				if !x.recovered(killed) {
					break
				}
			}
			got := x.ends(t, j)
			j.compare(t, x, got)
			if n := losses(got.stderr); killed < 5 || n < killed-1 { // the last may have been ending
				t.Errorf("%d kills, %d losses: %s", killed, n, j)
			}
		})
	}
}

// recovered waits for a number of recoveries, or for the end of the job.
func (x *started) recovered(n int) bool {
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(10 * time.Millisecond) {
		log, _ := os.ReadFile(filepath.Join(x.out, "process-0.log"))
		if strings.Count(string(log), `"message":"recovered"`) >= n {
			return true
		}
		select {
		case got := <-x.over:
			x.over <- got
			return false
		default:
		}
	}
	return false
}

// workers returns the pids of the workers by process number, from their supervisors.
func (x *started) workers() map[int]int {
	all := map[int]int{}
	for _, p := range x.processes() {
		at, err := strconv.Atoi(variable(p.parent, "ECREC_PROCESS"))
		if err == nil && variable(p.pid, "ECREC_WORKER") != "" {
			all[at] = p.pid
		}
	}
	return all
}

// variable returns a variable of a process's environment, empty if it is not set.
func variable(pid int, name string) string {
	vars, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for _, v := range strings.Split(string(vars), "\x00") {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// endLimit is how soon a job that cannot continue must end. endSlack is added for a busy machine.
const (
	endLimit = 5 * time.Second
	endSlack = 10 * time.Second
)

// A loss that cannot be survived soon ends every process, with one line that gives the reason.
func TestUnsurvivable(t *testing.T) {
	r := drawing(t)
	t.Parallel()
	two := func(ranks int, sets ...string) *killedJob {
		j := drawJob(r, ranks)
		j.sets = append(sets, j.sets...)
		return j
	}
	type end struct {
		name, says string
		job        *killedJob
	}
	var all []end
	add := func(name, says string, j *killedJob, faults ...string) {
		j.faults, j.steps = faults, 1000
		all = append(all, end{name, says, j})
	}
	add("two of xor", "ranks [1 2] of group 0 lost their rows, more than the ec.r = 1 that the code can rebuild; there is no checkpoint to restore",
		two(5), "kill:1@20", "kill:2@1:join")
	add("three of two", "ranks [0 1 2] of group 0 lost their rows, more than the ec.r = 2 that the code can rebuild; there is no checkpoint to restore",
		two(6), "kill:1@20", "kill:2@1:join", "kill:0@1:states")
	add("all before any is back", "ranks [0 1 2 3 4] of group 0 lost their rows, more than the ec.r = 1 that the code can rebuild; there is no checkpoint to restore",
		two(5), "kill:0@40", "kill:1@1:join", "kill:2@1:join", "kill:3@1:join", "kill:4@1:join")
	add("again and again", "is loss 3 in a row without a commit between, and elastic.max_restarts = 2",
		two(5, "elastic.max_restarts=2", "ec.commit_every=50"), slices.Repeat([]string{pick(r, []string{"kill:0@20", "kill:3@20"})}, 3)...)
	add("no code", "process 3 (rank 3) was ended by signal 9", two(5, "ec.code=none"), "kill:3@20")
	for _, c := range few(r, all, 2) {
		t.Run(c.name, func(t *testing.T) {
			x := c.job.begin(t)
			got := x.ends(t, c.job)
			took := time.Since(x.output.first)
			var why []string
			for _, line := range strings.Split(strings.TrimSpace(got.stderr), "\n") {
				if losses(line) == 0 && !strings.HasPrefix(line, "  | ") { // nor of a log
					why = append(why, line)
				}
			}
			if got.code != 1 || len(why) != 1 || !strings.HasPrefix(why[0], "ecrec: ") || !strings.Contains(why[0], c.says) {
				t.Errorf("exit code %d: %s\n%s", got.code, c.job, got.stderr)
			}
			if s := readSummary(t, x.out); s.Error == "" || c.name != "no code" && !strings.Contains(why[0], s.Error) {
				t.Errorf("summary.json says %q", s.Error)
			}
			if took > endLimit+endSlack {
				t.Errorf("it took %v: %s", took, c.job)
			}
			t.Logf("it took %v", took)
		})
	}
}
