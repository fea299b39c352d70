package runs

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/internal/report"
	"github.com/ecrec/ecrec/train"
)

// ModelFile is the name of the final model in a run's output folder.
const ModelFile = "model.safetensors"

// Train runs a config's job and writes its outputs; what people read goes to w.
// stop is asked once per step. The result is whether the job was stopped.
func Train(cfg *config.Config, w io.Writer, stop func() bool) (stopped bool, err error) {
	if err := report.CheckDir(cfg.Job.Out); err != nil {
		return false, err
	}
	r := &recorder{cfg: cfg, w: w}
	o := train.Options{Stop: stop, Observer: r, Progress: r.prepare}
	if cfg.Job.SaveModel {
		o.SaveTo = filepath.Join(cfg.Job.Out, ModelFile)
	}
	result, err := train.Run(env.Real(), cfg, o)
	return result.Stopped, r.finish(result, err)
}

// recorder turns what a job tells into files and lines.
type recorder struct {
	cfg     *config.Config
	w       io.Writer
	run     *report.Run
	info    train.Info
	live    *report.Live
	convert *report.Live

	times    report.Quantiles
	samples  int64
	took     time.Duration
	interval interval
	logErr   error // the first error of metrics.jsonl
}

// interval is what happened since the last line of metrics.
type interval struct {
	steps   int
	samples int64
	took    time.Duration
	stages  [train.Stages]time.Duration
}

// prepare shows how far the conversion of the input is.
func (r *recorder) prepare(p data.Progress) error {
	if r.convert == nil {
		r.convert = report.NewLive(r.w, p.What+" bytes", p.Total)
	}
	r.convert.Advance(p.Done)
	if p.Done == p.Total {
		r.convert.Close()
		r.convert = nil
	}
	return nil
}

// Started implements train.Observer.
func (r *recorder) Started(i train.Info) (err error) {
	r.info = i
	if r.run, err = report.Open(r.cfg.Job.Out, r.cfg.Resolved(), 0); err != nil {
		return err
	}
	rows := i.Rows * int64(i.BytesPerRow)
	fmt.Fprintf(r.w, "%s: %d ranks, %d threads, %s; %s dense parameters, %s rows (%s when all are touched), %s steps\n",
		r.cfg.Job.Name, i.Ranks, i.Threads, i.Device, report.Thousands(int64(i.DenseParams)), report.Thousands(i.Rows),
		machine.Size(rows), report.Thousands(i.Steps))
	r.run.Log().Info().Int("ranks", i.Ranks).Int("threads", i.Threads).Str("device", i.Device).Int64("steps", i.Steps).Msg("start")
	r.live = report.NewLive(r.w, "step", i.Steps)
	return nil
}

// Step implements train.Observer.
func (r *recorder) Step(s train.StepInfo) {
	r.times.Add(s.Took)
	r.samples += int64(s.Samples)
	r.took += s.Took
	v := &r.interval
	v.steps++
	v.samples += int64(s.Samples)
	v.took += s.Took
	for i, d := range s.Stages {
		v.stages[i] += d
	}
	if s.Step%int64(r.cfg.Train.LogEvery) != 0 && s.Step != s.Last {
		return
	}
	m := report.Metrics{
		Step: int(s.Step), Loss: report.Number(s.Loss), SamplesPerS: rate(v.samples, v.took),
		StepMS: ms(v.took, v.steps), StageMS: map[string]report.Number{},
	}
	for i, d := range v.stages {
		m.StageMS[train.Stage(i).String()] = ms(d, v.steps)
	}
	*v = interval{}
	if err := r.run.Metrics(m); err != nil && r.logErr == nil {
		r.logErr = err
		r.run.Log().Error().Err(err).Msg("metrics.jsonl")
	}
	r.live.Step(m)
}

func ms(d time.Duration, n int) report.Number {
	return report.Number(1e3 * d.Seconds() / float64(n))
}

func rate(samples int64, took time.Duration) report.Number {
	if took <= 0 {
		return 0
	}
	return report.Number(float64(samples) / took.Seconds())
}

// Evaluated implements train.Observer.
func (r *recorder) Evaluated(e train.Eval) {
	r.live.Line("step %d: logloss %.5f, AUC %.5f", e.Step, e.Logloss, e.AUC)
	r.run.Log().Info().Int64("step", e.Step).Float64("logloss", e.Logloss).Float64("auc", e.AUC).Msg("evaluated")
}

// finish writes the summary of a job that started, and says how it ended.
func (r *recorder) finish(result *train.Result, err error) error {
	if r.convert != nil {
		r.convert.Close()
	}
	if r.run == nil {
		return err
	}
	r.live.Close()
	s := r.summary(result)
	if err != nil {
		s.Error = err.Error()
		r.run.Log().Error().Err(err).Int64("steps", result.Steps).Msg("failed")
		return errors.Join(err, r.run.Finish(s))
	}
	r.run.Log().Info().Str("digest", result.Digest).Int64("steps", result.Steps).Bool("stopped", result.Stopped).Msg("end")
	if result.Skipped > 0 {
		fmt.Fprintf(r.w, "skipped %s malformed samples (data.on_error = \"skip\")\n", report.Thousands(result.Skipped))
	}
	if r.logErr != nil {
		fmt.Fprintf(r.w, "metrics.jsonl is incomplete: %v\n", r.logErr)
	}
	if err := r.run.Finish(s); err != nil {
		return err
	}
	fmt.Fprintf(r.w, "%s steps, %s samples/s, digest %s\noutputs in %s\n",
		report.Thousands(result.Steps), report.Thousands(int64(s.SamplesPerS)), result.Digest, r.cfg.Job.Out)
	return nil
}

func (r *recorder) summary(result *train.Result) report.Summary {
	s := report.Summary{
		Digest: result.Digest, Steps: int(result.Steps), Ranks: r.info.Ranks,
		SamplesPerS: rate(r.samples, r.took), StepMS: r.times.StepMS(), Versions: r.versions(),
	}
	for _, l := range result.TrainLoss {
		s.TrainLoss = append(s.TrainLoss, report.Number(l))
	}
	for _, e := range result.Eval {
		s.Eval = append(s.Eval, report.Eval{Step: int(e.Step), LogLoss: report.Number(e.Logloss), AUC: report.Number(e.AUC)})
	}
	if n := float64(result.Steps); n > 0 {
		s.Cache.CriticalRows = report.Number(float64(result.Moved.Rows) / n)
		s.Cache.CriticalBytes = report.Number(float64(result.Moved.Bytes) / n)
	}
	return s
}

func (r *recorder) versions() map[string]string {
	v := map[string]string{"go": runtime.Version(), "kernels": r.info.Device, "blas": r.cfg.Kernels.BLAS}
	if b, ok := debug.ReadBuildInfo(); ok {
		v["ecrec"] = b.Main.Version
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				v["revision"] = s.Value
			}
		}
	}
	return v
}
