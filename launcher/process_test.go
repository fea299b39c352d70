package launcher

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The tests of this file run the test binary as a program: launcher, supervisors
// and a small worker, which meets the others and then does what it is told.

func TestMain(m *testing.M) {
	if os.Getenv("TEST_JOB") != "" {
		os.Exit(program())
	}
	os.Exit(m.Run())
}

func program() int {
	w, err := Worker()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitBad
	}
	if w != nil {
		return work(w)
	}
	np, _ := strconv.Atoi(os.Getenv("TEST_NP"))
	ranks, _ := strconv.Atoi(os.Getenv("TEST_RANKS"))
	place, err := Detect(os.Getenv, np, os.Getenv("TEST_RDZV"))
	if err == nil {
		lim := limits{meet: 20 * time.Second, handshake: 5 * time.Second, end: 2 * time.Second}
		if d, err := time.ParseDuration(os.Getenv("TEST_MEET")); err == nil {
			lim.meet = d
		}
		spec := Spec{Ranks: ranks, Out: os.Getenv("TEST_OUT"), Args: os.Args[1:], Same: os.Getenv("TEST_SAME"), Stdout: os.Stdout, Stderr: os.Stderr}
		var code int
		if code, err = run(place, spec, lim); err == nil {
			return code
		}
	}
	fmt.Fprintln(os.Stderr, "ecrec:", err)
	if errors.Is(err, ErrPlace) {
		return exitBad
	}
	return exitFailed
}

// seen is what a worker of the tests writes into worker-P.json.
type seen struct {
	Generation     uint64
	Processes      []Process
	Secret         string // its digest
	PID, PPID, PGR int
	Left           []string // variables that should not be there
}

// work is the worker: it connects to all others, writes what it has seen, and
// does what TEST_DO says.
func work(w *World) int {
	out := os.Getenv("TEST_OUT")
	log, err := os.Create(filepath.Join(out, fmt.Sprintf("process-%d.log", w.Process)))
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(log, "worker %d has begun\n", w.Process)
	log.Close()
	fmt.Printf("worker %d speaks\n", w.Process)
	lost := mesh(w)
	sum := sha256.Sum256(w.Secret)
	s := seen{Generation: w.Generation, Processes: w.Processes, Secret: hex.EncodeToString(sum[:]), PID: os.Getpid(), PPID: os.Getppid(), PGR: syscall.Getpgrp()}
	for _, name := range []string{envProcess, envProcesses, envRdzv, envSecret, envControl, envWorker} {
		if os.Getenv(name) != "" {
			s.Left = append(s.Left, name)
		}
	}
	text, _ := json.Marshal(s)
	path := filepath.Join(out, fmt.Sprintf("worker-%d.json", w.Process))
	if os.WriteFile(path+"~", text, 0o644) != nil || os.Rename(path+"~", path) != nil {
		panic("cannot write " + path)
	}
	what, who, _ := strings.Cut(os.Getenv("TEST_DO"), ":")
	if who == "" || who == strconv.Itoa(w.Process) {
		switch what {
		case "done":
			return 0
		case "error":
			w.Report(Report{Code: 1, Error: "the disk is full\nand that is that"})
			return 1
		case "bad":
			w.Report(Report{Code: 2, Error: "data.csv:3: no number"})
			return 2
		case "panic":
			panic("a bug")
		case "exit":
			return 3
		case "parent": // of a process that it leaves behind
			if err := exec.Command("sleep", "1000").Start(); err != nil {
				panic(err)
			}
			fallthrough
		case "deaf":
			time.Sleep(time.Hour)
		}
	}
	for !w.StopRequested() {
		select {
		case <-lost:
			w.Report(Report{Code: 1, Error: "a peer is lost", Follows: true})
			return 1
		case <-time.After(2 * time.Millisecond):
		}
	}
	time.Sleep(20 * time.Millisecond) // all stop at the same step
	w.Report(Report{Code: 143, Error: "stopped by a signal", Stopped: true})
	return 143
}

