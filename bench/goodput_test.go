package bench

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var peersPython = flag.String("python", "", "a Python with torch and torchft: trains them in TestGoodputOfPeers")

// Failures have exponential gaps. Another mean scales the times of the same failures.
func TestDrawFailures(t *testing.T) {
	all := drawFailures(7, time.Second, 10_000*time.Second, 4)
	if n := len(all); n < 9_500 || n > 10_500 {
		t.Fatalf("%d failures in 10,000 means", n)
	}
	long, processes := 0, map[int]int{}
	for i, f := range all {
		if i > 0 && f.At-all[i-1].At > time.Second {
			long++
		}
		processes[f.Process]++
	}
	if share := float64(long) / float64(len(all)); math.Abs(share-1/math.E) > 0.02 || len(processes) != 4 {
		t.Errorf("a share of %v of the gaps is longer than the mean, want 1/e; processes %v", share, processes)
	}
	for i, f := range drawFailures(7, 2*time.Second, 100*time.Second, 4) {
		if d := f.At - 2*all[i].At; d < -time.Microsecond || d > time.Microsecond || f.Process != all[i].Process {
			t.Errorf("failure %d is %v, and %v with half of the mean", i, f, all[i])
		}
	}
	if other := drawFailures(8, time.Second, 10*time.Second, 4); len(other) > 0 && other[0] == all[0] {
		t.Error("another seed draws the same failures")
	}
}

// The cost of a save is the time of its steps beyond that of others.
func TestCostOfSave(t *testing.T) {
	r := failingRun{}
	for step, at := int64(1), int64(1000); step <= 20; step++ {
		r.lines = append(r.lines, stepLine{step, at})
		if at += 10; step >= 10 && step < 13 { // three steps during the save
			at += 5
		}
	}
	s := r.costOfSave(10, 1000+9*10+40)
	if math.Abs(s.duration-0.040) > 1e-9 || math.Abs(s.lost-0.015) > 1e-9 {
		t.Errorf("%+v, want 40 ms, of which 15 are lost", s)
	}
	r.lines = nil
	for step, at := int64(1), int64(1000); step <= 23; step++ { // each is 1 ms faster than the one before
		r.lines = append(r.lines, stepLine{step, at})
		if at += 50 - step; step >= 10 && step < 13 {
			at += 5
		}
	}
	if x := r.costOfSave(10, r.lines[12].UnixMS-1); math.Abs(x.lost-0.015) > 1e-9 {
		t.Errorf("%+v of steps that become faster, want 15 ms that are lost", x)
	}
	if got := s.bestInterval(3); math.Abs(got-0.3) > 1e-9 {
		t.Errorf("interval %v, want sqrt(2 x 0.015 x 3) = 0.3", got)
	}
	if got := (saveTime{duration: 2, lost: 0.001}).bestInterval(3); got != 2 {
		t.Errorf("interval %v: the next save begins before one has ended", got)
	}
	if got := (saveTime{duration: 2}).bestInterval(1000); math.Abs(got-math.Sqrt(200)) > 1e-9 {
		t.Errorf("interval %v of a save that seems to be free, want sqrt(2 x 0.1 x 1000)", got)
	}
	mean := meanSave([]saveTime{{duration: 1, lost: -0.3}, {duration: 2, lost: 0.6}, {duration: 3, lost: 0.3}})
	if math.Abs(mean.duration-2) > 1e-9 || math.Abs(mean.lost-0.2) > 1e-9 || meanSave([]saveTime{{duration: 1, lost: -1}}).lost != 0 {
		t.Errorf("mean %+v", mean)
	}
}

// The parts of a restart follow from the lines of steps, and so do the steps done again.
func TestSplitsOfARestart(t *testing.T) {
	r := failingRun{restarts: []jobRestart{{lost: 1040, ended: 1100}}}
	for i, step := range []int64{1, 2, 3, 4} {
		r.lines = append(r.lines, stepLine{step, 1000 + 10*int64(i)})
	}
	for i, step := range []int64{3, 4, 5, 6} { // from the checkpoint of step 2
		r.lines = append(r.lines, stepLine{step, 1500 + 10*int64(i)})
	}
	r.addSteps(6)
	want := split{0.060, 0.400, 0.010}
	if all := r.splits(); len(all) != 1 || math.Abs(all[0].total()-want.total()) > 1e-9 || math.Abs(all[0].redo-want.redo) > 1e-9 {
		t.Errorf("%+v, want %+v", all, want)
	}
	if r.redone != 2 || r.last != 6 || r.seconds != 0.53 {
		t.Errorf("%d redone, last %d, %v s", r.redone, r.last, r.seconds)
	}
	r.restarts[0].ended = 5000 // no step follows
	if all := r.splits(); len(all) != 0 {
		t.Errorf("%+v of a run that did not get there", all)
	}
	a, b, c := 1.0, 2.0, 3.0
	x, y := failingRun{losses: []*float64{&a, &b, &c}}, failingRun{losses: []*float64{&a, &c}}
	if n := x.stepsUnlike(&y); n != 2 {
		t.Errorf("%d steps differ, want 2", n)
	}
	if n := y.stepsUnlike(&x); n != 2 {
		t.Errorf("%d steps of a run without its last step differ, want 2", n)
	}
}

