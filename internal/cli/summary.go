package cli

import (
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/internal/report"
	"github.com/ecrec/ecrec/train"
)

func (s *session) summary(r *train.Result) report.Summary {
	sum := report.Summary{Digest: r.Digest, Steps: int(r.Steps), Ranks: s.cfg.Job.Ranks, SamplesPerS: perSecond(s.samples, s.busy),
		StepMS: s.steps.StepMS(), Skipped: r.Skipped, Stopped: r.Stopped, Versions: versions(s.info.Device)}
	if n := float64(r.Steps - r.Began); n > 0 {
		m := r.Moved
		sum.Cache = &report.Cache{
			CriticalRows: report.Number(float64(m.Critical.Rows) / n), CriticalBytes: report.Number(float64(m.Critical.Bytes) / n),
			DelayedRows: report.Number(float64(m.Delayed.Rows) / n), DelayedBytes: report.Number(float64(m.Delayed.Bytes) / n),
		}
	}
	if p := r.Protection; s.cfg.EC.Code != "none" {
		sum.EC = &report.EC{OverheadBytes: p.SentBytes, MemoryBytes: p.ParityBytes, JournalBytes: p.JournalBytes,
			StagedBytes: p.StagedBytes, SnapshotBytes: p.SnapshotBytes, WaitMS: report.Number(milliseconds(p.Waited))}
	}
	for _, x := range r.Recoveries {
		sum.Recoveries = append(sum.Recoveries, report.Recovery{Ranks: x.Ranks, Step: int(x.Step), CommittedStep: int(x.CommittedStep),
			StepsRedone: int(x.StepsRedone), DetectMS: report.Number(x.DetectMS), ResumeMS: report.Number(x.ResumeMS),
			RegainMS: report.Number(x.RegainMS), WholeMS: report.Number(x.WholeMS), JoinMS: report.Number(x.JoinMS), AgreeMS: report.Number(x.AgreeMS),
			RollbackMS: report.Number(x.RollbackMS), DenseMS: report.Number(x.DenseMS), SurveyMS: report.Number(x.SurveyMS),
			RowsDecoded: x.RowsDecoded, RowsOnDemand: x.RowsOnDemand, BytesRead: x.BytesRead})
	}
	for _, x := range r.TrainLoss {
		sum.TrainLoss = append(sum.TrainLoss, report.Number(x))
	}
	for _, e := range r.Eval {
		sum.Eval = append(sum.Eval, report.Eval{Step: int(e.Step), LogLoss: report.Number(e.Logloss), AUC: report.Number(e.AUC)})
	}
	return sum
}

// versions says what produced a run's numbers.
func versions(device string) map[string]string {
	return map[string]string{"ecrec": machine.Version(), "go": machine.GoVersion(), "device": device, "cpu": machine.CPU()}
}
