package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The table of docs/clusters.md, row by row: the losses that a job survives under each launcher. A
// job that does not survive a loss ends soon and resumes from a checkpoint; nothing hangs.

// loss is the expected outcome of a loss.
type loss struct {
	way      way
	survives bool
	code     int // of the launcher
}

// endsWithin is how soon a job must end that does not survive a loss.
const endsWithin = 20 * time.Second

// checked lists settings with checkpoints, the first of them early.
func (s *site) checked(out string) []string {
	return []string{"--set", "checkpoint.dir=" + s.out(out+"-checkpoints"), "--set", "checkpoint.every=100", "--set", "checkpoint.keep=2"}
}

// takes checks the outcome of a loss against the table.
func (s *site) takes(t *testing.T, l loss, x *launched, repair func(), out string, args ...string) {
	t.Helper()
	began := time.Now()
	r := x.over(t, l.code)
	repair()
	if l.survives {
		got := readSummary(t, s.out(out))
		if len(got.Recoveries) == 0 {
			t.Error("nothing was lost")
		}
		equal(t, l.way.name, got, s.want)
		return
	}
	if r.code == 0 || time.Since(began) > endsWithin {
		t.Errorf("exit code %d after %v", r.code, time.Since(began))
	}
	s.resumed(t, l.way, out, args...)
}

// A worker dies with its supervisor, the process that the launcher started.
func TestLaunchedSupervisorKilled(t *testing.T) {
	eachUser(t, func(t *testing.T, s *site) {
		for _, l := range []loss{
			{openMPI, false, anyCode},
			{recovery, true, 0},
			{mpich, false, anyCode},
			{srun, true, 137}, // of the task that was killed
			{srunPMI, true, 137},
			{srunPlain, true, 137},
		} {
			for _, rank := range []int{0, 2} {
				t.Run(fmt.Sprintf("%s, rank %d", l.way.name, rank), func(t *testing.T) {
					out := fmt.Sprintf("node-%d-%s", rank, l.way.name)
					args := s.checked(out)
					x := s.train(t, l.way, 4, out, append(args, "--chaos", fmt.Sprintf("node:%d@300", rank))...)
					s.takes(t, l, x, func() {}, out, args...)
				})
			}
		}
	})
}

// With --no-kill a spare replaces a lost node, without it Slurm ends the job.
func TestLaunchedSlurmNodeLost(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("nodes are lost by root only")
	}
	eachUser(t, func(t *testing.T, s *site) {
		for _, l := range []loss{{srun, true, anyCode}, {srunPMI, true, anyCode}, {srunPlain, false, anyCode}} {
			t.Run(l.way.name, func(t *testing.T) {
				s.has(t, l.way)
				out := "lost-" + l.way.name
				// three train and one is spare
				args := append(s.checked(out), "--set", "elastic.spares=1", "--set", "ec.k=2", "--set", "ec.r=1", "--set", "ranks.readers=1")
				want := "three-" + l.way.name
				s.start(t, want, s.command(want, "--set", "ec.k=2", "--set", "ranks.readers=1")).over(t, 0)
				three := *s
				three.want = readSummary(t, s.out(want))
				x := s.train(t, l.way, 4, out, args...)
				s.untilRuns(t, out)
				three.takes(t, l, x, s.cluster(t).loseNode(t, 1, x), out, args...)
			})
		}
	})
}

// sshScript is a stand-in for ssh that runs commands on this machine, with temporary files of its
// own.
const sshScript = `#!/bin/bash
export TMPDIR=$(mktemp -d "$HOME/tmp.XXXXXX")
while [[ $1 = -* ]]; do shift; done
shift
exec bash -c "$*"
`

