package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// batch submits a batch script, waits for its end after the last requeue, and returns the job's code.
// sbatch --wait does not wait for a requeued job, and polls only every ten seconds.
var batch = way{"sbatch", true, []string{"bash", "-c", `
id=$(sbatch --parsable "$0") || exit
while :; do
	last=$state state=$(scontrol show job $id | grep -oE "JobState=[A-Z]+|ExitCode=[0-9]+")
	case $state in *PENDING*|*RUNNING*|*COMPLETING*|*REQUEUED*) ;; *) [ "$last" = "$state" ] && break ;; esac
	sleep .3
done
exit ${state##*ExitCode=}`}}

// sbatch submits the script that ecrec slurm prints. Its log is name.log.
func (s *site) sbatch(t *testing.T, name string, flags ...string) *launched {
	t.Helper()
	s.has(t, batch)
	args := append([]string{"slurm", s.config, "--ecrec", s.program, "--nodes", "4", "--set", "job.out=" + s.out(name),
		"--sbatch=--output=" + s.out(name+".log")}, flags...)
	r := run(t, s.program, nil, args...)
	if r.code != 0 {
		t.Fatalf("%+v", r)
	}
	script := s.out(name + ".sbatch")
	if err := os.WriteFile(script, []byte(r.stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if log, _ := os.ReadFile(s.out(name + ".log")); t.Failed() {
			t.Logf("%s.log:\n%s", name, log)
		}
	})
	return s.start(t, name, append(slices.Clone(batch.line), script))
}

// faulty replaces the program by a script that adds faults to ecrec train: ecrec slurm has no flag
// for them.
func (s *site) faulty(t *testing.T, name string, faults ...string) {
	t.Helper()
	program := "#!/bin/bash\n[ \"$1\" = slurm ] && exec " + s.program + " \"$@\"\nexec " + s.program + " \"$@\" " +
		strings.Join(faults, " ") + "\n"
	if err := os.WriteFile(s.out(name), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
}

// The script of ecrec slurm gives the digest, and survives the losses that it promises to survive.
func TestLaunchedSbatch(t *testing.T) {
	var each []string
	for rank := range 4 {
		each = append(each, "--chaos", fmt.Sprintf("kill:%d@%d", rank, 100+120*rank))
	}
	eachUser(t, func(t *testing.T, s *site) {
		for name, faults := range map[string][]string{"no-faults": nil, "each-worker": each,
			"supervisor-0": {"--chaos", "node:0@300"}, "supervisor-2": {"--chaos", "node:2@300"}} {
			t.Run(name, func(t *testing.T) {
				s.faulty(t, name+"-ecrec", faults...)
				s.sbatch(t, name, "--ecrec", s.out(name+"-ecrec")).over(t, 0)
				got := readSummary(t, s.out(name))
				if len(got.Recoveries) == 0 && faults != nil {
					t.Error("nothing was lost")
				}
				equal(t, name, got, s.want)
			})
		}
	})
}

// A spare node replaces a lost one, even the first, where the script runs. A task then ends the
// job.
func TestLaunchedSbatchNodeLost(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("nodes are lost by root only")
	}
	eachUser(t, func(t *testing.T, s *site) {
		sets := []string{"--set", "ranks.readers=1", "--set", "ec.k=2"}
		s.start(t, "three", s.command("three", sets...)).over(t, 0)
		want := readSummary(t, s.out("three"))
		for node, code := range map[int]int{1: 0, 0: anyCode} {
			t.Run(fmt.Sprint("node ", node), func(t *testing.T) {
				name := fmt.Sprint("lost-", node)
				x := s.sbatch(t, name, append(append(sets, s.checked(name)...), "--nodes", "3", "--spare-nodes", "1")...)
				s.untilRuns(t, name)
				repair := s.cluster(t).loseNode(t, node, x)
				x.over(t, code)
				repair()
				got := readSummary(t, s.out(name))
				if len(got.Recoveries) == 0 {
					t.Error("nothing was lost")
				}
				equal(t, name, got, want)
			})
		}
		t.Run("and SIGTERM", func(t *testing.T) {
			name := "lost-and-stopped"
			args := append(sets, s.checked(name)...)
			x := s.sbatch(t, name, append(args, "--nodes", "3", "--spare-nodes", "1", "--set", "train.iterations=100000000")...)
			s.untilRuns(t, name)
			repair := s.cluster(t).loseNode(t, 1, x)
			defer repair()
			until(t, "the loss to be made good", func() bool {
				log, _ := os.ReadFile(s.out(name + ".log"))
				return strings.Contains(string(log), "recovered")
			})
			began := time.Now()
			s.cluster(t).run(t, "scancel", "--batch", "--signal=TERM", s.cluster(t).job(t))
			x.over(t, 143)
			t.Logf("the job ended %v after SIGTERM", time.Since(began).Round(time.Second))
			if got := readSummary(t, s.out(name)); !got.Stopped {
				t.Errorf("%+v", got)
			}
		})
	})
}

