package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/internal/arena"
	"github.com/ecrec/ecrec/internal/chaos"
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/nvml"
	"github.com/ecrec/ecrec/internal/report"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/train"
)

type trainCmd struct {
	configFlags
	placeFlags
	Resume string      `placeholder:"auto|DIR" help:"Go on from the newest checkpoint in DIR, or (auto) in checkpoint.dir if there is one."`
	Chaos  []chaosSpec `sep:"none" placeholder:"SPEC" help:"Do a fault to the run, once, to see it recover: kill:RANK@STEP[:POINT], node:RANK@STEP or stop:RANK@STEP:DURATION; repeatable. 'list' names the points."`
	Trace  string      `placeholder:"FILE" help:"Write a timeline of the run's newest steps: what overlaps what (Chrome trace; ui.perfetto.dev shows it)."`
}

// Run trains: here, or in the processes that it starts.
func (c *trainCmd) Run(a *app) error {
	goOnUnheard()
	place, err := c.place(a, 1)
	if err != nil {
		return err
	}
	worker := a.stop.world
	cfg, err := c.loadAt(&place, worker != nil)
	if err != nil {
		return err
	}
	faults, err := c.faults(cfg.Job.Ranks)
	if err != nil {
		return err
	}
	repairs, err := repairRows(os.Getenv(envRepairRows))
	if err != nil {
		return err
	}
	if err := c.checkOutputs(cfg); err != nil {
		return err
	}
	if worker == nil && overMPI(cfg, place) {
		if err := c.checkMPI(cfg, place); err != nil {
			return err
		}
		return c.trainByMPI(a, cfg, place, repairs)
	}
	if worker == nil {
		if place.Launch || place.Alone() || !elastic(cfg) { // else it may be of the job that runs
			if err := report.CheckFree(cfg.Job.Out); err != nil {
				return err
			}
		}
		if !place.Alone() {
			job := spec(cfg)
			for _, f := range c.Chaos {
				job.Faults = append(job.Faults, "--chaos "+string(f))
			}
			if job.Elastic && !place.Launch {
				keep(&job, cfg, place)
			}
			return a.supervise(place, cfg.Resolved(), job)
		}
		if len(faults) > 0 {
			return errUsage("--chaos: faults are for the processes of a job, that others survive; give --np 2 or more")
		}
	}
	if worker != nil {
		defer a.spool()()
	}
	if worker != nil && elastic(cfg) {
		_ = arena.Inherit(launcher.KeptFile) // without it a worker that is started again is slower
	}
	s := a.newSession(cfg, place, mpiPart{}, repairs)
	result, err := c.train(s, faults)
	if err != nil {
		return err
	}
	if s.world != nil && !s.over {
		s.world.Done()
	}
	return s.tell(result)
}

// heapGrowth is how much the Go heap may grow between collections, in percent. What is large
// lies outside of it, and little is allocated while training, so collections are rare all
// the same, and the process does not grow for minutes until the first.
const heapGrowth = 25

// train is a worker's part in a job, or the whole of one.
func (c *trainCmd) train(s *session, faults []chaos.Fault) (*train.Result, error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	o := train.Options{Stop: s.stopNow, Observer: s, Progress: s.prepare.show, World: s.trainWorld(), Resume: c.Resume, Chaos: s.chaosIn(faults), RepairRows: s.repairRows}
	var err error
	if o.TraceTo, err = c.traceFile(); err != nil {
		return nil, err
	}
	if s.cfg.Job.SaveModel {
		o.SaveTo = filepath.Join(s.cfg.Job.Out, report.ModelFile)
	}
	result, err := train.Run(s.env, s.cfg, o)
	s.prepare.close()
	switch {
	case err == nil:
		err = s.fault
	case s.ending != nil:
		err = s.ending
	}
	if s.ended != nil || s.over {
		err = s.ended
	} else {
		err = s.finish(result, err)
	}
	if err != nil {
		if s.run != nil {
			return nil, failedRun{err}
		}
		return nil, err
	}
	return result, nil
}

// checkOutputs checks that what a run writes could be written.
func (c *trainCmd) checkOutputs(cfg *config.Config) error {
	if err := report.CheckDir(cfg.Job.Out, "job.out"); err != nil {
		return err
	}
	if c.Trace == "" {
		return nil
	}
	return report.CheckDir(filepath.Dir(c.Trace), "--trace")
}

// traceFile is where the timeline goes, in a folder that is there.
func (c *trainCmd) traceFile() (string, error) {
	if c.Trace == "" {
		return "", nil
	}
	path, err := filepath.Abs(c.Trace)
	if err != nil {
		return "", err
	}
	return path, os.MkdirAll(filepath.Dir(path), 0o755)
}

// failedRun is the error of a run that had started: whatever it is, exit code 2
// would say that nothing was written.
type failedRun struct{ error }

