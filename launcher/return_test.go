package launcher

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startAgain starts a process of a job anew, whose place is lost.
func (x *together) startAgain(process int) {
	x.all = append(x.all, begin(x.t, x.out, own(x.all[process].cmd.Env)...))
}

// own are the variables with which a test starts a program.
func own(env []string) (vars []string) {
	for _, v := range env {
		for _, prefix := range []string{"TEST_", "RANK=", "WORLD_SIZE=", envSecret + "="} {
			if strings.HasPrefix(v, prefix) {
				vars = append(vars, v)
			}
		}
	}
	return vars
}

// A supervisor that is lost is started again: it takes its process back as soon as all is
// whole, and then others may be lost as before. Process 0's too.
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
			until(t, "it to be taken in", func() bool { return strings.Contains(x.said(), "has come; spares: 1") })
			time.Sleep(3 * testHeartbeat)
			if all := x.reaches(2, 1); all[0].Generation != 2 {
				t.Error("it takes back what is not whole")
			}
			x.make("whole")
			x.make("commit")
			all := x.reaches(3, 0, 1, 2)
			for p, s := range all {
				if got := fmt.Sprint(s.Processes[p].Ranks); got != fmt.Sprint(ranksOf(p, 3, 5)) {
					t.Errorf("process %d hosts %v", p, got)
				}
				if s.Fresh != (p == lost) {
					t.Errorf("process %d: fresh %v", p, s.Fresh)
				}
			}
			kill(t, syscall.SIGKILL, all[other].PPID)
			x.commits(4, min(1, lost), max(1, lost)) // until then its machine is new to the job
			kill(t, syscall.SIGKILL, all[lost].PID)
			x.reaches(5, min(1, lost), max(1, lost))
			x.finish(0, 1, 3)
		})
	}
}

// awaitRendezvous waits until another has opened the rendezvous, if it was that of process 0.
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

// Our launcher starts a supervisor in place of a lost one, again and again.
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
			t.Fatalf("process %d was not taken back: %+v", lost, all[lost])
		}
	}
	x.make("finish")
	said := x.over(0)
	for _, s := range []string{"process 4 (a spare, started as process 1) has come", "process 4 (a spare, started as process 1) takes back process 1 (rank 1)",
		"process 7 (a spare, started as process 1) takes back process 1 (rank 1)"} {
		if strings.Count(said, s) != 1 {
			t.Errorf("stderr %q, want once %q", said, s)
		}
	}
}

// One that is there is not there twice, and one with another config does not come.
func TestReturnsAndIsRefused(t *testing.T) {
	t.Parallel()
	x := startTogether(t, 3, 1, "100 0", "")
	all := x.reaches(1, 0, 1, 2)
	twin := begin(t, x.out, own(x.all[2].cmd.Env)...)
	if said := twin.refused(1); !strings.Contains(said, "process 2 is there already; two processes were started with this number") {
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
		x.t.Fatal("it does not end")
	}
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.t.Errorf("exit code %d, want %d", got, code)
	}
	return x.err1.String()
}