// mesh connects the workers with each other; lost is closed when any goes.
func mesh(w *World) (lost chan struct{}) {
	lost = make(chan struct{})
	var once sync.Once
	watch := func(c net.Conn) {
		go func() {
			_, _ = io.Copy(io.Discard, c)
			once.Do(func() { close(lost) })
		}()
	}
	for p := range w.Process {
		c, err := net.Dial("tcp", w.Processes[p].Addr)
		if err != nil {
			panic(err)
		}
		watch(c)
	}
	for range len(w.Processes) - 1 - w.Process {
		c, err := w.Listener.Accept()
		if err != nil {
			panic(err)
		}
		watch(c)
	}
	return lost
}

// trial is a job of a test.
type trial struct {
	t        *testing.T
	id, out  string
	cmd      *exec.Cmd
	out1     strings.Builder
	err1     strings.Builder
	finished chan error
}

const patience = 30 * time.Second

// begin starts a program with variables; several may belong to one job.
func begin(t *testing.T, out string, vars ...string) *trial {
	t.Helper()
	return beginWith(t, out, nil, vars...)
}

// beginWith gives the program files from descriptor 3 on.
func beginWith(t *testing.T, out string, files []*os.File, vars ...string) *trial {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprintf("%d-%s", os.Getpid(), filepath.Base(t.TempDir())+t.Name())
	x := &trial{t: t, id: id, out: out, cmd: exec.Command(self), finished: make(chan error, 1)}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "SLURM_") && !strings.HasPrefix(name, "OMPI_") && !strings.HasPrefix(name, "PMI_") && name != "WORLD_SIZE" {
			x.cmd.Env = append(x.cmd.Env, v)
		}
	}
	x.cmd.Env = append(x.cmd.Env, append([]string{"TEST_JOB=" + id, "TEST_RANKS=4", "TEST_OUT=" + out, "TEST_DO=loop"}, vars...)...)
	x.cmd.Stdout, x.cmd.Stderr, x.cmd.ExtraFiles = &x.out1, &x.err1, files
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { x.finished <- x.cmd.Wait() }()
	t.Cleanup(func() {
		for _, pid := range processes(id) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return x
}

// processes are those that have a job's variable.
func processes(id string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains("\x00"+string(text), "\x00TEST_JOB="+id+"\x00") {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// until waits for something to become true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// running waits until n workers have met, and returns what they have seen.
func (x *trial) running(n int) []seen {
	x.t.Helper()
	all := make([]seen, n)
	for p := range all {
		until(x.t, fmt.Sprintf("worker %d", p), func() bool {
			text, err := os.ReadFile(filepath.Join(x.out, fmt.Sprintf("worker-%d.json", p)))
			if err != nil && len(x.finished) > 0 {
				x.t.Fatalf("the job has ended: %s", x.err1.String())
			}
			return err == nil && json.Unmarshal(text, &all[p]) == nil
		})
	}
	return all
}

// ends waits for the program's end and checks its exit code and what it says; no
// word means that it must say nothing. Nothing of it may be left.
func (x *trial) ends(code int, says ...string) {
	x.t.Helper()
	select {
	case err := <-x.finished:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			x.t.Fatal(err)
		}
	case <-time.After(patience):
		x.t.Fatalf("the job does not end; stderr %q", x.err1.String())
	}
	text := x.err1.String()
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.t.Errorf("exit code %d, want %d; stderr %q", got, code, text)
	}
	if lines := strings.Count(text, "ecrec: "); len(says) == 0 && text != "" || len(says) > 0 && lines != 1 {
		x.t.Errorf("stderr has %d messages: %q", lines, text)
	}
	for _, s := range says {
		if !strings.Contains(text, s) {
			x.t.Errorf("stderr %q lacks %q", text, s)
		}
	}
	// A process that is killed takes a moment to go.
	until(x.t, "the last process to go", func() bool { return len(processes(x.id)) == 0 })
}

func TestJobs(t *testing.T) {
	for _, c := range []struct {
		name string
		vars []string
		code int
		says []string
		one  bool // exactly one line on stderr
	}{
		{name: "two", vars: []string{"TEST_NP=2", "TEST_DO=done"}},
		{name: "four", vars: []string{"TEST_NP=4", "TEST_DO=done"}},
		{name: "at an address", vars: []string{"TEST_NP=2", "TEST_DO=done", "TEST_RDZV=127.0.0.1:" + freePort(t)}},
		{name: "an error", vars: []string{"TEST_NP=3", "TEST_DO=error:1"}, code: 1, one: true, says: []string{"ecrec: process 1 (rank 1): the disk is full; and that is that"}},
		{name: "an error on process 0", vars: []string{"TEST_NP=3", "TEST_DO=error:0"}, code: 1, one: true, says: []string{"ecrec: process 0 (ranks 0, 3): the disk is full"}},
		{name: "bad input", vars: []string{"TEST_NP=3", "TEST_DO=bad"}, code: 2, one: true, says: []string{"ecrec: data.csv:3: no number"}},
		{name: "a panic", vars: []string{"TEST_NP=2", "TEST_DO=panic:1"}, code: 1,
			says: []string{"ecrec: process 1 (ranks 1, 3) crashed: panic: a bug; the end of ", "process-1.log:\n  | ", "goroutine"}},
		{name: "an exit without a word", vars: []string{"TEST_NP=2", "TEST_DO=exit:0"}, code: 1,
			says: []string{"process 0 (ranks 0, 2) ended with exit code 3 and gave no reason; the end of ", "| worker 0 has begun"}},
		{name: "more processes than ranks", vars: []string{"TEST_NP=5"}, code: 2, one: true, says: []string{"5 processes for 4 ranks", "job.ranks"}},
		{name: "disagreement", vars: []string{"TEST_NP=4", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2"}, code: 2, one: true, says: []string{"--np 4 disagrees", "OMPI_COMM_WORLD_SIZE=2"}},
		{name: "no secret", vars: []string{"RANK=1", "WORLD_SIZE=2", "TEST_RDZV=127.0.0.1:1"}, code: 2, one: true, says: []string{"ECREC_SECRET", "openssl"}},
		{name: "an address elsewhere", vars: []string{"TEST_NP=2", "TEST_RDZV=192.0.2.1:4000"}, code: 1, one: true, says: []string{"192.0.2.1:4000 is not on this machine"}},
		{name: "nobody else comes", vars: []string{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + freePort(t), "TEST_MEET=300ms"}, code: 1, one: true,
			says: []string{"process 1 (ranks 1, 3) did not come within 300ms (1 of 2 did)"}},
		{name: "process 0 does not come", vars: []string{"RANK=1", "WORLD_SIZE=2", "TEST_RDZV=127.0.0.1:" + freePort(t), "TEST_MEET=300ms", "ECREC_SECRET=0123456789abcdef"}, code: 1, one: true,
			says: []string{"process 0 was not found there for 300ms", "connection refused", "--rdzv"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := begin(t, t.TempDir(), c.vars...)
			x.ends(c.code, c.says...)
			if text := x.err1.String(); c.one && strings.Count(text, "\n") != 1 {
				t.Errorf("stderr is not one line: %q", text)
			}
			if out := x.out1.String(); c.code == 0 && out != "worker 0 speaks\n" {
				t.Errorf("stdout %q", out)
			}
		})
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// All workers see one world.
func TestWorld(t *testing.T) {
	t.Parallel()
	x := begin(t, t.TempDir(), "TEST_NP=3")
	all := x.running(3)
	x.cmd.Process.Signal(syscall.SIGTERM)
	x.ends(143, "stopped by a signal")
	for p, s := range all {
		if len(s.Processes) != 3 || s.Generation != 1 || s.Secret != all[0].Secret || len(s.Left) > 0 || s.PGR != s.PID {
			t.Errorf("worker %d has seen %+v", p, s)
		}
		for q, o := range s.Processes {
			if fmt.Sprint(o.Ranks) != fmt.Sprint(ranksOf(q, 3, 4)) || o.Host == "" || o.Host != s.Processes[0].Host || !isLoopback(o.Addr) || o.Addr != all[0].Processes[q].Addr {
				t.Errorf("worker %d sees process %d as %+v", p, q, o)
			}
		}
	}
}

func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name   string
		whom   func(x *trial, all []seen) int
		signal syscall.Signal
		do     string
		times  int
		code   int
	}{
		{"SIGTERM at the launcher", func(x *trial, _ []seen) int { return x.cmd.Process.Pid }, syscall.SIGTERM, "loop", 1, 143},
		{"SIGINT at the launcher", func(x *trial, _ []seen) int { return x.cmd.Process.Pid }, syscall.SIGINT, "loop", 1, 130},
		{"SIGTERM at supervisor 0", func(_ *trial, all []seen) int { return all[0].PPID }, syscall.SIGTERM, "loop", 1, 143},
		{"SIGINT at supervisor 1", func(_ *trial, all []seen) int { return all[1].PPID }, syscall.SIGINT, "loop", 1, 130},
		{"two at the launcher", func(x *trial, _ []seen) int { return x.cmd.Process.Pid }, syscall.SIGINT, "deaf", 2, 130},
		{"two at supervisor 1", func(_ *trial, all []seen) int { return all[1].PPID }, syscall.SIGTERM, "deaf", 2, 143},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := begin(t, t.TempDir(), "TEST_NP=2", "TEST_DO="+c.do)
			all := x.running(2)
			for i := range c.times {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond) // two at once would be one
				if err := syscall.Kill(c.whom(x, all), c.signal); err != nil {
					t.Fatal(err)
				}
			}
			if c.times > 1 {
				x.ends(c.code)
				return
			}
			x.ends(c.code, "ecrec: stopped by a signal\n")
		})
	}
}

