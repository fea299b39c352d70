package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/train/traintest"
)

var launchers = flag.Bool("launchers", false, "also run what needs MPI libraries and their launchers")

// mpiLibrary is an MPI that the program can be built for.
type mpiLibrary struct {
	name, pkg, tags string
	launch          []string
}

var mpiLibraries = []mpiLibrary{
	{"Open MPI", "ompi-c", "mpi", []string{"mpirun.openmpi", "--oversubscribe"}},
	{"MPICH", "mpich", "mpi,mpich", []string{"mpiexec.mpich"}},
}

// eachMPI runs a test with each installed MPI, and the program built for it.
func eachMPI(t *testing.T, test func(t *testing.T, m mpiLibrary, program string)) {
	if !*launchers {
		t.Skip("builds and starts the program with every MPI: make test-launchers")
	}
	for _, m := range mpiLibraries {
		t.Run(m.name, func(t *testing.T) {
			if err := exec.Command("pkg-config", "--exists", m.pkg).Run(); err != nil {
				t.Skipf("no %s to build with (pkg-config %s)", m.name, m.pkg)
			}
			if _, err := exec.LookPath(m.launch[0]); err != nil {
				t.Skip(err)
			}
			test(t, m, build(t, m.pkg, ".", []string{"CGO_ENABLED=1"}, "-tags", m.tags))
		})
	}
}

