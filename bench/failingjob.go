package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/train"
)

// failingJob is a job of processes that are lost while it runs. If the job ends with a loss, it is started again, and resumes from its
// newest checkpoint.
type failingJob struct {
	o        Options
	program  string
	shape    shape
	batch    int
	ranks    int // one process each
	steps    int
	sets     []string // beyond those of every job
	failures []failure
	limit    time.Duration // after which it is stopped; 0: it may take any time
	// smallDisk is a command that runs the program with a small disk at a folder, its last argument; nil: checkpoints have a usual one.
	smallDisk []string
	// watch is called before the job starts, with its folder, and the function that it returns afterwards; may be nil.
	watch func(out string) (stop func())
	// afterEnd is called while the files of the job exist; may be nil.
	afterEnd func(out string) error
}

// failingRun is the result of a failingJob.
type failingRun struct {
	digest     string
	seconds    float64 // from the end of the first step to the first end of the last one, or to the limit
	lines      []stepLine
	last       int64 // the greatest step that ended
	redone     int64 // steps that ended again
	hits       int   // failures that hit a process
	missed     int   // failures that found their process dead
	restarts   []jobRestart
	recoveries []train.Recovery
	protection *protectionMemory
	losses     []*float64 // of each step
	fired      []firedFailure
}

// jobRestart is a start of the job after one that a loss ended. Times are in milliseconds since 1970.
type jobRestart struct{ lost, ended int64 }

// protectionMemory is the memory of a code, of all ranks.
type protectionMemory struct {
	Parity   int64 `json:"memory_bytes"`
	Journal  int64 `json:"journal_bytes"`
	Staged   int64 `json:"staged_bytes"`
	Snapshot int64 `json:"snapshot_bytes"`
}

func (m protectionMemory) total() int64 { return m.Parity + m.Journal + m.Staged + m.Snapshot }

// run runs the job to its end.
func (j failingJob) run() (r failingRun, err error) {
	dir, err := j.o.tempDir()
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	config, out := filepath.Join(dir, "bench.toml"), filepath.Join(dir, "out")
	if err := os.WriteFile(config, []byte(j.shape.toml(job{batch: j.batch, ranks: j.ranks, threads: 1}, out)), 0o644); err != nil {
		return r, err
	}
	if j.smallDisk != nil {
		if err := os.MkdirAll(checkpointsOf(out), 0o755); err != nil {
			return r, err
		}
		j.smallDisk = append(slices.Clone(j.smallDisk), checkpointsOf(out))
	}
	if j.watch != nil {
		defer j.watch(out)()
	}
	inject := startInjector(out, j.program, j.failures, killProcess)
	restarts, err := j.runAll(config, inject)
	r.fired = inject.stop()
	if err != nil {
		return r, err
	}
	r.restarts = restarts
	for _, f := range r.fired {
		if f.hit {
			r.hits++
		} else {
			r.missed++
		}
	}
	if err := r.readFiles(out, j); err != nil {
		return r, err
	}
	if j.afterEnd != nil {
		return r, j.afterEnd(out)
	}
	return r, nil
}

// runAll runs the job, again after each loss that ends it.
func (j failingJob) runAll(config string, inject *injector) (restarts []jobRestart, err error) {
	deadline := time.Now().Add(j.limit)
	o := j.o
	o.Stop = func() bool { return j.o.isStopped() || j.limit > 0 && time.Now().After(deadline) }
	for {
		began := time.Now().UnixMilli()
		message, err := j.runOnce(o, config)
		ended := time.Now().UnixMilli()
		switch _, lost := inject.countHits(began); {
		case j.o.isStopped():
			return nil, ErrStopped
		case err == nil || o.Stop():
			return restarts, nil
		case lost == 0:
			return nil, fmt.Errorf("bench: a run of %d processes: %v: %s", j.ranks, err, message)
		default:
			restarts = append(restarts, jobRestart{lost, ended})
		}
	}
}