// session follows a training job: it is its Observer.
type session struct {
	app     *app
	out     io.Writer // the person's; app.out only where this process speaks
	cfg     *config.Config
	env     env.Env
	process int
	world   *launcher.World // of this worker; nil where all is here, or over MPI
	mpiPart
	repairRows int         // see envRepairRows
	run        *report.Run // nil before the job starts
	sum        report.Summary
	live       *report.Live
	gpu        *nvml.Watch // nil where none is used, or nobody tells of it

	prepare *bars // until the job starts

	info    train.Info
	steps   report.Quantiles
	samples int64 // in all steps
	busy    time.Duration
	since   interval
	fault   error       // the first error in writing the output; rank 0's, as all above
	failed  atomic.Bool // fault is set; asked by all ranks

	stepping atomic.Bool // a rank has begun a step

	ending *launcher.Ending // the job ends, for no worker's error; nil otherwise
	ended  error            // of done: this process's part
	over   bool             // and the others need it no more
}

// interval adds up what one line of metrics.jsonl reports.
type interval struct {
	steps, samples int
	took           time.Duration
	stages         [train.Stages]time.Duration
}

// watch has metrics tell of the GPU, if one is used.
func (s *session) watch() {
	if s.info.GPU == [16]byte{} {
		return
	}
	var err error
	if s.gpu, err = nvml.Start(s.info.GPU); err != nil {
		s.run.Log().Warn().Err(err).Msg("metrics without the GPU's")
	}
}

// Started implements train.Observer.
func (s *session) Started(i train.Info) error {
	s.info, s.app.out = i, s.out
	s.prepare.close()
	if err := s.env.Do("begin output", s.begin); err != nil {
		return err
	}
	s.watch()
	s.run.Log().Info().Str("device", i.Device).Int("ranks", i.Ranks).Int("threads", i.Threads).
		Int64("rows", i.Rows).Int("dense_params", i.DenseParams).Int64("steps", i.Steps).Msg("start")
	fmt.Fprintf(s.app.out, "%s: %s, %s dense parameters, %s rows of %d bytes, %d ranks, %d threads on %s, %s steps\n",
		s.cfg.Job.Name, s.cfg.Model.Kind, report.Thousands(int64(i.DenseParams)), report.Thousands(i.Rows), i.BytesPerRow,
		i.Ranks, i.Threads, i.Device, report.Thousands(i.Steps))
	if w := s.world; w != nil {
		here := fmt.Sprintf("%d processes", len(present(w)))
		if spares := s.cfg.Elastic.Spares; spares > 0 {
			here += fmt.Sprintf(", %d more to take the place of a lost machine's", spares)
		}
		fmt.Fprintln(s.app.out, here)
	}
	if i.Began > 0 {
		fmt.Fprintf(s.app.out, "goes on after step %s, from a checkpoint\n", report.Thousands(i.Began))
	}
	if s.cfg.Kernels.BLAS == "openblas" {
		fmt.Fprintln(s.app.out, "kernels.blas = \"openblas\": the digest holds for this kind of CPU and this many threads only")
	}
	s.live = report.NewLive(s.app.out, "step", i.Steps)
	return nil
}

// Step implements train.Observer.
func (s *session) Step(i train.StepInfo) {
	s.steps.Add(i.Took)
	s.samples += int64(i.Samples)
	s.busy += i.Took
	s.since.steps++
	s.since.samples += i.Samples
	s.since.took += i.Took
	for stage, d := range i.Stages {
		s.since.stages[stage] += d
	}
	due := i.Step%int64(s.cfg.Train.LogEvery) == 0 || i.Step == i.Last
	if !due && !s.live.OnTerminal() {
		return
	}
	m := s.since.metrics(i)
	if gpu, ok := s.gpu.Latest(); ok {
		m.GPU = &report.GPU{MemoryBytes: gpu.Used, Utilization: report.Number(gpu.Busy)}
	}
	s.live.Step(m)
	if !due {
		return
	}
	s.since = interval{}
	if err := s.env.Do("metrics", func() error { return s.run.Metrics(m) }); err != nil && s.fault == nil {
		s.fault = fmt.Errorf("%s: cannot write metrics.jsonl: %w", s.cfg.Job.Out, err)
		s.failed.Store(true)
	}
}

