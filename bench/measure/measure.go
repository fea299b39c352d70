package measure

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/train"
)

// Modes beside those of cache.mode.
const (
	// Ideal measures steps that have every row at hand and exchange none.
	Ideal = "ideal"
	// Unprotected measures steps of the config's cache.mode without commits. The parities
	// miss the updates of such steps.
	Unprotected = "unprotected"
	// Unstreamed measures steps of the config's cache.mode with commits that are not sent to stream.to. Its blocks begin with
	// an epoch that is not timed, in which the stream sends what is left of the block before.
	Unstreamed = "unstreamed"
)

// Sample is one measurement: a block of steps and, in the same run, the matrix products of
// those steps alone, on all ranks at once.
type Sample struct {
	// Step and GEMM are wall-clock times of one step and of its bare products. GEMM is 0
	// unless Options.GEMMs is set.
	Step, GEMM time.Duration
	// Stages are rank 0's, mean per step.
	Stages [probe.Stages]time.Duration
	// Moved is the traffic that rank 0 received, mean per step.
	Moved lrpp.Moved
	// Cost is the cost of protection on rank 0, mean per step. Protection is the memory and
	// traffic of all ranks for it after the block.
	Cost       train.Cost
	Protection train.Protection
	// Checkpoint is the time of a checkpoint after the block, if Options.Checkpoints is set.
	Checkpoint time.Duration
}

// Options set the amount of measurement: Repeats samples of each mode, each of Steps steps after
// Warmup steps.
type Options struct {
	Warmup, Steps, Repeats int
	// Modes are the modes in turn; empty: the config's cache.mode.
	Modes []string
	// Checkpoints adds a checkpoint after each block of the first mode.
	Checkpoints bool
	// GEMMs adds the products alone.
	GEMMs bool
	// WrapModel, if set, may replace a rank's model.
	WrapModel func(rank int, m model.Model) model.Model
	// Untouched leaves rows untouched before the first block: their memory is not that of a job, and what the first touch of a row takes
	// is not measured.
	Untouched bool
	// Block, if set, is called on rank 0 when the timed part of a block begins (true) and
	// ends (false).
	Block func(begins bool)
	// EndEarly, if set, is called before each turn of the modes. If it returns true, Run returns ErrEnded.
	EndEarly func() bool
	train.Options
}

// ErrEnded is the error of a measurement that EndEarly ended.
var ErrEnded = errors.New("measure: ended early")

// Run trains a config and returns its samples by mode. It evaluates and saves nothing else.
func Run(e env.Env, cfg *config.Config, o Options) (samples [][]Sample, info train.Info, err error) {
	if len(o.Modes) == 0 {
		o.Modes = []string{cfg.Cache.Mode}
	}
	steps := int64(o.Repeats * len(o.Modes) * (o.Warmup + o.Steps))
	turns := NewTurns(o.Repeats, o.EndEarly)
	info, err = train.Try(e, cfg, o.Options, steps, func(t *train.Trial) error {
		s, err := (&measurement{o, t, e, cfg.Cache.Mode, turns}).measureModes()
		if t.Rank() == 0 {
			samples = s
		}
		return err
	})
	return samples, info, err
}

// measurement is one rank's.
type measurement struct {
	Options
	trial  *train.Trial
	env    env.Env
	config string // cache.mode
	turns  *Turns
}

// Turns are the decisions whether each turn is run. All ranks of the process read the same one, so that none waits for another
// that has ended.
type Turns struct {
	endEarly func() bool
	decided  []atomic.Int32 // 0: not yet; else run or end
}

const (
	runTurn = 1
	endTurn = 2
)

// NewTurns returns the decisions of n turns. Once endEarly, if set, has returned true, no further turn is run.
func NewTurns(n int, endEarly func() bool) *Turns { return &Turns{endEarly, make([]atomic.Int32, n)} }