// runOnce runs the job from its start, or its newest checkpoint, to its end or a loss. It returns the last line of its errors.
func (j failingJob) runOnce(o Options, config string) (message string, err error) {
	args := append(slices.Clone(j.smallDisk), j.program, "train", config, "--np", strconv.Itoa(j.ranks), "--resume", "auto")
	for _, set := range append([]string{"job.save_model=false", "train.log_every=1", fmt.Sprint("train.iterations=", j.steps),
		"optimizer.dense.kind=adagrad", "optimizer.sparse.kind=adagrad"}, j.sets...) {
		args = append(args, "--set", set)
	}
	runtime.LockOSThread() // endWithParent ends the child with this thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = endWithParent()
	var errs bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &errs, stopWait
	err = o.runCommand(cmd)
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	return lines[len(lines)-1], err
}

// readFiles reads the results of the run, and times from its lines.
func (r *failingRun) readFiles(out string, j failingJob) (err error) {
	if r.lines, err = readStepLines(filepath.Join(out, "metrics.jsonl")); err != nil {
		return err
	}
	if len(r.lines) == 0 {
		return errors.New("bench: the job trained no step")
	}
	r.addSteps(int64(j.steps))
	text, err := os.ReadFile(filepath.Join(out, "summary.json"))
	if err != nil && r.last < int64(j.steps) {
		return nil // it was stopped at the limit
	}
	if err != nil {
		return err
	}
	var s struct {
		Digest     string
		Steps      int64
		Recoveries []train.Recovery
		EC         *protectionMemory
		Losses     []*float64 `json:"train_loss"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if r.last >= int64(j.steps) && s.Steps == int64(j.steps) {
		r.digest = s.Digest
	}
	r.recoveries, r.protection, r.losses = s.Recoveries, s.EC, s.Losses
	return nil
}

// addSteps computes the figures that follow from the lines of steps.
func (r *failingRun) addSteps(steps int64) {
	ended := map[int64]bool{}
	end := r.lines[len(r.lines)-1].UnixMS
	for _, l := range r.lines {
		if ended[l.Step] {
			r.redone++
		} else if ended[l.Step] = true; l.Step == steps {
			end = l.UnixMS
		}
		r.last = max(r.last, l.Step)
	}
	r.seconds = float64(end-r.lines[0].UnixMS) / 1e3
}

// stepsUnlike counts the steps whose loss is not that of another run: samples were lost before them, or trained in another order. A
// step that only one of the runs has is one of them: a run that was stopped has lost all of its samples.
func (r *failingRun) stepsUnlike(other *failingRun) (n int64) {
	both := min(len(r.losses), len(other.losses))
	for i, x := range r.losses[:both] {
		if y := other.losses[i]; x == nil || y == nil || *x != *y {
			n++
		}
	}
	return n + int64(max(len(r.losses), len(other.losses))-both)
}

// split is the time of a recovery in parts, in seconds.
type split struct{ detect, restart, redo float64 }

func (s split) total() float64 { return s.detect + s.restart + s.redo }

// splits returns the parts of the recoveries, of ranks and of the job: until the loss is noticed, until the end of the first step
// after it, and until the last step before it is done again.
func (r *failingRun) splits() (all []split) {
	for i := range r.recoveries {
		x := &r.recoveries[i]
		all = append(all, split{x.DetectMS / 1e3, (x.ResumeMS - x.DetectMS) / 1e3, max(0, x.RegainMS-x.ResumeMS) / 1e3})
	}
	for _, x := range r.restarts {
		s := split{detect: float64(x.ended-x.lost) / 1e3}
		before, first, regained := int64(0), int64(0), int64(0)
		for _, l := range r.lines {
			switch {
			case l.UnixMS <= x.ended:
				before = max(before, l.Step)
			case first == 0:
				first = l.UnixMS
				fallthrough
			case regained == 0:
				if l.Step >= before {
					regained = l.UnixMS
				}
			}
		}
		if first == 0 || regained == 0 {
			continue // the run did not get there
		}
		s.restart, s.redo = float64(first-x.ended)/1e3, float64(regained-first)/1e3
		all = append(all, s)
	}
	return all
}

// stepSeconds is the time of a step in the second half of the run, without its losses.
func (r *failingRun) stepSeconds() float64 {
	half := r.lines[len(r.lines)/2:]
	return float64(half[len(half)-1].UnixMS-half[0].UnixMS) / 1e3 / float64(max(1, len(half)-1))
}
