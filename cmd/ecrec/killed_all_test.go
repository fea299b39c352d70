package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stepOf returns the step of the last event of a kind in a folder of a run, 0 if there is none, and the number of such events.
func stepOf(t *testing.T, out, kind string) (step int64, n int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "events.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		var e struct {
			Event string
			Step  int64
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == kind { // the last line may be torn
			step, n = e.Step, n+1
		}
	}
	return step, n
}

// All processes of a job are killed at random moments, again and again. The next job continues from the logs of store.path, from the last
// step that was durable or a later one, and the result is that of a job that nothing has killed.
func TestKilledAll(t *testing.T) {
	r := drawing(t)
	rounds := 3
	if *soak {
		rounds = 50
	}
	kind, mode := pick(r, killedKinds), pick(r, killedModes)
	np, ranks := 1+r.IntN(3), 4
	out := filepath.Join(t.TempDir(), "out")
	sets := append([]string{fmt.Sprint("job.ranks=", ranks), "train.iterations=" + strconv.Itoa(400*rounds), "train.eval_every=150",
		fmt.Sprint("ec.commit_every=", 1+r.IntN(8)), "job.digests=true"}, mode...)
	if r.IntN(2) == 0 {
		sets = append(sets, "checkpoint.every="+strconv.Itoa(20+r.IntN(100)), "checkpoint.kind="+pick(r, []string{"full", "incremental"}))
	}
	name := fmt.Sprintf("%s, %d processes, %v", kind, np, sets)
	began := time.Now()
	if got := run(t, ecrec(t), nil, append(train(golden(kind), out, sets...), "--np", "1")...); got.code != 0 {
		t.Fatalf("%s: %s", name, got.stderr)
	}
	want := readSummary(t, out)
	// A job lives for less than the undisturbed one needs, so that a fast machine kills some too.
	longest := int(min(time.Second, max(time.Since(began)/2, 20*time.Millisecond)).Milliseconds())

	out = filepath.Join(t.TempDir(), "killed")
	sets = append(sets, "store.path="+filepath.Join(out, "store"))
	if r.IntN(2) == 0 { // Adagrad needs 69 KiB of a rank, and all of its rows take 170 KiB
		sets = append(sets, "store.tier=file", "store.dram_bytes="+pick(r, []string{"72KiB", "96KiB", "1MiB"}))
		name += ", rows on the disk"
	}
	mark, kills, durable, resumed := "ECREC_TEST_MARK="+out, 0, int64(0), 0
	checkBegan := func() {
		began, n := stepOf(t, out, "resume")
		if n > resumed && began < durable { // a job that is killed at once may not have resumed
			t.Errorf("%s: a job went on from step %d, and step %d was durable", name, began, durable)
		}
		resumed = n
	}
	for {
		cmd, stdout, stderr := start(ecrec(t), []string{mark}, append(train(golden(kind), out, sets...), "--np", strconv.Itoa(np), "--resume", "auto")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() { over <- cmd.Wait() }()
		life := time.Hour
		if kills < rounds {
			life = time.Duration(20+r.IntN(longest)) * time.Millisecond
		}
		select {
		case err := <-over:
			if code := exitCode(t, err); code != 0 {
				t.Fatalf("%s: exit code %d after %d kills: %s\n%s", name, code, kills, stderr, stdout)
			}
			checkBegan()
			t.Logf("%d kills, durable up to step %d before the last: %s", kills, durable, name)
			if kills == 0 {
				t.Error("nothing was killed")
			}
			equal(t, name, readSummary(t, out), want)
			return
		case <-time.After(life):
		}
		x := runningJob{mark: mark}
		for all := x.processes(); len(all) > 0; all = x.processes() {
			for _, p := range all {
				_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended
			}
			time.Sleep(5 * time.Millisecond)
		}
		<-over
		checkBegan()
		safe, _ := stepOf(t, out, "durable")
		kills, durable = kills+1, max(durable, safe)
	}
}
