package exporter

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/train"
)

// jobFigures is the collector of the job's figures.
type jobFigures struct {
	o        Options
	steps    prometheus.Histogram
	recovery *prometheus.HistogramVec
	events   eventTail

	mu sync.Mutex // held only to set or copy state
	state
}

// state holds the values reported by rank 0.
type state struct {
	device, lineage     string
	running, failed     bool
	start               time.Time
	planned, step       int64
	ranks               int
	samples             int64
	stages              [probe.Stages]time.Duration
	hasLoss             bool
	loss, losses        float64 // the exported mean; the sum of the steps since
	lossSteps           int
	redundancy          train.Redundancy
	rebuild             train.Rebuild
	redone, decoded     int64
	commits, commitStep int64
	durable, streamed   int64
	commitTime          time.Time
}

func newJobFigures(o Options) *jobFigures {
	f := &jobFigures{o: o, events: eventTail{path: o.Events, eventCounts: eventCounts{spares: o.Spares}},
		steps: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ecrec_step_seconds", Buckets: stepBuckets,
			Help: "Duration of a step on rank 0; a replayed step counts again."}),
		recovery: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ecrec_recovery_seconds", Buckets: recoveryBuckets,
			Help: "Time from a loss to the end of each phase of its recovery."}, []string{"phase"}),
	}
	for _, p := range phases(&train.Recovery{}) {
		f.recovery.WithLabelValues(p.name) // Prometheus computes an increase only from an existing value
	}
	return f
}

// phase is the end of a phase of a recovery, in milliseconds since the loss.
type phase struct {
	name string
	ms   float64
}

func phases(x *train.Recovery) []phase {
	return []phase{{"detect", x.DetectMS}, {"start", x.StartMS}, {"join", x.JoinMS}, {"agree", x.AgreeMS}, {"rollback", x.RollbackMS}, {"dense", x.DenseMS},
		{"survey", x.SurveyMS}, {"ready", x.ReadyMS}, {"resume", x.ResumeMS}, {"regain", x.RegainMS}, {"whole", x.WholeMS}}
}

// update changes the state.
func (f *jobFigures) update(do func(s *state)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(&f.state)
}

func (f *jobFigures) setStarted(i train.Info, now time.Time) {
	f.update(func(s *state) {
		*s = state{device: i.Device, lineage: i.Run.Lineage.String(), running: true, start: now, planned: i.Steps, step: i.Began, ranks: i.Ranks}
	})
}

func (f *jobFigures) addStep(i train.StepInfo) {
	f.steps.Observe(i.Took.Seconds())
	f.update(func(s *state) {
		s.running, s.step, s.samples, s.redundancy, s.durable, s.streamed = true, i.Step, s.samples+int64(i.Samples), i.Redundancy, i.Durable, i.Streamed
		s.rebuild = i.Rebuild
		for stage, d := range i.Stages {
			s.stages[stage] += d
		}
		s.losses, s.lossSteps = s.losses+i.Loss, s.lossSteps+1
		if i.Step%f.o.LogEvery == 0 || i.Step == i.Last || !s.hasLoss {
			s.hasLoss, s.loss, s.losses, s.lossSteps = true, s.losses/float64(s.lossSteps), 0, 0
		}
	})
}

func (f *jobFigures) addCommit(step int64, now time.Time) {
	f.update(func(s *state) { s.commits, s.commitStep, s.commitTime = s.commits+1, step, now })
}

func (f *jobFigures) addRecovery(x train.Recovery) {
	for _, p := range phases(&x) {
		f.recovery.WithLabelValues(p.name).Observe(p.ms / 1000)
	}
	f.update(func(s *state) { s.redone, s.decoded = s.redone+x.StepsRedone, s.decoded+x.RowsDecoded })
}

func (f *jobFigures) setEnded(err error, stopped bool) {
	f.update(func(s *state) {
		s.running, s.failed = false, err != nil
		if err == nil && !stopped {
			s.planned = s.step // the input had no more, or it ended early
		}
		if errors.As(err, new(*train.Diverged)) {
			s.hasLoss, s.loss = true, math.NaN()
		}
	})
}

// Describe implements prometheus.Collector. It describes nothing: the set of figures depends on the
// run.
func (f *jobFigures) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f *jobFigures) Collect(ch chan<- prometheus.Metric) {
	f.mu.Lock()
	s := f.state
	f.mu.Unlock()
	to := sink(ch)
	to.sendValue(figInfo, 1, f.o.Version, f.o.Model, s.device, s.lineage)
	to.sendValue(figRunning, truth(s.running))
	to.sendValue(figFailed, truth(s.failed))
	to.sendValue(figStart, seconds(s.start))
	if s.planned > 0 {
		to.sendValue(figPlanned, float64(s.planned))
	}
	to.sendValue(figStep, float64(s.step))
	to.sendValue(figSamples, float64(s.samples))
	to.sendValue(figRanks, float64(s.ranks))
	if s.hasLoss {
		to.sendValue(figLoss, s.loss)
	}
	for stage, d := range s.stages {
		to.sendValue(figStage, d.Seconds(), probe.Stage(stage).String())
	}
	f.steps.Collect(ch)
	coded := s.redundancy.Groups > 0
	if coded {
		s.sendProtection(to)
		f.recovery.Collect(ch)
	}
	s.sendCommits(to, coded)
	f.events.sendCounts(to, coded)
}

// sendProtection sends the figures of jobs with a code.
func (s *state) sendProtection(to sink) {
	x := s.redundancy
	to.sendValue(figRebuilding, float64(x.Rebuilding))
	to.sendValue(figLeft, float64(s.rebuild.LeftBytes))
	to.sendValue(figRate, s.rebuild.BytesPerSecond)
	to.sendValue(figGroups, float64(x.Groups))
	to.sendValue(figNoSpare, float64(x.NoSpare))
	to.sendValue(figSurvivable, float64(x.Survivable))
	to.sendValue(figRedone, float64(s.redone))
	to.sendValue(figDecoded, float64(s.decoded))
}

// sendCommits sends the figures of jobs that commit: with a code, with store.path or with stream.to.
func (s *state) sendCommits(to sink, coded bool) {
	if coded || s.commits > 0 {
		to.sendValue(figCommits, float64(s.commits))
	}
	if s.durable > 0 {
		to.sendValue(figDurable, float64(s.durable))
	}
	if s.streamed > 0 {
		to.sendValue(figStreamed, float64(s.streamed))
	}
	if s.commits > 0 {
		to.sendValue(figCommitStep, float64(s.commitStep))
		to.sendValue(figCommitTime, seconds(s.commitTime))
	}
}

// seconds returns a time in Unix seconds.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
