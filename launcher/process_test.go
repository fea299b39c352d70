package launcher

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The tests of processes_*_test.go run the test binary as a program: launcher, supervisors
// and a small worker, which meets the others and then does what it is told.

func TestMain(m *testing.M) {
	if os.Getenv("TEST_JOB") != "" {
		os.Exit(program())
	}
	os.Exit(m.Run())
}

func program() int {
	if os.Getenv("TEST_PARENT") != "" { // in place of mpirun
		os.Unsetenv("TEST_PARENT")
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		if err := cmd.Run(); err != nil {
			panic(err)
		}
		return 0
	}
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
		lim := limits{meet: 20 * time.Second, reform: 10 * time.Second, handshake: 5 * time.Second, end: 2 * time.Second, revive: time.Hour, idle: 50 * time.Millisecond}
		if d, err := time.ParseDuration(os.Getenv("TEST_MEET")); err == nil {
			lim.meet = d
		}
		if d, err := time.ParseDuration(os.Getenv("TEST_REVIVE")); err == nil {
			lim.revive = d
		}
		spec := Spec{Ranks: ranks, Out: os.Getenv("TEST_OUT"), Args: os.Args[1:], Same: os.Getenv("TEST_SAME"), Stdout: os.Stdout, Stderr: os.Stderr}
		if text := os.Getenv("TEST_ELASTIC"); text != "" {
			spec.Elastic, spec.Heartbeat = true, testHeartbeat
			if spec.Keep, err = os.CreateTemp(os.Getenv("TEST_OUT"), "kept-"); err != nil {
				panic(err)
			}
			if _, err := fmt.Sscan(text, &spec.MaxRestarts, &spec.Spares); err != nil {
				panic(err)
			}
			if place.Launch {
				place.Processes += spec.Spares
			}
			spec.Prepare = prepareSlowly
		}
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
	Fresh          bool
	Kept           string    // the workers that had the kept file
	Told           time.Time // when the worker knew the world
	Committed      bool      // and has told of a commit
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
	if slices.Contains(w.Processes[w.Process].Ranks, 0) {
		fmt.Printf("worker %d speaks\n", w.Process)
	}
	if os.Getenv("TEST_ELASTIC") != "" {
		if _, err := syscall.Write(KeptFile, fmt.Appendf(nil, "%d ", os.Getpid())); err != nil {
			panic(err)
		}
		return workOn(w)
	}
	peers, err := mesh(w)
	if err != nil {
		panic(err)
	}
	record(w, time.Now(), false)
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
	for stop := false; !stop; {
		select {
		case <-peers.lost:
			w.Report(Report{Code: 1, Error: "a peer is lost", Follows: true})
			return 1
		case <-peers.stopped:
			stop = true
		case <-time.After(2 * time.Millisecond):
			stop = w.StopRequested()
		}
	}
	for _, c := range peers.conns { // all stop at the same step
		_, _ = c.Write([]byte{1})
	}
	w.Report(Report{Code: 143, Error: "stopped by a signal", Stopped: true})
	return 143
}

// record writes worker-P.json.
func record(w *World, told time.Time, committed bool) {
	sum := sha256.Sum256(w.Secret)
	s := seen{Generation: w.Generation, Processes: w.Processes, Secret: hex.EncodeToString(sum[:]), PID: os.Getpid(), PPID: os.Getppid(), PGR: syscall.Getpgrp(), Fresh: w.Fresh, Told: told, Committed: committed}
	for _, name := range []string{envProcess, envProcesses, envRdzv, envSecret, envControl, envWorker} {
		if os.Getenv(name) != "" {
			s.Left = append(s.Left, name)
		}
	}
	if os.Getenv("TEST_ELASTIC") != "" {
		kept := make([]byte, 1000)
		n, _ := syscall.Pread(KeptFile, kept, 0)
		s.Kept = string(kept[:n])
	}
	text, _ := json.Marshal(s)
	path := filepath.Join(os.Getenv("TEST_OUT"), fmt.Sprintf("worker-%d.json", w.Process))
	if os.WriteFile(path+"~", text, 0o644) != nil || os.Rename(path+"~", path) != nil {
		panic("cannot write " + path)
	}
}

// peers are a worker's connections to all others. Of the channels one gets a value
// when the first of the others says that it stops, or is gone without.
type peers struct {
	conns         []net.Conn
	stopped, lost chan struct{}
}

// mesh connects the workers with each other.
func mesh(w *World) (*peers, error) {
	p := &peers{stopped: make(chan struct{}, 1), lost: make(chan struct{}, 1)}
	var once sync.Once
	watch := func(c net.Conn) {
		p.conns = append(p.conns, c)
		go func() {
			n, _ := c.Read(make([]byte, 1))
			once.Do(func() {
				if n == 1 {
					p.stopped <- struct{}{}
				} else {
					p.lost <- struct{}{}
				}
			})
		}()
	}
	higher := 0
	for q, o := range w.Processes {
		switch {
		case len(o.Ranks) == 0 || q == w.Process:
		case q > w.Process:
			higher++
		default:
			c, err := net.Dial("tcp", o.Addr)
			if err != nil {
				return p, err
			}
			watch(c)
		}
	}
	for range higher {
		c, err := w.Listener.Accept()
		if err != nil {
			return p, err
		}
		watch(c)
	}
	return p, nil
}

// trial is a job of a test.
type trial struct {
	t        *testing.T
	id, out  string
	cmd      *exec.Cmd
	out1     strings.Builder
	err1     text
	finished chan error
}

// text is what a program says, which may be read while it runs.
type text struct {
	mu   sync.Mutex
	said strings.Builder
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.said.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.said.String()
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
	x.cmd.Env = append(x.cmd.Env, append([]string{"TEST_JOB=" + id, "TEST_RANKS=4", "TEST_OUT=" + out, "TEST_DO=loop", "GORACE=atexit_sleep_ms=0"}, vars...)...)
	x.cmd.Stdout, x.cmd.Stderr, x.cmd.ExtraFiles = &x.out1, &x.err1, files
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { x.finished <- x.cmd.Wait() }()
	t.Cleanup(func() {
		if t.Failed() {
			x.show()
		}
		for _, pid := range processes(id) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return x
}

// show is for those who look for a fault: where all processes wait, and what they wrote.
func (x *trial) show() {
	for _, pid := range processes(x.id) {
		syscall.Kill(pid, syscall.SIGQUIT)
	}
	time.Sleep(time.Second)
	x.t.Logf("stderr:\n%s", x.err1.String())
	logs, _ := filepath.Glob(filepath.Join(x.out, "process-*.log"))
	for _, path := range logs {
		text, _ := os.ReadFile(path)
		x.t.Logf("%s:\n%s", filepath.Base(path), text[:min(len(text), 16<<10)])
	}
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
	text := x.over(code)
	if code == -1 {
		return // somebody killed it: what the others said while they went is no matter
	}
	if lines := strings.Count(text, "ecrec: "); len(says) == 0 && text != "" || len(says) > 0 && lines != 1 {
		x.t.Errorf("stderr has %d messages: %q", lines, text)
	}
	for _, s := range says {
		if !strings.Contains(text, s) {
			x.t.Errorf("stderr %q lacks %q", text, s)
		}
	}
}

// over waits for the program's end, checks its exit code and that nothing of it is
// left, and returns what it said.
func (x *trial) over(code int) (said string) {
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
	// A process that is killed takes a moment to go.
	until(x.t, "the last process to go", func() bool { return len(processes(x.id)) == 0 })
	return text
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
