package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const outageConfig = `
[job]
digests = true
[data]
format = "synthetic"
[model]
kind = "dlrm"
tables = [100000, 100000, 100000, 100000]
embedding_dim = 16
bottom_mlp = [64, 16]
top_mlp = [64, 1]
[train]
global_batch = 512
iterations = 1000000
[ec]
commit_every = 5
[stream]
backlog = "16MiB"
`

// TestOutage: the only broker is down for five seconds, or two minutes in a soak. Training continues as fast as before, in as much
// memory as the distinct rows take, and then the topic gets the last model.
func TestOutage(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	outage := 5 * time.Second
	if *soak {
		outage = 2 * time.Minute
	}
	dir := t.TempDir()
	broker := startBroker(t)
	to, config, out := "kafka://"+broker.at+"/outage", filepath.Join(dir, "run.toml"), filepath.Join(dir, "out")
	if err := os.WriteFile(config, []byte(outageConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, stdout, stderr := start(ecrec(t), nil, train(config, out, "stream.to="+to, "checkpoint.every=10000000",
		"checkpoint.dir="+filepath.Join(out, "checkpoints"))...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	defer cmd.Process.Kill() //nolint:errcheck // it has ended if the test passes
	phase := func(name string, d time.Duration) (perSecond float64, memory int) {
		first, _ := stepOf(t, out, "commit")
		began := time.Now()
		for time.Since(began) < d {
			select {
			case err := <-over:
				t.Fatalf("%s: the job ended: %v\n%s\n%s", name, err, stdout, stderr)
			case <-time.After(200 * time.Millisecond):
				memory = max(memory, residentMiB(t, cmd.Process.Pid))
			}
		}
		last, _ := stepOf(t, out, "commit")
		perSecond = float64(last-first) / time.Since(began).Seconds()
		t.Logf("%s: %.0f steps/s, %d MiB", name, perSecond, memory)
		return perSecond, memory
	}
	phase("first steps", 3*time.Second)
	before, memory := phase("before", 5*time.Second)
	broker.do(t, "kill", broker.dir, "1")
	during, grown := phase("without a broker", outage)
	broker.do(t, "restart", broker.dir, "1")
	phase("with it again", 5*time.Second)
	if during < before/5 { // far from a judgement of speed, which a shared machine does not allow
		t.Errorf("%.0f steps/s without a broker, %.0f before: training waits for it", during, before)
	}
	// 400,000 rows of 64 bytes, twice while an epoch is copied, the backlog, and unacknowledged records. The rest is the heap's.
	if bound := memory + 2*400_000*64>>20 + 16 + 64 + 32; grown > bound {
		t.Errorf("%d MiB, more than %d", grown, bound)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-over; exitCode(t, err) != 0 && !strings.Contains(stdout.String()+stderr.String(), "stopped") {
		t.Fatalf("%v\n%s\n%s", err, stdout, stderr)
	}
	saved, err := filepath.Glob(filepath.Join(out, "checkpoints", "step-*"))
	if err != nil || len(saved) == 0 {
		t.Fatalf("no checkpoint: %v\n%s\n%s", err, stdout, stderr)
	}
	last := filepath.Base(saved[len(saved)-1])
	step, err := strconv.Atoi(strings.TrimLeft(strings.TrimPrefix(last, "step-"), "0"))
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "made")
	if got := run(t, ecrec(t), nil, "follow", to, "--to", made, "--at", strconv.Itoa(step)); got.code != 0 {
		t.Fatalf("%s\n%s", got.stderr, got.stdout)
	}
	if diff, err := exec.Command("diff", "-r", filepath.Join(made, last), saved[len(saved)-1]).CombinedOutput(); err != nil {
		t.Errorf("the checkpoints differ: %s", diff)
	}
	if text := stdout.String() + stderr.String(); !strings.Contains(text, "training continues") || !strings.Contains(text,
		"takes the rows of all ranks again") {
		if outage > 15*time.Second { // shorter ones are not reported
			t.Errorf("the outage and its end are not reported:\n%s", text)
		}
	}
}

// residentMiB is how much of the memory of a process is resident.
func residentMiB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // it has ended
	}
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return kib >> 10
		}
	}
	return 0
}