// start prepares a number of processes of a program.
func (m mpiLibrary) start(vars []string, np int, program string, args ...string) (*exec.Cmd, *strings.Builder, *strings.Builder) {
	all := slices.Concat(m.launch[1:], []string{"-np", fmt.Sprint(np), program}, args)
	return start(m.launch[0], append([]string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_oob_tcp_if_include=lo", "OMPI_MCA_btl_tcp_if_include=lo"}, vars...), all...)
}

// run runs them to their end.
func (m mpiLibrary) run(t *testing.T, np int, program string, args ...string) ended {
	t.Helper()
	cmd, out, errs := m.start(nil, np, program, args...)
	return ended{exitCode(t, cmd.Run()), out.String(), errs.String()}
}

// With MPI between the processes the result is that of one process.
func TestOneDigestOverMPI(t *testing.T) { eachMPI(t, testOneDigestOverMPI) }

func testOneDigestOverMPI(t *testing.T, m mpiLibrary, program string) {
	out := filepath.Join(t.TempDir(), "out")
	sets := []string{"job.ranks=4", "train.iterations=10"}
	if r := run(t, program, nil, train(golden("dlrm-adagrad"), out, sets...)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	want := readSummary(t, out)
	for _, np := range []int{1, 2, 3, 4} {
		for _, mode := range []string{"none", "lrpp"}[np%2:] {
			what := fmt.Sprintf("%d processes, cache.mode %s", np, mode)
			r := m.run(t, np, program, append(train(golden("dlrm-adagrad"), out,
				append(sets, "collectives.transport=mpi", "cache.mode="+mode)...), "--overwrite")...)
			if r.code != 0 || strings.Count(r.stdout, "digest ") != 1 {
				t.Fatalf("%s: exit code %d, stdout %q, stderr %q", what, r.code, r.stdout, r.stderr)
			}
			if np > 1 && !strings.Contains(r.stdout, m.name) {
				t.Errorf("%s: MPI is not named: %q", what, r.stdout)
			}
			equal(t, what, readSummary(t, out), want)
		}
	}
	config := traintest.WriteJob(t)
	for _, f := range traintest.Forms {
		args := train(config, out, append([]string{"job.ranks=3", "train.iterations=5"}, f.Sets...)...)
		if r := run(t, program, nil, append(args, "--overwrite")...); r.code != 0 {
			t.Fatal(r.stderr)
		}
		want := readSummary(t, out)
		if r := m.run(t, 3, program, append(args, "--overwrite", "--set", "collectives.transport=mpi", "--set", "cache.mode=lrpp")...); r.code != 0 {
			t.Fatalf("%s: exit code %d, stderr %q", f.Name, r.code, r.stderr)
		}
		equal(t, f.Name, readSummary(t, out), want)
	}
}

// The loss of a process ends the job and leaves nothing behind. The job resumes from its newest
// checkpoint, with the same result.
func TestLossOverMPI(t *testing.T) { eachMPI(t, testLossOverMPI) }

func testLossOverMPI(t *testing.T, m mpiLibrary, program string) {
	dir := t.TempDir()
	whole, out := filepath.Join(dir, "whole"), filepath.Join(dir, "out")
	sets := []string{"job.ranks=4", "train.iterations=400", "train.log_every=1", "checkpoint.every=20",
		"checkpoint.dir=" + filepath.Join(dir, "checkpoints")}
	if r := run(t, program, nil, train(golden("dlrm-adagrad"), whole, sets[:2]...)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	sets = append(sets, "collectives.transport=mpi")
	mark := "ECREC_TEST_MARK=" + out
	cmd, stdout, stderr := m.start([]string{mark}, 4, program, train(golden("dlrm-adagrad"), out, sets...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x := &runningJob{mark: mark, pid: cmd.Process.Pid}
	untilSteps(t, out, 50)
	victim := 0
	for _, p := range x.processes() {
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid)); exe == program {
			victim = p.pid
		}
	}
	if victim == 0 {
		t.Fatal("no process of the program")
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
	r := m.run(t, 4, program, append(train(golden("dlrm-adagrad"), out, sets...), "--resume", "auto")...)
	if r.code != 0 {
		t.Fatalf("resumed: exit code %d, stderr %q", r.code, r.stderr)
	}
	if got, want := readSummary(t, out).Digest, readSummary(t, whole).Digest; got != want {
		t.Errorf("digest %s after the loss, %s without it", got, want)
	}
}

// Settings that do not work over MPI are refused before anything begins.
func TestMPIRefuses(t *testing.T) { eachMPI(t, testMPIRefuses) }

func testMPIRefuses(t *testing.T, m mpiLibrary, program string) {
	out := filepath.Join(t.TempDir(), "out")
	sets := []string{"job.ranks=4", "train.iterations=10", "collectives.transport=mpi"}
	if r := run(t, program, nil, append(train(golden("dlrm-adagrad"), out, sets...), "--np", "2")...); r.code != 2 ||
		!strings.Contains(r.stderr, "mpirun -np N") {
		t.Errorf("--np: %+v", r)
	}
	r := m.run(t, 2, program, train(golden("dlrm-adagrad"), out, append(sets, "ec.code=xor", "ec.k=3")...)...)
	if r.code != 2 || !strings.Contains(r.stderr, "the loss of a process ends the job") {
		t.Errorf("ec.code: %+v", r)
	}
	r = m.run(t, 2, ecrec(t), train(golden("dlrm-adagrad"), out, sets...)...)
	if r.code == 0 || !strings.Contains(r.stderr, "make build-mpi") {
		t.Errorf("a program without MPI: %+v", r)
	}
}

// The processes of one run are measured over MPI, in turn with shm and tcp. They exchange no wrong
// element, and only process 0 prints.
func TestBenchOverMPI(t *testing.T) { eachMPI(t, testBenchOverMPI) }

func testBenchOverMPI(t *testing.T, m mpiLibrary, program string) {
	args := []string{"bench", "collectives", "transport=mpi", "sizes=4096,65536", "operations=all_reduce,all_to_all_v",
		"--repeats", "1", "--format", "both"}
	r := m.run(t, 2, program, args...)
	if r.code != 0 || strings.Count(r.stdout, m.name) != 1 {
		t.Fatalf("%+v", r)
	}
	var got []string
	transport := ""
	for line := range strings.Lines(r.stdout) {
		words := strings.Fields(line)
		switch {
		case strings.Contains(line, ", 2 processes"):
			transport, _, _ = strings.Cut(line, ",")
		case len(words) >= 9 && strings.HasPrefix(words[0], "all_"): // with nccl-tests' columns
			got = append(got, strings.Join([]string{transport, words[0], words[1], words[4], "wrong", words[8]}, " "))
		case len(words) == 6 && words[5] == "1400": // with OSU's
			got = append(got, transport+" "+words[0])
		}
	}
	var want []string
	for _, transport := range []string{"mpi", "shm", "tcp"} {
		for _, row := range []string{"all_reduce 4096 sum wrong 0", "all_reduce 65536 sum wrong 0",
			"all_to_all_v 4096 none wrong 0", "all_to_all_v 65536 none wrong 0", "4096", "65536", "4096", "65536"} {
			want = append(want, transport+" "+row)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q, of %s", got, want, r.stdout)
	}
	if r := m.run(t, 2, program, append(args, "--format", "x")...); r.code != 2 ||
		strings.Count(r.stderr, "ecrec: bench: columns=x: want nccl, osu or both") != 1 {
		t.Errorf("%+v", r)
	}
	if r := m.run(t, 2, ecrec(t), args...); r.code != 2 || strings.Count(r.stderr, "make build-mpi") != 1 ||
		!strings.Contains(r.stderr, "mpirun -np N") {
		t.Errorf("a program without MPI: %+v", r)
	}
	checkRefused(t, run(t, program, nil, args...), 2, "mpirun -np N")
}
