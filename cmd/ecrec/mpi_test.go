package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mpiProgram is the program as built for Open MPI, and what starts it.
func mpiProgram(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("building the program once more takes long")
	}
	if err := exec.Command("pkg-config", "--exists", "ompi-c").Run(); err != nil {
		t.Skip("no Open MPI to build with (pkg-config ompi-c)")
	}
	if _, err := exec.LookPath("mpirun"); err != nil {
		t.Skip(err)
	}
	return build(t, "mpi", ".", []string{"CGO_ENABLED=1"}, "-tags", "mpi")
}

// mpirun starts so many processes of a program.
func mpirun(np int, program string, args ...string) []string {
	return append([]string{"-np", fmt.Sprint(np), "--oversubscribe", program}, args...)
}

var asRoot = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_oob_tcp_if_include=lo", "OMPI_MCA_btl_tcp_if_include=lo"}

// TestOneDigestOverMPI: with MPI between the processes the result is that of one process.
func TestOneDigestOverMPI(t *testing.T) {
	program, out := mpiProgram(t), filepath.Join(t.TempDir(), "out")
	sets := []string{"job.ranks=4", "train.iterations=10"}
	if r := run(t, program, nil, train(golden("dlrm-adagrad"), out, sets...)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	want := readSummary(t, out)
	for _, np := range []int{1, 2, 3, 4} {
		for _, mode := range []string{"none", "lrpp"} {
			what := fmt.Sprintf("%d processes, cache.mode %s", np, mode)
			r := run(t, "mpirun", asRoot, mpirun(np, program, train(golden("dlrm-adagrad"), out, append(sets, "collectives.transport=mpi", "cache.mode="+mode)...)...)...)
			if r.code != 0 || strings.Count(r.stdout, "digest ") != 1 {
				t.Fatalf("%s: exit code %d, stdout %q, stderr %q", what, r.code, r.stdout, r.stderr)
			}
			if np > 1 && !strings.Contains(r.stdout, "Open MPI") {
				t.Errorf("%s: MPI is not named: %q", what, r.stdout)
			}
			equal(t, what, readSummary(t, out), want)
		}
	}
}

// TestLossOverMPI: a process that is killed ends the job, and leaves nothing behind; the
// job goes on from its newest checkpoint, to the same result.
func TestLossOverMPI(t *testing.T) {
	program, dir := mpiProgram(t), t.TempDir()
	whole, out := filepath.Join(dir, "whole"), filepath.Join(dir, "out")
	sets := []string{"job.ranks=4", "train.iterations=400", "train.log_every=1", "checkpoint.every=20", "checkpoint.dir=" + filepath.Join(dir, "checkpoints")}
	if r := run(t, program, nil, train(golden("dlrm-adagrad"), whole, sets[:2]...)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	sets = append(sets, "collectives.transport=mpi")
	mark := "ECREC_TEST_MARK=" + out
	cmd, stdout, stderr := start("mpirun", append(asRoot, mark), mpirun(4, program, train(golden("dlrm-adagrad"), out, sets...)...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x := &runningJob{mark: mark, pid: cmd.Process.Pid}
	untilSteps(t, out, 50)
	victim := 0
	for _, p := range x.processes() {
		if p.pid != cmd.Process.Pid {
			victim = p.pid
		}
	}
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if code := exitCode(t, cmd.Wait()); code == 0 {
		t.Errorf("exit code 0, stdout %q, stderr %q", stdout.String(), stderr.String())
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the job ends %v after the loss", took)
	}
	until(t, "all processes to end", func() bool { return len(x.processes()) == 0 })
	r := run(t, "mpirun", asRoot, mpirun(4, program, append(train(golden("dlrm-adagrad"), out, sets...), "--resume", "auto")...)...)
	if r.code != 0 {
		t.Fatalf("resumed: exit code %d, stderr %q", r.code, r.stderr)
	}
	if got, want := readSummary(t, out).Digest, readSummary(t, whole).Digest; got != want {
		t.Errorf("digest %s after the loss, %s without it", got, want)
	}
}

// TestMPIRefuses: what MPI cannot do is said before anything begins.
func TestMPIRefuses(t *testing.T) {
	program, out := mpiProgram(t), filepath.Join(t.TempDir(), "out")
	sets := []string{"job.ranks=4", "train.iterations=10", "collectives.transport=mpi"}
	if r := run(t, program, nil, append(train(golden("dlrm-adagrad"), out, sets...), "--np", "2")...); r.code != 2 || !strings.Contains(r.stderr, "mpirun -np N") {
		t.Errorf("--np: %+v", r)
	}
	r := run(t, "mpirun", asRoot, mpirun(2, program, train(golden("dlrm-adagrad"), out, append(sets, "ec.code=xor", "ec.k=3")...)...)...)
	if r.code != 2 || !strings.Contains(r.stderr, "the loss of a process ends the job") {
		t.Errorf("ec.code: %+v", r)
	}
	r = run(t, "mpirun", asRoot, mpirun(2, ecrec(t), train(golden("dlrm-adagrad"), out, sets...)...)...)
	if r.code == 0 || !strings.Contains(r.stderr, "make build-mpi") {
		t.Errorf("a program without MPI: %+v", r)
	}
}
