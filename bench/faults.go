package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/train"
)

var faultsBench = Bench{
	Name: "faults",
	Doc:  "time to recover a killed rank by a code, and by checkpoints, by size of the model",
	Detail: "Starts jobs of a process for each rank and kills rank 1 by SIGKILL. Jobs begin with a model that has all rows, so all rows of the " +
		"rank are lost, and each checkpoint has all rows. Times are from the loss, as the launcher recorded it. " +
		"With a code, the job continues; the kill is at the begin of a step, and during a commit. " +
		"There a process in reserve takes the lost one's place (elastic.standby). " +
		"With checkpoints, for each of which training waits (ECREC_PAUSE_SAVES), the job ends and all its processes start again with " +
		"--resume auto; the kill is just after a save, half-way, and just before one. " +
		"The digest of each run must be that of a run without a loss. Computing is left out: the models have one layer before and after the " +
		"interaction. The first steps of a run are not normal.",
	Settings: []Setting{
		sizesSetting("Original,2S,4S,8S").orTiny("Original"),
		scaleSetting,
		lawSetting,
		numbers("k", "2,4", 1, mostColumns, "data rows in a stripe").orTiny("4"),
		numbers("minutes", "30,60", 1, 1<<20, "time between two checkpoints * scale").orTiny("30"),
		number("every", "10", 1, 1<<20, "steps between commits").orTiny("2"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "5", 2, 64, "number of ranks, one per process"),
		text("rate", "auto", "rates, separated by commas", "values of ec.rebuild_rate"),
		choice("moments", bothMoments, []string{bothMoments, "step", "commit"}, "when a rank of a job with a code is killed"),
		choice("timeline", "4S", append(ecrecSizeNames(), "none"), "size whose throughput is also given by windows"),
		modeSetting,
		dirSetting,
	},
	measure: runFaults,
}

// bothMoments are the moments at which a rank of a job with a code is killed.
const bothMoments = "step,commit"

// calmSteps are left out at the begin of a run. At least this number of steps is before each kill, and after it.
const calmSteps = 30

// faultsRun is one run of the benchmark.
type faultsRun struct {
	out     io.Writer
	o       Options
	program string
	dir     string
	scale   int
	report  *Report

	size     ecrecSize
	shape    shape
	steps    int // between checkpoints of 30 minutes / scale
	all      int // of a run
	calm     int
	digest   string
	normal   float64   // samples/s, the median of the runs without a loss
	rates    []float64 // of these runs
	start    float64   // ms, from the start of the command to the end of the first step of the last of them
	stepTime time.Duration
	rows     int64
	rowBytes float64 // of all rows with their state
}

func runFaults(out io.Writer, o Options) (_ *Report, err error) {
	b := &faultsRun{out: out, o: o, scale: o.number("scale"), calm: calmSteps}
	if o.Tiny {
		b.calm = 4
	}
	if b.program, err = o.programPath(); err != nil {
		return nil, err
	}
	b.report = o.newReport("of the processes")
	for i, z := range o.ecrecSizesOf() {
		o.setDone(i, len(o.ecrecSizesOf()), "sizes")
		o.mustRun()
		if i == 0 {
			b.report.writeHeader(out)
		}
		if err := b.measureSize(z); err != nil {
			return nil, fmt.Errorf("%s: %w", z.name, err)
		}
	}
	return b.report, nil
}

// measureSize measures all systems with a size.
func (b *faultsRun) measureSize(z ecrecSize) (err error) {
	if b.dir, err = b.o.tempDir(); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.size, b.digest, b.rates = z, "", nil
	if b.shape, err = z.shape(b.scale, b.o.Tiny); err != nil {
		return err
	}
	b.shape.bottom, b.shape.top = []int{b.shape.dim}, []int{1}
	if err := b.makeFirstModel(); err != nil {
		return err
	}
	b.all = 2 * b.calm
	r, err := b.runUndisturbed()
	if err != nil {
		return err
	}
	b.stepTime = time.Duration(float64(b.batch()) / r.throughput(b.calm, len(r.steps)) * 1e9)
	b.steps = max(b.o.number("every"), int(30*time.Minute/time.Duration(b.scale)/b.stepTime))
	longest := 30
	for _, m := range b.o.numbers("minutes") {
		longest = max(longest, m)
	}
	b.all = 2*b.stepsOf(longest) + 3*b.calm
	fmt.Fprintf(b.out, "\n%s / %d: %.1f MB of rows and state on %d ranks, batch %d, %.1f ms per step, %d steps in 30 minutes / %d\n",
		z.name, b.scale,
		b.rowBytes/1e6, b.o.number("ranks"), b.batch(), 1e3*b.stepTime.Seconds(), b.steps, b.scale)
	found := make([]faultFigures, 0)
	for turn := range b.o.repeats() {
		b.o.mustRun()
		turns, err := b.measureTurn(turn)
		if err != nil {
			return err
		}
		for i, x := range turns {
			if turn == 0 {
				found = append(found, faultFigures{of: x.of})
			}
			found[i].outcomes = append(found[i].outcomes, x)
		}
	}
	return b.addFigures(found)
}

