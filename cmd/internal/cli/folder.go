package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/buildinfo"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/internal/nvml"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/train"
)

// runFolder writes files of job.out: metrics.jsonl, the log of this process, the summary.
type runFolder struct {
	unobserved
	cfg    *config.Config
	env    env.Env
	warn   func(string)
	gpu    func() (nvml.Sample, bool)
	latest string // see outFlags

	run     *report.Run // nil before the job starts
	logged  bool        // the log has its first line
	steps   report.Quantiles
	samples int64         // in all steps
	busy    time.Duration // in all steps
	since   interval      // of the next line of metrics.jsonl
}

// openFolder creates the folder and opens the log of a process in it.
func (f *runFolder) openFolder(process int) (err error) {
	f.run, err = report.Open(f.cfg.Job.Out, process)
	return err
}

// logStart writes the first line of the log: which incarnation of the process this is.
func (f *runFolder) logStart(process int, w *launcher.World) {
	if f.logged {
		return
	}
	f.logged = true
	entry := f.run.Log().Info().Int("pid", os.Getpid()).Str("node", machine.NodeName())
	if w != nil {
		entry = entry.Int("incarnation", w.Processes[process].Incarnation).Uint64("generation", w.Generation)
		if w.WasStandby {
			entry = entry.Bool("standby", true)
		}
	}
	entry.Msg("start")
}

// logJob writes to the log what is trained.
func (f *runFolder) logJob(i train.Info) {
	f.run.Log().Info().Str("device", i.Device).Int("ranks", i.Ranks).Int("threads", i.Threads).
		Int64("rows", i.Rows).Int("dense_params", i.DenseParams).Int64("steps", i.Steps).Msg("train")
}

// Step writes a line of metrics.jsonl if one is due.
func (f *runFolder) Step(i train.StepInfo) {
	f.steps.Add(i.Took)
	f.samples += int64(i.Samples)
	f.busy += i.Took
	f.since.addStep(i)
	if !isDue(i, f.cfg.Train.LogEvery) {
		return
	}
	m := f.since.dueAfter(i, f.cfg.Train.LogEvery)
	if gpu, ok := f.gpu(); ok {
		m.GPU = &report.GPU{MemoryBytes: gpu.Used, Utilization: report.Number(gpu.Busy)}
	}
	if err := f.env.Do("metrics", func() error { return f.run.Metrics(m) }); err != nil {
		f.warn(fmt.Sprintf("%s: cannot write metrics.jsonl (%v); training continues, and lines that cannot be written are left out",
			f.cfg.Job.Out, err))
	}
}

// newSummary returns the summary of a run.
func (f *runFolder) newSummary(r *train.Result, i train.Info) report.Summary {
	sum := report.Summary{Name: f.cfg.Job.Name, Digest: r.Digest, Steps: int(r.Steps), Ranks: f.cfg.Job.Ranks,
		SamplesPerS: perSecond(f.samples, f.busy),
		StepMS:      f.steps.StepMS(), Skipped: r.Skipped, Stopped: r.Stopped}
	if sum.ModelDigest = r.ModelDigest; sum.ModelDigest != "" {
		sum.ModelStep = int(modelStep(r))
	}
	build := buildinfo.Read()
	sum.Versions = map[string]string{"ecrec": build.String(), "go": build.Toolchain(), "device": i.Device, "cpu": machine.CPU()}
	sum.Started, sum.Ended = f.run.Began, time.Now().UTC().Truncate(time.Millisecond)
	sum.WallS = report.Number(sum.Ended.Sub(sum.Started).Seconds())
	sum.Version, sum.Commit = build.Version, build.Commit
	sum.Lineage, sum.Data = i.Run.Lineage.String(), dataOf{&i.Inputs.Train, nil}
	if len(f.cfg.Data.Eval) > 0 {
		sum.Data = dataOf{&i.Inputs.Train, &i.Inputs.Eval}
	}
	if o := i.Origin; o != nil && o.Path != "" {
		sum.ResumedFrom = &report.Resumed{Step: o.Step, Path: o.Path, Topic: o.Source}
	}
	if n := float64(r.Steps - r.Began); n > 0 {
		m := r.Moved
		sum.Cache = &report.Cache{
			CriticalRows: report.Number(float64(m.Critical.Rows) / n), CriticalBytes: report.Number(float64(m.Critical.Bytes) / n),
			DelayedRows: report.Number(float64(m.Delayed.Rows) / n), DelayedBytes: report.Number(float64(m.Delayed.Bytes) / n),
		}
	}
	if p := r.Protection; f.cfg.EC.Code != "none" {
		sum.EC = &report.EC{OverheadBytes: p.SentBytes, MemoryBytes: p.ParityBytes, JournalBytes: p.JournalBytes,
			StagedBytes: p.StagedBytes, SnapshotBytes: p.SnapshotBytes, WaitMS: report.Number(milliseconds(p.Waited))}
	}
	addHistory(&sum, r)
	return sum
}

// modelStep is the step after which a run had the model that it saved.
func modelStep(r *train.Result) int64 {
	if r.ModelEval != nil {
		return r.ModelEval.Step
	}
	return r.Steps
}

// addHistory adds the recoveries, losses and evaluations of a run to its summary.
func addHistory(sum *report.Summary, r *train.Result) {
	for _, x := range r.Recoveries {
		sum.Recoveries = append(sum.Recoveries, report.Recovery{Ranks: x.Ranks, Step: int(x.Step), CommittedStep: int(x.CommittedStep),
			StepsRedone: int(x.StepsRedone), DetectMS: report.Number(x.DetectMS), ResumeMS: report.Number(x.ResumeMS),
			RegainMS: report.Number(x.RegainMS), WholeMS: report.Number(x.WholeMS), JoinMS: report.Number(x.JoinMS),
			AgreeMS: report.Number(x.AgreeMS), StartMS: report.Number(x.StartMS), ReadyMS: report.Number(x.ReadyMS),
			RollbackMS: report.Number(x.RollbackMS), DenseMS: report.Number(x.DenseMS), SurveyMS: report.Number(x.SurveyMS),
			RowsDecoded: x.RowsDecoded, RowsOnDemand: x.RowsOnDemand, BytesRead: x.BytesRead,
			RebuildSteps: x.RebuildSteps, RebuildRate: report.Number(x.RebuildRate)})
	}
	for _, x := range r.TrainLoss {
		sum.TrainLoss = append(sum.TrainLoss, report.Number(x))
	}
	for _, e := range r.Eval {
		sum.Eval = append(sum.Eval, report.Eval{Step: int(e.Step), LogLoss: report.Number(e.Logloss), AUC: report.Number(e.AUC)})
	}
}

// dataOf is the identity of a run's data, in summary.json.
type dataOf struct {
	Train *data.Identity `json:"train"`
	Eval  *data.Identity `json:"eval,omitempty"`
}