// A turn whose failures hit no process has no steps redone for each.
func TestPerLossOf(t *testing.T) {
	turns := [][]lostWorkTimes{{{}, {hits: 2, perLoss: 7}}, {{}, {}}, {{}, {hits: 1}}}
	if got := perLossOf(turns, 1); !slices.Equal(got, []float64{7, 0}) {
		t.Errorf("%v, want 7 and 0", got)
	}
}

func TestLastStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	if lastStep(path) != 0 {
		t.Error("a file that does not exist has a step")
	}
	lines := strings.Repeat(`{"step":8,"loss":1,"unix_ms":1}`+"\n",
		500) + `{"step":9,"unix_ms":5}` + "\n" + `{"step":9,"event":{"step":11}}` + "\n" + `{"step":10,"uni`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := lastStep(path); got != 9 {
		t.Errorf("last step %d, want 9", got)
	}
	if all, err := readStepLines(path); err != nil || len(all) != 501 {
		t.Errorf("%d lines, %v", len(all), err)
	}
}

func TestBadSettingsOfFailuresAreNamed(t *testing.T) {
	for _, x := range []struct {
		bench Bench
		args  []string
	}{
		{goodputBench, []string{"mtbf=0", "scale=x", "system=ours,gemini", "ranks=5", "python=/none/python"}},
		{lostWorkBench, []string{"n=0", "system=restart", "kills=0", "ranks=3"}},
		{faultKindsBench, []string{"kinds=kill,flood", "steps=1", "k=0"}},
	} {
		for _, arg := range x.args {
			_, err := x.bench.Run(io.Discard, Options{Tiny: true, Args: []string{arg}, Program: program})
			if key, _, _ := strings.Cut(arg, "="); !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s %s: %v", x.bench.Name, arg, err)
			}
		}
	}
}

// A stop ends the processes of a job whose processes are lost, and removes its files.
func TestStopEndsFailingJobs(t *testing.T) {
	began, dir := time.Now(), t.TempDir()
	o := Options{Tiny: true, Program: program, Args: []string{"seconds=1000", "mtbf=60", "system=ckpt-full", "dir=" + dir},
		Stop: func() bool { return time.Since(began) > 4*time.Second }}
	if r, err := goodputBench.Run(io.Discard, o); !errors.Is(err, ErrStopped) {
		t.Fatalf("%+v, %v", r, err)
	}
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("it ended after %v", took)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for running := commandsWith(dir); len(running) > 0; running = commandsWith(dir) {
		if time.Now().After(deadline) {
			t.Fatalf("still running: %q", running)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// commandsWith returns the commands of all processes that contain a text.
func commandsWith(text string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		if command, err := os.ReadFile(path); err == nil && bytes.Contains(command, []byte(text)) {
			found = append(found, strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

// PyTorch's systems train, are killed, and continue.
func TestGoodputOfPeers(t *testing.T) {
	if *peersPython == "" {
		t.Skip("go test ./bench -run GoodputOfPeers -python PYTHON")
	}
	o := Options{Tiny: true, Program: program, Args: []string{"system=restart,torchft", "mtbf=60", "scale=15", "seconds=6",
		"python=" + *peersPython}}
	var out bytes.Buffer
	r, err := goodputBench.Run(&out, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", &out)
	for _, system := range []string{"restart", "torchft"} {
		if why := r.Missing[system]; why != "" {
			t.Errorf("%s: %s", system, why)
		}
		for _, f := range r.Figures {
			if f.Case["system"] == system && (f.Name == figFailures && f.Median == 0 || f.Name == figLost && system == "restart" && f.Median > 0) {
				t.Errorf("%+v", f)
			}
		}
	}
}

// The worker of a process is that of the last start in its log. Rank 0 also logs the event "start", without a process id of its own.
func TestWorkerOfALog(t *testing.T) {
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := fmt.Sprintf(`{"process":0,"pid":1,"message":"start"}
{"process":0,"pid":%d,"message":"start"}
{"process":0,"event":{"event":"start","pid":2},"message":"start"}
{"process":0,"pid":3,"message":"train"}
`, os.Getpid())
	if err := os.WriteFile(filepath.Join(dir, "process-0.log"), []byte(log), 0o666); err != nil {
		t.Fatal(err)
	}
	if pid, found := workerOf(dir, program, 0); pid != os.Getpid() || !found {
		t.Errorf("process %d, %v; want %d", pid, found, os.Getpid())
	}
	if pid, found := workerOf(dir, "/bin/true", 0); found {
		t.Errorf("process %d runs another program", pid)
	}
	if _, found := workerOf(dir, program, 1); found {
		t.Error("a process without a log")
	}
}