// A worker does not take signals meant for the job from elsewhere.
func TestWorkerIgnoresSignals(t *testing.T) {
	t.Parallel()
	x := begin(t, t.TempDir(), "TEST_NP=2")
	all := x.running(2)
	for _, s := range all {
		syscall.Kill(s.PID, syscall.SIGINT)
		syscall.Kill(s.PID, syscall.SIGTERM)
	}
	time.Sleep(50 * time.Millisecond)
	if len(x.finished) > 0 {
		t.Fatal("the job has ended")
	}
	x.cmd.Process.Signal(syscall.SIGTERM)
	x.ends(143, "stopped by a signal")
}

func TestKills(t *testing.T) {
	for _, c := range []struct {
		name string
		whom func(x *trial, all []seen) int
		do   string
		code int
		says []string
	}{
		{"worker 0", func(_ *trial, all []seen) int { return all[0].PID }, "loop", 1, []string{"process 0 (ranks 0, 2) was ended by signal 9", "process-0.log:\n  | worker 0 has begun"}},
		{"worker 1", func(_ *trial, all []seen) int { return all[1].PID }, "loop", 1, []string{"process 1 (ranks 1, 3) was ended by signal 9", "process-1.log:\n  | worker 1 has begun"}},
		{"worker 1, others deaf", func(_ *trial, all []seen) int { return all[1].PID }, "parent", 1, []string{"process 1 (ranks 1, 3) was ended by signal 9"}},
		{"supervisor 0", func(_ *trial, all []seen) int { return all[0].PPID }, "loop", 1, []string{"process 0 (ranks 0, 2) is lost: its supervisor was ended by signal 9"}},
		{"supervisor 1", func(_ *trial, all []seen) int { return all[1].PPID }, "loop", 1, []string{"process 1 (ranks 1, 3) is lost: its supervisor is gone"}},
		{"supervisor 1, others deaf", func(_ *trial, all []seen) int { return all[1].PPID }, "deaf:0", 1, []string{"process 1 (ranks 1, 3) is lost: its supervisor is gone"}},
		{"the launcher", func(x *trial, _ []seen) int { return x.cmd.Process.Pid }, "loop", -1, nil},
		{"the launcher, workers deaf", func(x *trial, _ []seen) int { return x.cmd.Process.Pid }, "deaf", -1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := begin(t, t.TempDir(), "TEST_NP=2", "TEST_DO="+c.do)
			if err := syscall.Kill(c.whom(x, x.running(2)), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			x.ends(c.code, c.says...)
		})
	}
}

