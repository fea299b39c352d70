package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/event"
)

// TestSupervisorReturns kills nodes of a job under another launcher, each as soon as the one before
// has rejoined. A restarted process gets its ranks back, rank 0 among them.
func TestSupervisorReturns(t *testing.T) {
	r := drawing(t)
	j := drawJob(r, 5)
	j.steps, j.evalEvery, j.every = 10000, 5000, 5
	out := filepath.Join(t.TempDir(), "out")
	args := j.args(out)
	args = args[:len(args)-2] // without --np
	vars := []string{"ECREC_TEST_MARK=" + out, "WORLD_SIZE=5", "LOCAL_WORLD_SIZE=5", "MASTER_ADDR=127.0.0.1",
		"MASTER_PORT=" + strconv.Itoa(1+(os.Getpid()+1)%60000)} // on one host a name only
	output := &timedOutput{}
	var all [5]*exec.Cmd
	var results []*strings.Builder
	begin := func(p int) {
		cmd, stdout, _ := start(ecrec(t), append(vars, fmt.Sprint("RANK=", p)), args...)
		cmd.Stderr = output
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all[p], results = cmd, append(results, stdout)
	}
	mark := &runningJob{mark: vars[0]}
	for p := range all {
		begin(p)
	}
	until := func(what string, n int) {
		for begin := time.Now(); strings.Count(output.String(), what) < n; time.Sleep(5 * time.Millisecond) {
			if time.Since(begin) > killLimit {
				t.Fatalf("waited for %q: %s\n%s", what, j, output)
			}
		}
	}
	// A step is complete once there are metrics.
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(filepath.Join(out, "metrics.jsonl")); strings.Contains(string(text), `"loss":`) {
			break
		}
		if time.Since(begin) > killLimit {
			t.Fatalf("it does not begin: %s\n%s", j, output)
		}
	}
	whole := func(n int) {
		for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			recovered := 0
			for p := range all {
				log, _ := os.ReadFile(filepath.Join(out, fmt.Sprintf("process-%d.log", p)))
				recovered += strings.Count(string(log), `"message":"recovered"`)
			}
			if recovered >= n {
				return
			}
			if time.Since(begin) > killLimit {
				t.Fatalf("it is not fully redundant %d times: %s\n%s", n, j, output)
			}
		}
	}
	for i, p := range []int{3, 0} {
		_ = all[p].Process.Kill()
		_ = all[p].Wait()
		until("takes over its ranks", i+1)
		time.Sleep(time.Second) // the rendezvous moves to another, where it was there
		begin(p)
		until(", whose ranks had been reassigned", i+1)
		whole(2 * (i + 1))
	}
	for p, cmd := range all {
		if code := exitCode(t, cmd.Wait()); code != 0 {
			t.Errorf("process %d: exit code %d, %s\n%s", p, code, j, output)
		}
	}
	mark.nothingLeft(t)
	digests := 0
	for _, b := range results {
		digests += strings.Count(b.String(), "\ndigest ")
	}
	if digests != 1 {
		t.Errorf("the digest is printed %d times", digests)
	}
	got := readSummary(t, out)
	equal(t, j.String(), got, j.want(t))
	events, err := event.ReadFile(filepath.Join(out, event.File))
	count := map[event.Name]int{}
	for _, e := range events {
		count[e.Event]++
	}
	if err != nil || count[event.Loss] != 2 || count[event.Returned] != 2 || count[event.Recovered] != 4 {
		t.Errorf("events: %v, %v; want 2 losses, 2 returned, 4 recovered", count, err)
	}
	if n := len(got.Recoveries); n != 4 {
		t.Errorf("%d recoveries, want 4: %+v", n, got.Recoveries)
	}
	t.Logf("%s\n%s", j, output)
}