// IsEnded reports whether a turn is not run. The first rank to call it decides.
func (t *Turns) IsEnded(turn int) bool {
	choice := int32(runTurn)
	if t.endEarly != nil && t.endEarly() {
		choice = endTurn
	}
	t.decided[turn].CompareAndSwap(0, choice)
	return t.decided[turn].Load() == endTurn
}

// cacheMode is the mode in which steps are planned. An ideal step needs no plan.
func (m *measurement) cacheMode(name string) lrpp.Mode {
	switch name {
	case Ideal:
		return lrpp.Direct
	case Unprotected, Unstreamed:
		name = m.config
	}
	return m.trial.Mode(name)
}

func (m *measurement) measureModes() ([][]Sample, error) {
	t := m.trial
	if m.WrapModel != nil {
		t.SetModel(m.WrapModel(t.Rank(), t.Model()))
	}
	begin := t.TouchAll
	if m.Untouched {
		begin = t.BeginCommits
	}
	if err := begin(); err != nil {
		return nil, err
	}
	for _, name := range m.Modes {
		if m.cacheMode(name) == lrpp.Cached {
			if err := t.OpenCache(int64(m.Warmup + m.Steps)); err != nil {
				return nil, err
			}
			break
		}
	}
	ideal := newIdeal(t)
	defer ideal.Close()
	samples := make([][]Sample, len(m.Modes))
	for turn := range m.Repeats {
		if m.turns.IsEnded(turn) {
			return nil, ErrEnded
		}
		for i, name := range m.Modes {
			if name == Ideal {
				t.SetExchange(ideal)
			} else {
				t.SetMode(m.cacheMode(name))
			}
			s, err := m.measureBlock(name)
			if err != nil {
				return nil, err
			}
			if m.Checkpoints && i == 0 {
				if s.Checkpoint, err = m.meanTime(1, t.SaveCheckpoint); err != nil {
					return nil, err
				}
			}
			samples[i] = append(samples[i], s)
		}
	}
	return samples, nil
}

// measureBlock measures one block of a mode.
func (m *measurement) measureBlock(name string) (s Sample, err error) {
	t := m.trial
	if name == Unprotected {
		defer t.SuspendProtection()()
	}
	if name == Unstreamed {
		defer t.SuspendStream()()
	}
	steps := t.Start(m.cacheMode(name), m.Warmup+m.Steps)
	defer func() { steps.Close(err) }()
	for range m.Warmup {
		if err := steps.Train(); err != nil {
			return s, err
		}
	}
	before := t.Cost()
	if err := t.Barrier(); err != nil {
		return s, err
	}
	m.reportBlock(true)
	t.ResetMoved()
	if s.Step, err = m.meanTime(m.Steps, func() error {
		if err := steps.Train(); err != nil {
			return err
		}
		for st, d := range t.Stages() {
			s.Stages[st] += d / time.Duration(m.Steps)
		}
		return nil
	}); err != nil {
		return s, err
	}
	m.reportBlock(false)
	s.Cost = t.Cost().Since(before, m.Steps)
	n := int64(m.Steps)
	mean := func(t lrpp.Traffic) lrpp.Traffic { return lrpp.Traffic{Rows: t.Rows / n, Bytes: t.Bytes / n} }
	moved := t.Moved()
	s.Moved = lrpp.Moved{Critical: mean(moved.Critical), Delayed: mean(moved.Delayed)}
	if s.Protection, err = t.Settle(); err != nil || !m.GEMMs {
		return s, err
	}
	s.GEMM, err = m.meanTime(m.Steps, t.MultiplyOnly)
	return s, err
}

func (m *measurement) reportBlock(begins bool) {
	if m.trial.Rank() == 0 && m.Block != nil {
		m.Block(begins)
	}
}

// meanTime is the mean time of f, called n times on all ranks at once.
func (m *measurement) meanTime(n int, f func() error) (time.Duration, error) {
	if err := m.trial.Barrier(); err != nil {
		return 0, err
	}
	began := m.env.Now()
	for range n {
		if err := f(); err != nil {
			return 0, err
		}
	}
	err := m.trial.Barrier()
	return (m.env.Now() - began) / time.Duration(n), err
}
