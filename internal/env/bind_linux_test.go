package env

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// allowed returns the different sets of cores of the process's threads.
func allowed(t *testing.T) (sets []unix.CPUSet) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Skip(err)
	}
	seen := map[unix.CPUSet]bool{}
	for _, th := range threads {
		id, _ := strconv.Atoi(th.Name())
		var set unix.CPUSet
		if unix.SchedGetaffinity(id, &set) == nil && !seen[set] {
			seen[set] = true
			sets = append(sets, set)
		}
	}
	return sets
}

// TestBind reads from the system which cores all threads may use, including a new thread and
// a process that is started by Without.
func TestBind(t *testing.T) {
	before := allowed(t)
	if len(before) != 1 {
		t.Skip("threads of this process may run on different cores")
	}
	b, err := Bind(before[0].Count() - 1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Undo()
	started, done := make(chan bool), make(chan bool)
	go func() {
		runtime.LockOSThread() // which ends with the goroutine
		started <- true
		<-done
	}()
	<-started
	if got := allowed(t); len(got) != 1 || got[0].Count() != 1 {
		t.Errorf("threads may run on %v", got)
	}
	close(done)
	b.Without(func() {
		said, err := exec.Command("grep", "Cpus_allowed:", "/proc/self/status").Output()
		if err != nil {
			t.Skip(err)
		}
		own, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			t.Skip(err)
		}
		if !strings.Contains(string(own), string(said)) {
			t.Errorf("a process has %q, this thread %q", said, own)
		}
		var set unix.CPUSet
		if unix.SchedGetaffinity(0, &set) != nil || set != before[0] {
			t.Errorf("without it a thread may run on %v", set)
		}
	})
	if got := allowed(t); len(got) != 1 || got[0].Count() != 1 {
		t.Errorf("threads may run on %v after what was done without", got)
	}
	b.Undo()
	if got := allowed(t); len(got) != 1 || got[0] != before[0] {
		t.Errorf("threads may run on %v in the end", got)
	}
	if _, err := Bind(before[0].Count()); err == nil {
		t.Error("a core that is not there is bound to")
	}
}
