package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// memoryGroup is a memory cgroup, of version 1 or 2.
type memoryGroup struct{ dir, limit, peak string }

// newMemoryGroup skips the test if a group cannot be created.
func newMemoryGroup(t *testing.T) *memoryGroup {
	t.Helper()
	name := fmt.Sprintf("ecrec-test-%d-%d", os.Getpid(), groups)
	groups++
	for _, g := range []memoryGroup{
		{"/sys/fs/cgroup/memory/" + name, "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
		{"/sys/fs/cgroup/" + name, "memory.max", "memory.peak"},
	} {
		if os.Mkdir(g.dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { until(t, "an empty group", func() bool { return os.Remove(g.dir) == nil }) })
		if exists(filepath.Join(g.dir, g.limit)) && exists(filepath.Join(g.dir, g.peak)) {
			return &g
		}
	}
	t.Skip("needs a memory cgroup that reports its peak, which root may make; CI runs as root")
	return nil
}

var groups int

// run runs the program in the group.
func (g *memoryGroup) run(t *testing.T, args ...string) ended {
	t.Helper()
	script := `echo $$ > "$0"/cgroup.procs && exec "$@"`
	return run(t, "sh", nil, append([]string{"-c", script, g.dir, ecrec(t)}, args...)...)
}

func (g *memoryGroup) number(t *testing.T, file string) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// fewRows is a job whose rows and activations need almost no memory.
const fewRows = `
[data]
format = "synthetic"
[model]
embedding_dim = 8
tables = [2000, 500, 3000, 10]
bottom_mlp = [32, 8]
top_mlp = [32, 1]
[train]
global_batch = 180
iterations = 50
`

// A job whose processes do not fit is refused in one line. If it began, the system would kill some
// of them later.
func TestMemoryOfProcessesIsCounted(t *testing.T) {
	const short = 22 << 20 // nine workers take 42 MB after their last check, and count for 31
	config := filepath.Join(t.TempDir(), "run.toml")
	write(t, config, fewRows)
	job := func(g *memoryGroup) ended { return g.run(t, append(train(config, t.TempDir()), "--np", "9")...) }
	roomy := newMemoryGroup(t)
	if r := job(roomy); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	tight := newMemoryGroup(t)
	limit := roomy.number(t, roomy.peak) - short
	if err := os.WriteFile(filepath.Join(tight.dir, tight.limit), []byte(fmt.Sprint(limit)), 0o644); err != nil {
		t.Fatal(err)
	}
	r := job(tight)
	checkRefused(t, r, 2, "memory: the job needs ", ", processes ", " available; use smaller ")
}

// A job that needs more address space than ulimit -v allows is refused in one line. If it began, the
// runtime would end it with a trace.
func TestAddressSpaceIsCounted(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	config := filepath.Join(t.TempDir(), "run.toml")
	write(t, config, fewRows)
	limited := func(np string) ended {
		const limitKiB = "4000000" // so that the runtime has room
		args := append(train(config, t.TempDir(), "model.tables=[200000000]"), "--np", np)
		return run(t, "sh", nil, append([]string{"-c", "ulimit -v " + limitKiB + ` && exec "$0" "$@"`, ecrec(t)}, args...)...)
	}
	for _, np := range []string{"1", "2"} {
		checkRefused(t, limited(np), 2, "address space: this process must map ", " of the 3.81 GiB that ulimit -v allows; raise the limit")
	}
}
