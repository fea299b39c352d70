package bench

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/train"
)

// jobRun is the output of a run of processes.
type jobRun struct {
	Digest     string           `json:"digest"`
	Recoveries []train.Recovery `json:"recoveries"`
	steps      []stepLine       // in the order of time; replayed ones twice
	batch      int
}

// stepLine is a line of metrics.jsonl.
type stepLine struct {
	Step   int64 `json:"step"`
	UnixMS int64 `json:"unix_ms"`
}

// runJob runs a job of processes with faults to its end.
func (b *recoveryRun) runJob(program string, faults []string) (r jobRun, err error) {
	dir, err := os.MkdirTemp("", "ecrec-bench-*")
	if err != nil {
		return r, err
	}
	b.o.Progress.addFolder(dir)
	defer os.RemoveAll(dir)
	sets := []string{"job.save_model=false", "train.log_every=1",
		fmt.Sprintf("train.iterations=%d", b.stepCount()), "optimizer.dense.kind=adagrad", "optimizer.sparse.kind=adagrad",
		"ec.code=" + b.code, fmt.Sprintf("ec.k=%d", b.k), fmt.Sprintf("ec.r=%d", b.r), fmt.Sprintf("ec.commit_every=%d", b.every),
		"cache.mode=" + b.o.text("mode"), "ec.rebuild_rate=" + b.rate}
	if b.nodes {
		sets = append(sets, fmt.Sprintf("elastic.spares=%d", b.kills))
	}
	p := processJob{o: b.o, program: program, dir: dir, shape: b.shape, job: job{batch: b.batch, ranks: b.ranks}, sets: sets}
	if err := p.run(faults); err != nil {
		return r, err
	}
	return p.read()
}

// processJob is a job of processes, one for each rank, that writes to a folder.
type processJob struct {
	o       Options
	program string
	dir     string
	shape   shape
	job     job
	sets    []string
	env     []string // further variables
	began   time.Time
}

// run runs it to its end, with faults and further arguments.
func (p *processJob) run(faults []string, more ...string) error {
	path := filepath.Join(p.dir, "bench.toml")
	if err := os.WriteFile(path, []byte(p.shape.toml(p.job, p.dir)), 0o644); err != nil {
		return err
	}
	args := []string{"train", path, "--np", strconv.Itoa(p.job.ranks)}
	for _, set := range p.sets {
		args = append(args, "--set", set)
	}
	for _, f := range faults {
		args = append(args, "--chaos", f)
	}
	runtime.LockOSThread() // endWithParent ends the child with this thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(p.program, append(args, more...)...)
	cmd.SysProcAttr, cmd.Env = endWithParent(), append(os.Environ(), p.env...)
	var errs bytes.Buffer
	cmd.Stderr, p.began = &errs, time.Now()
	if err := p.o.runCommand(cmd); err != nil {
		return fmt.Errorf("bench: a run of %d processes: %w: %s", p.job.ranks, err, bytes.TrimSpace(errs.Bytes()))
	}
	return nil
}

// read reads the output of a run that has ended without an error.
func (p *processJob) read() (r jobRun, err error) {
	text, err := os.ReadFile(filepath.Join(p.dir, "summary.json"))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, err
	}
	r.batch = p.job.batch
	return r, r.readSteps(filepath.Join(p.dir, "metrics.jsonl"))
}

// stopPoll is the time between two looks at a request to stop, while a command runs.
const stopPoll = 50 * time.Millisecond

// stopWait is the time that a command has to end after SIGTERM.
const stopWait = 5 * time.Second

// runCommand runs a command to its end. It sends SIGTERM to it once a stop is requested, and SIGKILL if it has not ended then.
// Processes that outlive it, and hold its output, do not keep this one waiting.
func (o Options) runCommand(cmd *exec.Cmd) error {
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = stopWait
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		tick := time.NewTicker(stopPoll)
		defer tick.Stop()
		for !o.isStopped() {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended
		select {
		case <-ended:
		case <-time.After(stopWait):
			_ = cmd.Process.Kill()
		}
	}()
	return cmd.Wait()
}