// A job that receives USR1 saves, is requeued, resumes with the next sample, and ends with the
// result of an uninterrupted run. SIGTERM by scancel saves and ends.
func TestLaunchedSbatchTimeLimit(t *testing.T) {
	eachUser(t, func(t *testing.T, s *site) {
		name := "limit"
		x := s.sbatch(t, name, append(s.checked(name), "--set", "checkpoint.every=1000000")...)
		s.untilRuns(t, name)
		job := s.cluster(t).job(t)
		s.cluster(t).run(t, "scancel", "--batch", "--signal=USR1", job)
		until(t, "it to be queued again", func() bool { return s.cluster(t).queued(t, job) })
		// Slurm waits for two minutes, until nothing of the first start is left on the nodes.
		if err := s.cluster(t).idle(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		s.cluster(t).run(t, "scontrol", "update", "jobid="+job, "starttime=now")
		x.over(t, 0)
		equal(t, name, readSummary(t, s.out(name)), s.want)
		log, _ := os.ReadFile(s.out(name + ".log"))
		if saved := "requeued and will resume from this checkpoint"; !strings.Contains(string(log), "requeued 1 times") ||
			!strings.Contains(string(log), saved) {
			t.Error("it was not queued again, or had not saved")
		}

		name = "cancelled"
		args := s.checked(name)
		x = s.sbatch(t, name, append(args, "--set", "train.iterations=100000000")...)
		s.untilRuns(t, name)
		s.cluster(t).run(t, "scancel", "--signal=TERM", s.cluster(t).job(t))
		x.over(t, 143)
		s.stopped(t, batch, name, true, args...)
	})
}

// An error in the config ends the job, and nothing is requeued.
func TestLaunchedSbatchBadConfig(t *testing.T) {
	eachUser(t, func(t *testing.T, s *site) {
		s.faulty(t, "bad-ecrec", "--set", "train.iterations=0")
		s.sbatch(t, "bad", "--ecrec", s.out("bad-ecrec")).over(t, 2)
	})
}

// mpirun in a batch script, with the variables that Slurm sets for the script.
func TestLaunchedInSbatch(t *testing.T) {
	eachUser(t, func(t *testing.T, s *site) {
		for _, w := range []way{openMPI, mpich} {
			t.Run(w.name, func(t *testing.T) {
				s.has(t, batch)
				s.has(t, w)
				name := "inside-" + w.line[0]
				line := slices.Concat(w.line, []string{"4"}, s.command(name))
				// All nodes are this machine. The launchers must not start daemons on them by
				// srun, since they could not distinguish the nodes.
				vars := "export OMPI_MCA_plm=isolated OMPI_MCA_ras=simulator HYDRA_LAUNCHER=fork HYDRA_RMK=user\n"
				vars = strings.Replace(vars, " OMPI_MCA_ras=simulator", " OMPI_MCA_ras=^slurm", 1)
				script := s.out(name + ".sbatch")
				text := "#!/bin/bash\n#SBATCH --nodes=4 --ntasks=4 --output=" + s.out(name+".log") + "\n" + vars + strings.Join(line, " ") + "\n"
				if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				s.start(t, name, append(slices.Clone(batch.line), script)).over(t, 0)
				equal(t, w.name, readSummary(t, s.out(name)), s.want)
			})
		}
	})
}

// job returns the number of the one running job.
func (c *cluster) job(t *testing.T) string {
	t.Helper()
	out, err := c.command("squeue", "-h", "-t", "R", "-o", "%A").Output()
	if err != nil || len(strings.Fields(string(out))) != 1 {
		t.Fatalf("squeue: %q, %v", out, err)
	}
	return strings.TrimSpace(string(out))
}

// queued reports whether a job is requeued and waiting.
func (c *cluster) queued(t *testing.T, job string) bool {
	t.Helper()
	out, err := c.command("scontrol", "show", "job", job).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(out), "JobState=PENDING") && strings.Contains(string(out), "Reason=BeginTime")
}