func (b *faultsRun) batch() int { return b.o.number("batch") }

// stepsOf is the number of steps between two checkpoints, whose distance is given in minutes * scale.
func (b *faultsRun) stepsOf(minutes int) int { return max(1, b.steps*minutes/30) }

// makeFirstModel makes the model that all jobs begin with. It has all rows.
func (b *faultsRun) makeFirstModel() error {
	cfg, err := b.shape.config(job{batch: b.batch(), ranks: b.o.number("ranks")}, "data.law="+b.o.text("law"))
	if err != nil {
		return err
	}
	o := train.Options{Observer: silent{}, Stop: b.o.isStopped, SaveTo: b.modelPath(), Progress: func(data.Progress) error { return nil }}
	x := &timedSteps{}
	o.Observer = x
	if _, err = train.Run(env.Real(), cfg, o); err != nil {
		return err
	}
	b.rows = x.info.Rows
	b.rowBytes = float64(b.rows) * float64(2*4*b.shape.dim) // with adagrad's state
	return nil
}

func (b *faultsRun) modelPath() string { return filepath.Join(b.dir, "first.safetensors") }

// newJob is a job that writes to an empty folder.
func (b *faultsRun) newJob(sets ...string) (*processJob, error) {
	dir := filepath.Join(b.dir, "job")
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
		return nil, err
	}
	j := &processJob{o: b.o, program: b.program, dir: dir, shape: b.shape, job: job{batch: b.batch(), ranks: b.o.number("ranks")}}
	j.sets = append([]string{"job.save_model=false", "train.log_every=1", fmt.Sprint("train.iterations=", b.all),
		"optimizer.dense.kind=adagrad",
		"optimizer.sparse.kind=adagrad", "cache.mode=" + b.o.text("mode"), "data.law=" + b.o.text("law"), "model.init_from=" + b.modelPath()}, sets...)
	return j, nil
}

// runUndisturbed runs a job without protection or a loss.
func (b *faultsRun) runUndisturbed() (r jobRun, err error) {
	j, err := b.newJob("ec.code=none")
	if err != nil {
		return r, err
	}
	if err := j.run(nil); err != nil {
		return r, err
	}
	if r, err = j.read(); err == nil && len(r.steps) > 0 {
		b.start = float64(r.steps[0].UnixMS - j.began.UnixMilli())
	}
	return r, err
}

// measureTurn runs a job without a loss, and one for each kind of loss.
func (b *faultsRun) measureTurn(turn int) (found []faultOutcome, err error) {
	r, err := b.runUndisturbed()
	if err != nil {
		return nil, err
	}
	if turn == 0 {
		b.digest = r.Digest
	}
	if r.Digest != b.digest {
		return nil, fmt.Errorf("bench: two runs without a loss have the digests %s and %s", b.digest, r.Digest)
	}
	b.rates = append(b.rates, r.throughput(b.calm, len(r.steps)))
	b.normal = figure("", "", b.rates).Median
	found = append(found, faultOutcome{of: map[string]string{"system": "noft"}, lines: r.steps, hit: -1})
	for _, k := range b.o.numbers("k") {
		for _, rate := range strings.Split(b.o.text("rate"), ",") {
			for _, moment := range strings.Split(b.o.text("moments"), ",") {
				x, err := b.loseWithCode(k, rate, moment)
				if err != nil {
					return nil, fmt.Errorf("k = %d, ec.rebuild_rate %s, %s: %w", k, rate, moment, err)
				}
				found = append(found, x)
			}
		}
	}
	for _, minutes := range b.o.numbers("minutes") {
		for _, moment := range []string{"after", "half", "before"} {
			x, err := b.loseWithCheckpoints(minutes, moment)
			if err != nil {
				return nil, fmt.Errorf("a checkpoint every %d minutes, killed %s: %w", minutes, moment, err)
			}
			found = append(found, x)
		}
	}
	return found, nil
}

