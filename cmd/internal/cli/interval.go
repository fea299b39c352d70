package cli

import (
	"time"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/train"
)

// interval sums the steps that one line of output covers: those after step from.
type interval struct {
	from    int64
	samples int
	steps   int
	took    time.Duration
	stages  [probe.Stages]time.Duration
}

func (v *interval) addStep(i train.StepInfo) {
	v.steps++
	v.samples += i.Samples
	v.took += i.Took
	for stage, d := range i.Stages {
		v.stages[stage] += d
	}
}

// toMetrics returns the figures of an interval that ends with step i. The loss is the mean over
// the run's history, in which a replayed step counts once.
func (v *interval) toMetrics(i train.StepInfo) report.Metrics {
	mean := func(d time.Duration) report.Number {
		return report.Number(milliseconds(d) / float64(v.steps))
	}
	m := report.Metrics{Step: int(i.Step), Loss: report.Number(meanOf(i.Losses[min(v.from, i.Step-1):i.Step])), StepMS: mean(v.took),
		SamplesPerS: perSecond(int64(v.samples), v.took), StageMS: map[string]report.Number{}}
	for stage, d := range v.stages {
		m.StageMS[probe.Stage(stage).String()] = mean(d)
	}
	if x := i.Rebuild; x.LeftBytes > 0 {
		m.Rebuild = &report.Rebuild{LeftBytes: x.LeftBytes, BytesPerS: report.Number(x.BytesPerSecond), EndsAfterS: report.Number(x.Ends().Seconds())}
	}
	return m
}

// isDue reports whether train.log_every requires a line after a step: after every multiple of
// it, and after the last step.
func isDue(i train.StepInfo, every int) bool { return i.Step%int64(every) == 0 || i.Step == i.Last }

// dueAfter returns the figures of the steps since the last multiple of every, and begins a new
// interval.
func (v *interval) dueAfter(i train.StepInfo, every int) report.Metrics {
	v.from = (i.Step - 1) / int64(every) * int64(every)
	m := v.toMetrics(i)
	*v = interval{}
	return m
}

func meanOf(losses []float64) float64 {
	sum := 0.0
	for _, l := range losses {
		sum += l
	}
	return sum / float64(len(losses))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func perSecond(n int64, d time.Duration) report.Number {
	if d <= 0 {
		return 0
	}
	return report.Number(float64(n) / d.Seconds())
}