func (v *interval) metrics(i train.StepInfo) report.Metrics {
	mean := func(d time.Duration) report.Number {
		return report.Number(milliseconds(d) / float64(v.steps))
	}
	m := report.Metrics{Step: int(i.Step), Loss: report.Number(i.Loss), StepMS: mean(v.took),
		SamplesPerS: perSecond(int64(v.samples), v.took), StageMS: map[string]report.Number{}}
	for stage, d := range v.stages {
		m.StageMS[train.Stage(stage).String()] = mean(d)
	}
	return m
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func perSecond(n int64, d time.Duration) report.Number {
	if d <= 0 {
		return 0
	}
	return report.Number(float64(n) / d.Seconds())
}

// Evaluated implements train.Observer.
func (s *session) Evaluated(e train.Eval) {
	s.live.Line("eval after step %s: logloss %.5f, AUC %s", report.Thousands(e.Step), e.Logloss, auc(e.AUC))
	s.run.Log().Info().Int64("step", e.Step).Float64("logloss", e.Logloss).Str("auc", auc(e.AUC)).Msg("eval")
}

// Checkpointed implements train.Observer.
func (s *session) Checkpointed(step int64, path string, err error) {
	if err != nil {
		s.live.Line("step %s: %s", report.Thousands(step), oneLine(err))
		s.run.Log().Error().Int64("step", step).Str("error", oneLine(err)).Msg("checkpoint failed")
		return
	}
	s.run.Log().Info().Int64("step", step).Str("path", path).Msg("checkpoint")
}

// PassedOver implements train.Observer.
func (s *session) PassedOver(path string, err error) {
	fmt.Fprintf(s.app.out, "passed over %s\n", oneLine(err))
}

// Recovered implements train.Observer.
func (s *session) Recovered(x train.Recovery) {
	s.live.Line("recovered from the loss of ranks %v at step %s: back to step %s, training again after %.0f ms, all rebuilt after %.0f ms",
		x.Ranks, report.Thousands(x.Step), report.Thousands(x.CommittedStep), x.ResumeMS, x.WholeMS)
	s.run.Log().Info().Ints("ranks", x.Ranks).Int64("step", x.Step).Int64("committed_step", x.CommittedStep).
		Float64("resume_ms", x.ResumeMS).Float64("whole_ms", x.WholeMS).Int64("rows_decoded", x.RowsDecoded).Msg("recovered")
}

// Warned implements train.Observer.
func (s *session) Warned(what string) {
	fmt.Fprintf(s.app.out, "warning: %s\n", oneLine(errors.New(what)))
}

func auc(x float64) string {
	if math.IsNaN(x) {
		return "undefined (all labels are equal)"
	}
	return fmt.Sprintf("%.5f", x)
}

// finish writes the summary, also of a failed run. It returns the run's error, or
// else that of writing.
func (s *session) finish(r *train.Result, failed error) error {
	speaks, began := s.speaks(), s.run != nil
	if !began && (!speaks || !s.replaces()) {
		return failed
	}
	if heir := s.ending != nil && s.ending.Speaker == s.process; !speaks && !heir {
		return s.endLog(failed)
	}
	if s.live == nil { // who spoke before is lost
		if err := s.env.Do("begin output", s.begin); err != nil {
			return failed
		}
		s.live = report.NewLive(s.app.out, "step", s.info.Steps)
	}
	s.live.Close()
	s.gpu.Close()
	s.gpu = nil
	s.sum = s.summary(r)
	if failed != nil {
		s.sum.Error = oneLine(failed)
		s.run.Log().Error().Str("error", s.sum.Error).Msg("failed")
	} else {
		s.run.Log().Info().Int64("steps", r.Steps).Bool("stopped", r.Stopped).Str("digest", r.Digest).Msg("end")
	}
	if err := s.env.Do("summary", func() error { return s.run.Finish(s.sum) }); err != nil && failed == nil {
		failed = fmt.Errorf("%s: cannot write summary.json: %w", s.cfg.Job.Out, err)
	}
	return failed
}

// tell says how a run went that has not failed.
func (s *session) tell(r *train.Result) error {
	if s.speaks() && s.run != nil {
		if r.Skipped > 0 {
			fmt.Fprintf(s.app.out, "skipped %s malformed samples (data.on_error = \"skip\")\n", report.Thousands(r.Skipped))
		}
		fmt.Fprintf(s.app.out, "%s steps, %s samples/s, step %.3g ms (median), %.3g ms (99 %%)\n", report.Thousands(r.Steps),
			report.Thousands(int64(s.sum.SamplesPerS)), float64(s.sum.StepMS.P50), float64(s.sum.StepMS.P99))
		fmt.Fprintf(s.app.out, "digest %s\nwritten to %s\n", r.Digest, s.cfg.Job.Out)
	}
	if r.Stopped {
		return fmt.Errorf("%w; all that was done is saved", errStopped)
	}
	return nil
}

// endLog ends the log of a process without rank 0.
func (s *session) endLog(failed error) error {
	if failed != nil {
		s.run.Log().Error().Str("error", oneLine(failed)).Msg("failed")
	} else {
		s.run.Log().Info().Msg("end")
	}
	if err := s.env.Do("log", s.run.Close); err != nil && failed == nil {
		failed = fmt.Errorf("%s: cannot write the log: %w", s.cfg.Job.Out, err)
	}
	return failed
}