// A machine is lost, with mpirun's daemon on it. By default mpirun ends the job. With Open MPI's
// recovery the other processes continue, and then end mpirun, which would wait forever.
func TestLaunchedMachineLost(t *testing.T) {
	eachUser(t, func(t *testing.T, s *site) {
		host, err := os.Hostname()
		shell := s.out("shell") // in place of ssh: all machines are this one
		for _, err := range []error{err, os.WriteFile(shell, []byte(sshScript), 0o755)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		machines := []string{"--host", host + ":2,n1:1,n2:1", "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", shell,
			"--mca", "rtc", "^hwloc", "-np"} // daemons of one machine would share its files
		for _, l := range []loss{
			{way{"Open MPI", false, append([]string{"mpirun.openmpi"}, machines...)}, false, anyCode},
			{way{"Open MPI with recovery", false, append([]string{"mpirun.openmpi", "--enable-recovery"}, machines...)}, true, anyCode},
			{way{"MPICH", false, []string{"mpiexec.mpich", "-launcher", "ssh", "-launcher-exec", shell, "-hosts",
				host + ":2,n1:1,n2:1", "-np"}}, false, anyCode},
		} {
			t.Run(l.way.name, func(t *testing.T) {
				out := "machine-" + l.way.name
				args := s.checked(out)
				x := s.train(t, l.way, 4, out, args...)
				s.untilRuns(t, out)
				s.takes(t, l, x, x.loseDaemon(t), out, args...)
			})
		}
	})
}

// loseDaemon ends one of mpirun's daemons and all its children, as a power failure would.
func (x *launched) loseDaemon(t *testing.T) (repair func()) {
	t.Helper()
	var lost []int
	all := x.processes()
	for _, p := range all {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid))
		if name := strings.TrimSpace(string(comm)); name != "orted" && name != "hydra_pmi_proxy" {
			continue
		}
		lost = []int{p.pid}
		for _, child := range all {
			if child.parent == p.pid {
				lost = append(lost, child.pid)
			}
		}
	}
	if len(lost) < 2 {
		t.Fatalf("no daemon with a process in %v", all)
	}
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range lost {
			syscall.Kill(pid, signal)
		}
	}
	return func() {}
}

// If mpirun dies, all processes end. If srun dies, Slurm lets its step continue until scancel or
// its own end. But srun is two processes, and the second one ends the step if only the first dies.
func TestLaunchedLauncherKilled(t *testing.T) {
	eachUser(t, func(t *testing.T, s *site) {
		for _, w := range []way{openMPI, recovery, mpich, srun} {
			t.Run(w.name, func(t *testing.T) {
				s.trainWithout(t, w, "orphans-"+w.name, false).over(t, anyCode)
			})
		}
		t.Run("both of srun", func(t *testing.T) {
			x := s.trainWithout(t, srun, "orphans", true)
			select {
			case <-x.finished:
			case <-time.After(patience):
				t.Fatal("srun lives")
			}
			before := readSteps(t, s.out("orphans"))
			for seen := before; seen <= before+2000; { // however slow the machine is
				last := seen
				until(t, "another step", func() bool { seen = readSteps(t, s.out("orphans")); return seen > last })
			}
			x.finished <- nil
			s.cluster(t).cancelAll(t, "")
			x.over(t, anyCode)
		})
	})
}