// loseWithCode kills a rank of a job with a code.
func (b *faultsRun) loseWithCode(k int, rate, moment string) (x faultOutcome, err error) {
	every := b.o.number("every")
	code := "ec.code=xor"
	j, err := b.newJob(code, fmt.Sprint("ec.k=", k), "ec.r=1", fmt.Sprint("ec.commit_every=", every), "ec.rebuild_rate="+rate)
	if err != nil {
		return x, err
	}
	step := b.calm + b.stepsOf(30)/2
	step += every - step%every // an epoch ends with it
	fault := fmt.Sprintf("kill:1@%d:%s", step, probe.Staged)
	if moment == "step" {
		fault = fmt.Sprintf("kill:1@%d", step+every/2)
	}
	if err := j.run([]string{fault}); err != nil {
		return x, err
	}
	r, err := j.read()
	if err != nil {
		return x, err
	}
	if r.Digest != b.digest || len(r.Recoveries) != 1 {
		return x, fmt.Errorf("bench: digest %s after %d recoveries, %s without a loss", r.Digest, len(r.Recoveries), b.digest)
	}
	lost, err := lossAt(j.dir)
	if err != nil {
		return x, err
	}
	of := map[string]string{"system": "ours", "k": strconv.Itoa(k), "rate": rate, "moment": moment}
	return outcomeOfCode(of, &r, faultTime{lost: lost, calm: b.calm}), nil
}

// loseWithCheckpoints kills a rank of a job with checkpoints, and starts the job again.
func (b *faultsRun) loseWithCheckpoints(minutes int, moment string) (x faultOutcome, err error) {
	every := b.stepsOf(minutes)
	saves := (b.calm + every - 1) / every // the checkpoint from which the job resumes: not that of the first steps
	j, err := b.newJob("ec.code=none", "checkpoint.dir="+filepath.Join(b.dir, "checkpoints"), fmt.Sprint("checkpoint.every=", every),
		"checkpoint.keep=1")
	if err != nil {
		return x, err
	}
	defer os.RemoveAll(filepath.Join(b.dir, "checkpoints"))
	j.env = []string{"ECREC_PAUSE_SAVES=1"}
	fault := map[string]string{"after": fmt.Sprintf("kill:1@%d:%s", saves*every, probe.Saved), "half": fmt.Sprintf("kill:1@%d",
		saves*every+every/2+1),
		"before": fmt.Sprintf("kill:1@%d:%s", (saves+1)*every, probe.Checkpoint)}[moment]
	if err := j.run([]string{fault}); err == nil || b.o.isStopped() {
		return x, errors.Join(err, fmt.Errorf("bench: the job did not end by %s", fault))
	}
	path := filepath.Join(j.dir, "metrics.jsonl")
	before := jobRun{batch: b.batch()}
	if err := before.readSteps(path); err != nil {
		return x, err
	}
	lost, err := lossAt(j.dir)
	if err != nil {
		return x, err
	}
	size, err := sizeOfCheckpoint(filepath.Join(b.dir, "checkpoints"), b.rows)
	if err != nil {
		return x, err
	}
	if err := j.run(nil, "--resume", "auto"); err != nil {
		return x, err
	}
	after, err := j.read()
	if err != nil {
		return x, err
	}
	if after.Digest != b.digest {
		return x, fmt.Errorf("bench: digest %s, %s without a loss", after.Digest, b.digest)
	}
	of := map[string]string{"system": "ckpt-full", "minutes": strconv.Itoa(minutes), "moment": moment}
	x, err = outcomeOfCheckpoint(of, &before, &after, faultTime{lost, b.calm, every})
	x.saved = size.rows
	return x, err
}

func (b *faultsRun) nameOf(of map[string]string) string {
	var parts []string
	for _, key := range []string{"system", "k", "minutes", "rate", "moment"} {
		if v := of[key]; v != "" {
			parts = append(parts, map[string]string{"k": "k ", "minutes": "every ", "rate": "rate "}[key]+v)
		}
	}
	return strings.Join(parts, ", ")
}
