package launcher

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/launcher/place"
)

// startAgain restarts a process of a job after its loss.
func (x *together) startAgain(process int) {
	x.all = append(x.all, begin(x.t, x.out, own(x.all[process].cmd.Env)...))
}

// own are the variables that a test sets for a program.
func own(env []string) (vars []string) {
	for _, v := range env {
		for _, prefix := range []string{"TEST_", "RANK=", "WORLD_SIZE=", place.EnvSecret + "="} {
			if strings.HasPrefix(v, prefix) {
				vars = append(vars, v)
			}
		}
	}
	return vars
}

// A lost supervisor is restarted. Once the job is fully redundant, it takes over its process
// again, and the job survives further losses. This holds for process 0's supervisor too.
func TestReturns(t *testing.T) {
	for _, lost := range []int{2, 0} {
		t.Run(fmt.Sprint("process ", lost), func(t *testing.T) {
			t.Parallel()
			x := startTogether(t, 3, 1, "100 0", "")
			kill(t, syscall.SIGKILL, x.reaches(1, 0, 1, 2)[lost].PPID)
			other := 2 - lost
			x.reaches(2, min(1, other), max(1, other))
			x.awaitRendezvous(lost)
			x.startAgain(lost)
			until(t, "the new supervisor to join", func() bool { return strings.Contains(x.said(), "joined as a spare (1 spare)") })
			time.Sleep(3 * testHeartbeat)
			if all := x.reaches(2, 1); all[0].Generation != 2 {
				t.Error("ranks are rebalanced before the job is fully redundant")
			}
			x.make("whole")
			x.make("commit")
			all := x.reaches(3, 0, 1, 2)
			for p, s := range all {
				if got := fmt.Sprint(s.Processes[p].Ranks); got != [...]string{"[0 3]", "[1 4]", "[2]"}[p] {
					t.Errorf("process %d hosts %v", p, got)
				}
				if s.Fresh != (p == lost) {
					t.Errorf("process %d: fresh %v", p, s.Fresh)
				}
			}
			kill(t, syscall.SIGKILL, all[other].PPID)
			x.commits(4, min(1, lost), max(1, lost)) // before a commit its machine is new to the job
			kill(t, syscall.SIGKILL, all[lost].PID)
			x.reaches(5, min(1, lost), max(1, lost))
			x.finish(0, 1, 3)
		})
	}
}

// awaitRendezvous waits until a voter has reopened the rendezvous, if process 0 was lost.
func (x *together) awaitRendezvous(lost int) {
	if lost == 0 {
		time.Sleep(2 * silentBeats * testHeartbeat)
	}
}

func (x *together) said() (all string) {
	for _, y := range x.all {
		all += y.err1.String()
	}
	return all
}

// The local launcher replaces a lost supervisor, each time it is lost.
func TestLauncherRevives(t *testing.T) {
	t.Parallel()
	x := begin(t, t.TempDir(), "TEST_NP=3", "TEST_ELASTIC=100 0", "TEST_DO=", "TEST_REVIVE=10ms")
	x.make("commit")
	x.make("whole")
	all := x.reaches(1, 0, 1, 2)
	for g := range uint64(4) {
		lost := int(g+1) % 3
		kill(t, syscall.SIGKILL, all[lost].PPID)
		all = x.reaches(2*g+3, 0, 1, 2)
		if !all[lost].Fresh || len(all[lost].Processes[lost].Ranks) == 0 {
			t.Fatalf("process %d has not its ranks again: %+v", lost, all[lost])
		}
	}
	x.make("finish")
	said := x.over(0)
	for _, s := range []string{"process 4, started as process 1, joined as a spare (1 spare)",
		"process 4 (a spare, started as process 1) takes over process 1 (rank 1), whose ranks had been reassigned",
		"process 7 (a spare, started as process 1) takes over process 1 (rank 1), whose ranks had been reassigned"} {
		if strings.Count(said, s) != 1 {
			t.Errorf("stderr %q, want once %q", said, s)
		}
	}
}

// A supervisor that ends before it joins is restarted too, after a doubled wait.
func TestLauncherRestartsWhatEndsBeforeItJoins(t *testing.T) {
	t.Parallel()
	x := begin(t, t.TempDir(), "TEST_NP=3", "TEST_ELASTIC=100 0", "TEST_DO=", "TEST_REVIVE=100ms")
	all := x.reaches(1, 0, 1, 2)
	x.make("broken")
	kill(t, syscall.SIGKILL, all[1].PPID)
	until(t, "two failures", func() bool { return strings.Contains(x.err1.String(), "the next one starts in 400ms") })
	x.remove("broken")
	until(t, "the third to join", func() bool {
		return strings.Contains(x.err1.String(), "process 4, started as process 1, joined as a spare (1 spare)")
	})
	x.make("finish")
	said := x.over(0)
	for _, s := range []string{
		"process 1: its supervisor is started again (attempt 1)\n",
		"process 1: the restarted supervisor ended before it joined the job (exit code 7); the next one starts in 200ms\n",
		"process 1: its supervisor is started again (attempt 2)\n",
		"process 1: the restarted supervisor ended before it joined the job (exit code 7); the next one starts in 400ms\n",
		"process 1: its supervisor is started again (attempt 3)\n",
	} {
		if strings.Count(said, s) != 1 {
			t.Errorf("stderr %q, want once %q", said, s)
		}
	}
}

// A second supervisor of a live place is refused, and so is one with another config.
func TestReturnsAndIsRefused(t *testing.T) {
	t.Parallel()
	x := startTogether(t, 3, 1, "100 0", "")
	all := x.reaches(1, 0, 1, 2)
	twin := begin(t, x.out, own(x.all[2].cmd.Env)...)
	if said := twin.refused(1); !strings.Contains(said, "process 2 has joined already; two processes were started with this number") {
		t.Errorf("said %q", said)
	}
	kill(t, syscall.SIGKILL, all[2].PPID)
	x.reaches(2, 0, 1)
	other := begin(t, x.out, append(own(x.all[2].cmd.Env), "TEST_SAME=another")...)
	if said := other.refused(1); !strings.Contains(said, "started with different configs or programs") {
		t.Errorf("said %q", said)
	}
	x.finish(0, 0, 1)
}

// refused waits for the end of a program that was refused.
func (x *trial) refused(code int) string {
	x.t.Helper()
	select {
	case <-x.finished:
	case <-time.After(patience):
		x.t.Fatal("the refused program does not end")
	}
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.t.Errorf("exit code %d, want %d", got, code)
	}
	return x.err1.String()
}