func (r *jobRun) readSteps(path string) (err error) {
	r.steps, err = readStepLines(path)
	return err
}

// throughput returns the samples per second from line i to the one before j, 0 if no time is
// between them.
func (r *jobRun) throughput(i, j int) float64 {
	if j-i < 2 || r.steps[j-1].UnixMS == r.steps[i].UnixMS {
		return 0
	}
	return 1e3 * float64((j-1-i)*r.batch) / float64(r.steps[j-1].UnixMS-r.steps[i].UnixMS)
}

// aroundSteps is the number of steps before a loss, and after the rebuild, whose speed is normal.
// The speed of a shared machine changes.
const aroundSteps = 50

// throughputAround returns the normal throughput around a loss, and that from the first step after the
// rollback to the end of the rebuild, 0 if that has fewer than two steps.
func (r *jobRun) throughputAround(x *train.Recovery) (normal, rebuilding float64) {
	hit, whole := r.rebuildOf(x)
	end := min(whole+1, len(r.steps)) // of the steps that follow
	for end < len(r.steps) && end <= whole+aroundSteps && r.steps[end].Step > r.steps[end-1].Step {
		end++
	}
	normal = r.throughput(max(0, hit-aroundSteps), hit)
	if after := r.throughput(whole, end); normal > 0 && after > 0 {
		normal = 2 / (1/normal + 1/after)
	}
	return normal, r.throughput(hit, whole)
}

// rebuildOf returns the first line after a loss, and the first one after its last lost row is rebuilt.
func (r *jobRun) rebuildOf(x *train.Recovery) (hit, whole int) {
	hit = r.lossOf(x)
	lost := r.steps[max(0, hit-1)].UnixMS
	for whole = hit; whole < len(r.steps) && r.steps[whole].UnixMS <= lost+int64(x.WholeMS); whole++ {
	}
	return hit, whole
}

// costOf returns, at a normal throughput, the seconds of training that a loss costs until its last lost row is rebuilt: the pause, the
// steps redone, and slower steps. Share is the throughput of new steps meanwhile, from the loss on, in percent of the normal one. Both
// are 0 if no step ends meanwhile.
func (r *jobRun) costOf(x *train.Recovery, normal float64) (seconds, share float64) {
	hit, whole := r.rebuildOf(x)
	if whole == hit || hit == 0 {
		return 0, 0
	}
	before, last := r.steps[hit-1], r.steps[whole-1]
	took := float64(last.UnixMS-before.UnixMS) / 1e3
	useful := float64(max(0, last.Step-before.Step)*int64(r.batch)) / normal
	return took - useful, 100 * useful / took
}

// lossOf returns the first line after a loss: that of the first replayed step, or of the step of
// the loss if none is replayed.
func (r *jobRun) lossOf(x *train.Recovery) int {
	for i, s := range r.steps {
		if i > 0 && s.Step <= r.steps[i-1].Step && s.Step == x.CommittedStep+1 {
			return i
		}
	}
	return max(0, slices.IndexFunc(r.steps, func(s stepLine) bool { return s.Step == x.Step }))
}

// writeStepsCSV writes the end of each step of each run, in seconds since the end of its first
// step, and the samples per second since the step before.
func writeStepsCSV(path string, runs []jobRun) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := csv.NewWriter(f)
	_ = w.Write([]string{"run", "seconds", "step", "samples_per_s"}) // Flush keeps the error
	for n, r := range runs {
		for i, s := range r.steps[1:] {
			_ = w.Write([]string{strconv.Itoa(n + 1), strconv.FormatFloat(float64(s.UnixMS-r.steps[0].UnixMS)/1e3, 'f', 3, 64),
				strconv.FormatInt(s.Step, 10), strconv.FormatFloat(r.throughput(i, i+2), 'f', 1, 64)})
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return f.Close()
}
