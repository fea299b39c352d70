package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
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

// The programs that tests start, watch and end.

// trial is a program of a test.
type trial struct {
	t        *testing.T
	id, out  string
	cmd      *exec.Cmd
	out1     strings.Builder
	err1     text
	finished chan error
}

// text collects a program's output. It may be read while the program runs.
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

// begin starts a program with variables. Several programs may belong to one job.
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
	x.cmd.Env = append(x.cmd.Env, append([]string{"TEST_JOB=" + id, "TEST_RANKS=4", "TEST_OUT=" + out, "TEST_DO=loop",
		"GORACE=atexit_sleep_ms=0"}, vars...)...)
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

// show logs the stacks and the output of all processes, after a failure.
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

// processes are the ids of all processes with a job's variable.
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

// running waits until n workers have connected, and returns what they saw.
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

// ends waits for the program's end, and checks its exit code and its standard error. Without
// says the program must print nothing. None of its processes may be left.
func (x *trial) ends(code int, says ...string) {
	x.t.Helper()
	text := x.over(code)
	if code == -1 {
		return // it was killed: the messages of the others do not matter
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

// over waits for the program's end, checks its exit code and that none of its processes is left,
// and returns its standard error.
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
	// A killed process needs a moment to end.
	until(x.t, "the last process to end", func() bool { return len(processes(x.id)) == 0 })
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