// Processes that something else starts find each other.
func TestPlacesFromTheEnvironment(t *testing.T) {
	secret := "ECREC_SECRET=00112233445566778899"
	port := freePort(t)
	for name, vars := range map[string][]string{
		"torchrun's, one host":   {"RANK=%d", "WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + freePort(t)},
		"torchrun's, over tcp":   {"RANK=%d", "WORLD_SIZE=3", "TEST_RDZV=127.0.0.1:" + port, secret},
		"Open MPI's":             {"OMPI_COMM_WORLD_RANK=%d", "OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_LOCAL_SIZE=3", fmt.Sprintf("PMIX_NAMESPACE=%d", os.Getpid())},
		"Slurm's":                {"SLURM_PROCID=%d", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=1", fmt.Sprintf("SLURM_JOB_ID=%d", os.Getpid())},
		"Slurm's, on some nodes": {"SLURM_PROCID=%d", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=3", "SLURM_STEP_NODELIST=localhost,b,c", fmt.Sprintf("SLURM_JOB_ID=%d", os.Getpid()), secret},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			var all []*trial
			for p := 2; p >= 0; p-- {
				mine := []string{"TEST_DO=done"}
				for _, v := range vars {
					mine = append(mine, strings.ReplaceAll(v, "%d", strconv.Itoa(p)))
				}
				all = append(all, begin(t, out, mine...))
			}
			for _, x := range all {
				x.ends(0)
			}
		})
	}
}

// Without a launcher of ours every place ends as the job does, and one speaks.
func TestFailureWithoutLauncher(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	var all []*trial
	for p := range 3 {
		all = append(all, begin(t, out, fmt.Sprintf("RANK=%d", p), "WORLD_SIZE=3", "MASTER_ADDR=localhost", "MASTER_PORT=117", "TEST_DO=error:2"))
	}
	all[0].ends(1, "process 2 (rank 2): the disk is full")
	all[1].ends(1)
	all[2].ends(1)

	all, out = nil, t.TempDir()
	for p := range 3 {
		all = append(all, begin(t, out, fmt.Sprintf("RANK=%d", p), "WORLD_SIZE=3", "MASTER_ADDR=localhost", "MASTER_PORT=118"))
	}
	all[0].running(3)
	all[0].cmd.Process.Kill()
	all[0].ends(-1)
	all[1].ends(1, "process 0 is lost")
	all[2].ends(1)
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	begin(t, t.TempDir(), "TEST_NP=2", "TEST_RDZV="+l.Addr().String()).ends(1, l.Addr().String()+" is in use", "--rdzv")
}

func TestWrongSecret(t *testing.T) {
	t.Parallel()
	rdzv := "TEST_RDZV=127.0.0.1:" + freePort(t)
	right, wrong := "ECREC_SECRET=0123456789abcdef", "ECREC_SECRET=0123456789abcdeX"
	host := begin(t, t.TempDir(), "RANK=0", "WORLD_SIZE=2", rdzv, right, "TEST_MEET=1500ms")
	begin(t, t.TempDir(), "RANK=1", "WORLD_SIZE=2", rdzv, wrong).ends(1, "process 1 was refused: it does not know this job's secret")
	host.ends(1, "process 1 (ranks 1, 3) did not come", "Refused was 127.0.0.1:", "does not know this job's secret")

	// A stranger does not keep the job from beginning.
	host = begin(t, t.TempDir(), "RANK=0", "WORLD_SIZE=2", rdzv, right, "TEST_DO=done")
	begin(t, t.TempDir(), "RANK=1", "WORLD_SIZE=2", rdzv, wrong).ends(1, "refused")
	begin(t, t.TempDir(), "RANK=1", "WORLD_SIZE=2", rdzv, right, "TEST_SAME=another config").ends(1, "different configs")
	begin(t, t.TempDir(), "RANK=1", "WORLD_SIZE=3", rdzv, right).ends(1, "one of 3")
	begin(t, host.out, "RANK=1", "WORLD_SIZE=2", rdzv, right, "TEST_DO=done").ends(0)
	host.ends(0)
}

// One process sits where the rendezvous should be, and is none of ours.
func TestStrangerAtTheRendezvous(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n", strings.Repeat("x", 100))
			c.Close()
		}
	}()
	begin(t, t.TempDir(), "RANK=1", "WORLD_SIZE=2", "TEST_RDZV="+l.Addr().String(), "ECREC_SECRET=0123456789abcdef").
		ends(1, "not this job's process 0")
}

func TestTwoJobsAtOnce(t *testing.T) {
	t.Parallel()
	a, b := begin(t, t.TempDir(), "TEST_NP=2"), begin(t, t.TempDir(), "TEST_NP=2")
	seenA, seenB := a.running(2), b.running(2)
	if seenA[0].Secret == seenB[0].Secret {
		t.Error("two jobs have one secret")
	}
	a.cmd.Process.Kill()
	a.ends(-1)
	if len(b.finished) > 0 {
		t.Error("one job ended the other")
	}
	b.cmd.Process.Signal(syscall.SIGINT)
	b.ends(130, "stopped by a signal")
}
