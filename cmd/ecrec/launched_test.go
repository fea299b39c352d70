package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The tests of launched_*_test.go start jobs under the launchers of clusters, as root and as
// another user: make test-launchers.

// way is a way to start a job.
type way struct {
	name  string
	slurm bool
	line  []string // the words before the number of processes; the first word is a program
}

var (
	openMPI   = way{"Open MPI", false, []string{"mpirun.openmpi", "--oversubscribe", "-np"}}
	recovery  = way{"Open MPI with recovery", false, []string{"mpirun.openmpi", "--enable-recovery", "--oversubscribe", "-np"}}
	mpich     = way{"MPICH", false, []string{"mpiexec.mpich", "-np"}}
	srun      = way{"srun", true, []string{"srun", "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "-N4", "-n"}}
	srunPMI   = way{"srun --mpi=pmi2", true, []string{"srun", "--mpi=pmi2", "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "-N4", "-n"}}
	srunPlain = way{"srun without flags", true, []string{"srun", "-N4", "-n"}}
)

// site is the folder of a user who starts jobs, with the program, a run config, and the result of a
// run without faults.
type site struct {
	dir, program, config string
	uid                  int // -1: the tests' own
	want                 summary
}

const nobody = 65534

// siteConfig is a run of synthetic data, so that a user needs to read no other file.
const siteConfig = `
[data]
format = "synthetic"
[model]
embedding_dim = 8
bottom_mlp = [16, 8]
top_mlp = [16, 1]
tables = [2000, 500, 100, 20]
[train]
iterations = 600
global_batch = 64
log_every = 1
[optimizer.dense]
kind = "sgd"
lr = 0.1
[optimizer.sparse]
kind = "rowwise_adagrad"
lr = 0.02
[ec]
code = "xor"
k = 3
[job]
ranks = 4
save_model = false
`

// eachUser runs a test as the tests' own user and, if that is root, at the same time as the unprivileged user "nobody".
func eachUser(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	asUsers(t, func(t *testing.T, s *site) {
		t.Parallel() // both mostly wait
		test(t, s)
	})
}

// asUsers runs a test as eachUser does, for one user after the other.
func asUsers(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	if !*launchers {
		t.Skip("starts jobs with mpirun and Slurm: make test-launchers")
	}
	uids := map[string]int{"a user": -1}
	if os.Getuid() == 0 {
		uids = map[string]int{"root": -1, "a user": nobody}
	}
	for name, uid := range uids {
		t.Run(name, func(t *testing.T) {
			test(t, newSite(t, uid))
		})
	}
}

func newSite(t *testing.T, uid int) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "ecrec-site")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &site{dir: dir, program: filepath.Join(dir, "ecrec"), config: filepath.Join(dir, "run.toml"), uid: uid}
	program, err := os.ReadFile(ecrec(t))
	for _, err := range []error{err, os.Chmod(dir, 0o755), os.WriteFile(s.program, program, 0o755),
		os.WriteFile(s.config, []byte(siteConfig), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if uid >= 0 {
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.start(t, "alone", []string{s.program, "train", s.config, "--set", "job.out=" + s.out("alone")}).over(t, 0); r.code == 0 {
		s.want = readSummary(t, s.out("alone"))
	}
	return s
}

func (s *site) out(name string) string { return filepath.Join(s.dir, name) }

// has skips the test if this machine lacks a launcher.
func (s *site) has(t *testing.T, w way) {
	t.Helper()
	if _, err := exec.LookPath(w.line[0]); err != nil {
		t.Skipf("%s: %v", w.name, err)
	}
	if w.slurm {
		s.cluster(t)
	}
}

// train starts a job of a number of processes. out is its output folder, which also identifies its
// processes.
func (s *site) train(t *testing.T, w way, np int, out string, args ...string) *launched {
	t.Helper()
	s.has(t, w)
	return s.start(t, out, slices.Concat(w.line, []string{fmt.Sprint(np)}, s.command(out, args...)))
}

func (s *site) command(out string, args ...string) []string {
	return append([]string{s.program, "train", s.config, "--set", "job.out=" + s.out(out)}, args...)
}

// launched is a running job.
type launched struct {
	runningJob
	cmd       *exec.Cmd
	out, errs *sharedOutput
	finished  chan error
}

// sharedOutput is the output of a program. It can be read while the program writes.
type sharedOutput struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *sharedOutput) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *sharedOutput) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// start starts a command as the site's user.
func (s *site) start(t *testing.T, name string, line []string) *launched {
	t.Helper()
	x := &launched{out: &sharedOutput{}, errs: &sharedOutput{}, finished: make(chan error, 1)}
	x.mark = fmt.Sprintf("ECREC_TEST_MARK=%s-%d", s.out(name), time.Now().UnixNano())
	x.cmd = exec.Command(line[0], line[1:]...)
	x.cmd.Dir, x.cmd.Stdout, x.cmd.Stderr = s.dir, x.out, x.errs
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	x.cmd.WaitDelay = time.Second // srun's second process holds its output for a while
	if s.uid >= 0 {
		x.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}
	}
	x.cmd.Env = append(os.Environ(), x.mark, "HOME="+s.dir, "OMPI_MCA_oob_tcp_if_include=lo", "OMPI_MCA_btl_tcp_if_include=lo",
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "SLURM_CONF="+clusterConf(s.uid))
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x.pid = x.cmd.Process.Pid
	go func() { x.finished <- x.cmd.Wait() }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\nstdout: %s\nstderr: %s", strings.Join(line, " "), x.out, x.errs)
		}
		for _, p := range x.processes() {
			syscall.Kill(p.pid, syscall.SIGKILL)
		}
	})
	return x
}

// anyCode accepts every exit code: the launcher decides it.
const anyCode = -1

// launchedLimit is how long a job may take before the test fails.
const launchedLimit = 2 * time.Minute

// over waits for the end of a job, and checks its exit code and that no process is left.
func (x *launched) over(t *testing.T, code int) ended {
	t.Helper()
	var r ended
	select {
	case err := <-x.finished:
		if _, exited := err.(*exec.ExitError); err != nil && !exited && err != exec.ErrWaitDelay {
			t.Fatal(err)
		}
		r = ended{x.cmd.ProcessState.ExitCode(), x.out.String(), x.errs.String()}
	case <-time.After(launchedLimit):
		t.Fatalf("it hangs: %s", x.cmd)
	}
	if code != anyCode && r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	x.nothingLeft(t)
	return r
}

// untilRuns waits until a run has trained some steps.
func (s *site) untilRuns(t *testing.T, out string) {
	t.Helper()
	untilSteps(t, s.out(out), 20)
}

// resumed checks that a run resumes from its checkpoint and ends with the result of a run without
// faults.
func (s *site) resumed(t *testing.T, w way, out string, args ...string) {
	t.Helper()
	s.train(t, w, 4, out, append(args, "--resume", "auto")...).over(t, 0)
	equal(t, w.name+", resumed", readSummary(t, s.out(out)), s.want)
}
