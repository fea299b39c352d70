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

// outage is a job whose only broker is down at times.
type outage struct {
	t      *testing.T
	job    runningJob
	cmd    *exec.Cmd
	out    string
	over   chan error
	failed func() string // the output of the job
}

// phase waits for some time, and returns the steps per second, and the largest memory of the job's processes.
func (o *outage) phase(name string, d time.Duration) (perSecond float64, memory int) {
	o.t.Helper()
	first, _ := stepOf(o.t, o.out, "commit")
	began := time.Now()
	for time.Since(began) < d {
		select {
		case err := <-o.over:
			o.t.Fatalf("%s: the job ended: %v\n%s", name, err, o.failed())
		case <-time.After(200 * time.Millisecond):
			sum := 0
			for _, p := range o.job.processes() {
				sum += residentMiB(o.t, p.pid)
			}
			memory = max(memory, sum)
		}
	}
	last, _ := stepOf(o.t, o.out, "commit")
	perSecond = float64(last-first) / time.Since(began).Seconds()
	o.t.Logf("%s: %.0f steps/s, %d MiB", name, perSecond, memory)
	return perSecond, memory
}

// TestOutage: the only broker is down for five seconds, or three times for two minutes in a soak. Training continues as fast as before, in
// as much memory as the distinct rows take, and then the topic gets the last model.
func TestOutage(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	down, with, again, rounds, processes := 5*time.Second, 5*time.Second, 5*time.Second, 1, 1
	if *soak {
		down, with, again, rounds, processes = 2*time.Minute, 30*time.Second, 15*time.Second, 3, 2
	}
	dir := t.TempDir()
	broker := startBroker(t)
	to, config, out := "kafka://"+broker.at+"/outage", filepath.Join(dir, "run.toml"), filepath.Join(dir, "out")
	if err := os.WriteFile(config, []byte(outageConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(train(config, out, "stream.to="+to, "checkpoint.every=10000000", "checkpoint.dir="+filepath.Join(out, "checkpoints")),
		"--np", strconv.Itoa(processes))
	o := &outage{t: t, job: runningJob{mark: "ECREC_TEST_MARK=" + out}, out: out, over: make(chan error, 1)}
	cmd, stdout, stderr := start(ecrec(t), []string{o.job.mark}, args...)
	o.cmd, o.failed = cmd, func() string { return fmt.Sprintf("%s\n%s", stdout, stderr) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { o.over <- cmd.Wait() }()
	t.Cleanup(func() {
		for _, p := range o.job.processes() { // none if the test passes
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	})
	until(t, "a commit", func() bool { return len(o.over) > 0 || countEvents(t, out, "commit") > 0 })
	o.phase("first steps", 3*time.Second)
	before, memory := o.phase("before", with)
	for range rounds {
		broker.do(t, "kill", broker.dir, "1")
		during, grown := o.phase("without a broker", down)
		broker.do(t, "restart", broker.dir, "1")
		o.phase("with it again", again)
		if during < before/5 { // far from a judgement of speed, which a shared machine does not allow
			t.Errorf("%.0f steps/s without a broker, %.0f before: training waits for it", during, before)
		}
		// 400,000 rows of 64 bytes, twice while an epoch is copied; for each process the backlog, unacknowledged records, and the heap's rest.
		if bound := memory + 2*400_000*64>>20 + processes*(16+64+32); grown > bound {
			t.Errorf("%d MiB, more than %d", grown, bound)
		}
		if rounds > 1 {
			after, _ := o.phase("before the next", with)
			t.Logf("without a broker / with it before and after: %.3f", during/((before+after)/2))
			before = after
		}
	}
	o.stop()
	o.compareLast(to, filepath.Join(dir, "made"))
	text := o.failed()
	isReported := strings.Contains(text, "training continues") && strings.Contains(text, "takes the rows of all ranks again")
	if down > 15*time.Second && !isReported { // shorter ones are not reported
		t.Errorf("the outage and its end are not reported:\n%s", text)
	}
}

// stop ends the job by a signal.
func (o *outage) stop() {
	o.t.Helper()
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		o.t.Fatal(err)
	}
	if err := <-o.over; exitCode(o.t, err) != 0 && !strings.Contains(o.failed(), "stopped") {
		o.t.Fatalf("%v\n%s", err, o.failed())
	}
}

// compareLast compares the last checkpoint of the job with that of a follower in another folder.
func (o *outage) compareLast(topic, made string) {
	o.t.Helper()
	saved, err := filepath.Glob(filepath.Join(o.out, "checkpoints", "step-*"))
	if err != nil || len(saved) == 0 {
		o.t.Fatalf("no checkpoint: %v\n%s", err, o.failed())
	}
	last := filepath.Base(saved[len(saved)-1])
	step, err := strconv.Atoi(strings.TrimLeft(strings.TrimPrefix(last, "step-"), "0"))
	if err != nil {
		o.t.Fatal(err)
	}
	if got := run(o.t, ecrec(o.t), nil, "follow", topic, "--to", made, "--at", strconv.Itoa(step)); got.code != 0 {
		o.t.Fatalf("%s\n%s", got.stderr, got.stdout)
	}
	expectSame(o.t, filepath.Join(made, last), saved[len(saved)-1])
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