// trainWithout starts a run of many steps and kills its launcher, with children also after the
// processes that it started.
func (s *site) trainWithout(t *testing.T, w way, out string, children bool) *launched {
	t.Helper()
	x := s.train(t, w, 4, out, append(s.checked(out), "--set", "train.iterations=100000000")...)
	s.untilRuns(t, out)
	for _, p := range x.processes() {
		if children && p.parent == x.pid {
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	syscall.Kill(x.pid, syscall.SIGKILL)
	return x
}

// readSteps returns the number of steps that a run has printed.
func readSteps(t *testing.T, out string) int {
	t.Helper()
	lines, err := os.ReadFile(filepath.Join(out, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(lines), `"loss":`)
}

// Ctrl-C and SIGTERM at mpirun reach the run, which saves and ends. srun forwards neither, and
// kills the run; scancel --signal=TERM reaches it. No process is left in any case, and the run
// resumes from its last save.
func TestLaunchedSignals(t *testing.T) {
	eachUser(t, func(t *testing.T, s *site) {
		for _, w := range []way{openMPI, mpich, srun, srunPMI} {
			for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
				t.Run(fmt.Sprintf("%s, signal %d", w.name, signal), func(t *testing.T) {
					out := fmt.Sprintf("signal-%d-%s", signal, w.name)
					args := s.checked(out)
					x := s.train(t, w, 4, out, append(args, "--set", "train.iterations=100000000")...)
					s.untilRuns(t, out)
					syscall.Kill(x.pid, signal)
					if w.slurm && signal == syscall.SIGINT { // the first only prints a question
						time.Sleep(200 * time.Millisecond)
						syscall.Kill(x.pid, signal)
					}
					if r := x.over(t, anyCode); r.code == 0 && w.name != mpich.name { // which may lose it
						t.Error("exit code 0")
					}
					s.stopped(t, w, out, !w.slurm, args...)
				})
			}
		}
	})
}

// After scancel with a signal the run saves. Without one it has KillWait to save.
func TestLaunchedScancel(t *testing.T) {
	eachUser(t, func(t *testing.T, s *site) {
		for _, how := range []string{"--signal=TERM", ""} {
			t.Run("scancel "+how, func(t *testing.T) {
				out := "scancel" + how
				args := s.checked(out)
				x := s.train(t, srun, 4, out, append(args, "--set", "train.iterations=100000000")...)
				s.untilRuns(t, out)
				s.cluster(t).cancelAll(t, how)
				x.over(t, anyCode)
				s.stopped(t, srun, out, true, args...)
			})
		}
	})
}

// stopped checks that a stopped run continues from where it saved, with the result of a run that was never stopped. Unless it must have
// saved, it may also go on from its newest checkpoint: srun kills its tasks one after another, some before they get the signal, so that
// the others save, end with an error of too many losses, or are killed as well.
func (s *site) stopped(t *testing.T, w way, out string, must bool, args ...string) {
	t.Helper()
	steps := int(newestCheckpoint(s.out(out + "-checkpoints")))
	if must || exists(filepath.Join(s.out(out), "summary.json")) {
		switch sum := readSummary(t, s.out(out)); {
		case sum.Stopped && sum.Steps >= steps:
			steps = sum.Steps
		case must || sum.Error == "":
			t.Errorf("%+v, and a checkpoint of step %d", sum, steps)
		}
	}
	end := fmt.Sprintf("train.iterations=%d", steps+20)
	s.start(t, out, s.command(out, append(args, "--set", end, "--resume", "auto")...)).over(t, 0)
	whole := out + "-whole"
	s.start(t, whole, s.command(whole, "--set", end)).over(t, 0)
	equal(t, w.name, readSummary(t, s.out(out)), readSummary(t, s.out(whole)))
}

// Two jobs at the same time do not connect to each other.
func TestLaunchedTwoJobs(t *testing.T) {
	asUsers(t, func(t *testing.T, s *site) {
		for _, w := range []way{openMPI, mpich, srun, srunPMI} {
			t.Run(w.name, func(t *testing.T) {
				if w.slurm {
					w.line = append([]string{w.line[0], "--oversubscribe"}, w.line[1:]...)
				}
				a, b := s.train(t, w, 2, "a-"+w.name), s.train(t, w, 2, "b-"+w.name)
				a.over(t, 0)
				b.over(t, 0)
				equal(t, "one job", readSummary(t, s.out("a-"+w.name)), s.want)
				equal(t, "the other", readSummary(t, s.out("b-"+w.name)), s.want)
			})
		}
	})
}

// The program is missing on one node. The launcher reports it. srun continues without the node, and
// ecrec reports the missing process. (MPICH may lose ecrec's output when it ends the job.)
func TestLaunchedBinaryMissing(t *testing.T) {
	eachUser(t, func(t *testing.T, s *site) {
		missing := s.out("not-there")
		for _, c := range []struct {
			way  way
			line []string
			says string
		}{
			{openMPI, []string{"mpirun.openmpi", "--oversubscribe", "-np", "3", s.program, "train", s.config, "--set",
				"job.out=" + s.out("m0"), ":", "-np", "1", missing}, missing},
			{mpich, []string{"mpiexec.mpich", "-np", "3", s.program, "train", s.config, "--set", "job.out=" + s.out("m1"), ":",
				"-np", "1", missing}, missing},
			{srun, append([]string{"srun", "--oversubscribe", "-N4", "-n4", "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "bash", "-c",
				`[ $SLURMD_NODENAME != n2 ] || exec "$0"; exec "$@"`, missing}, s.command("m2")...), missing},
		} {
			t.Run(c.way.name, func(t *testing.T) {
				t.Parallel() // some wait for a minute
				s.has(t, c.way)
				r := s.start(t, "missing "+c.way.name, c.line).over(t, anyCode)
				output := r.stderr + r.stdout
				if r.code == 0 || !strings.Contains(output, c.says) || c.way.slurm && !strings.Contains(output, "did not join within") {
					t.Errorf("exit code %d, stderr %q", r.code, r.stderr)
				}
			})
		}
	})
}
