package measure

import (
	"errors"
	"sync"
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
	// Moved is the traffic that rank 0 received, mean per step. Total is that of all ranks of this process.
	Moved, Total lrpp.Moved
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
	// Ahead is how many steps after those of a block are planned and never trained, so that its last steps look as far ahead as
	// its first ones.
	Ahead int
	// Exchanges makes the exchanges of further modes. Their steps are planned as those of cache mode "none".
	Exchanges map[string]func(*train.Trial) (Exchange, error)
	// Prepare, if set, is called on each rank before its first block.
	Prepare func(t *train.Trial) error
	// Modes are the modes in turn; empty: the config's cache.mode.
	Modes []string
	// Checkpoints adds a checkpoint after each block of the first mode.
	Checkpoints bool
	// GEMMs adds the products alone.
	GEMMs bool
	// WrapModel, if set, may replace a rank's model.
	WrapModel func(rank int, m model.Model) model.Model
	// Untouched leaves rows untouched before the first block: their memory is not that of a job, and the time of the first touch of a row
	// is not measured.
	Untouched bool
	// Block, if set, is called on rank 0 when the timed part of a block begins (true) and
	// ends (false).
	Block func(begins bool)
	// EndEarly, if set, is called before each turn of the modes, with the turns so far and all of them. Once it returns true, Run returns
	// the samples of these turns, or ErrEnded if there are fewer than two: callers leave out the first.
	EndEarly func(done, all int) bool
	train.Options
}

// Exchange is a train.Exchange that a measurement closes at its end.
type Exchange interface {
	train.Exchange
	Close()
}

// ErrEnded is the error of a measurement that EndEarly ended before there was a result.
var ErrEnded = errors.New("measure: ended early")

// Run trains a config and returns its samples by mode. It evaluates and saves nothing else.
func Run(e env.Env, cfg *config.Config, o Options) (samples [][]Sample, info train.Info, err error) {
	if len(o.Modes) == 0 {
		o.Modes = []string{cfg.Cache.Mode}
	}
	steps := int64(o.Repeats * len(o.Modes) * (o.Warmup + o.Steps))
	turns, total := NewTurns(o.Repeats, o.EndEarly), &totals{moved: make([]lrpp.Moved, o.Repeats*len(o.Modes))}
	info, err = train.Try(e, cfg, o.Options, steps, func(t *train.Trial) error {
		m := &measurement{Options: o, trial: t, env: e, config: cfg.Cache.Mode, turns: turns, totals: total}
		s, err := m.measureModes()
		if t.Rank() == 0 {
			samples = s
		}
		return err
	})
	for i := range samples {
		for k := range samples[i] {
			samples[i][k].Total = meanOf(total.moved[k*len(samples)+i], o.Steps)
		}
	}
	return samples, info, err
}

// totals are the traffic of all ranks of this process, by block.
type totals struct {
	mutex sync.Mutex // nothing waits while it is locked
	moved []lrpp.Moved
}

func (t *totals) addBlock(block int, m lrpp.Moved) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.moved[block].Add(m)
}

// meanOf is the traffic of one of some steps.
func meanOf(m lrpp.Moved, steps int) lrpp.Moved {
	n := int64(steps)
	mean := func(t lrpp.Traffic) lrpp.Traffic { return lrpp.Traffic{Rows: t.Rows / n, Bytes: t.Bytes / n} }
	return lrpp.Moved{Critical: mean(m.Critical), Delayed: mean(m.Delayed)}
}

// measurement is one rank's.
type measurement struct {
	Options
	trial  *train.Trial
	env    env.Env
	config string // cache.mode
	turns  *Turns
	totals *totals
	blocks int // that this rank measured
}

// Turns are the decisions whether each turn is run. All ranks of the process read the same one, so that none waits for another
// that has ended.
type Turns struct {
	endEarly func(done, all int) bool
	decided  []atomic.Int32 // 0: not yet; else run or end
}

const (
	runTurn = 1
	endTurn = 2
)

// NewTurns returns the decisions of n turns. Once endEarly, if set, has returned true, no further turn is run.
func NewTurns(n int, endEarly func(done, all int) bool) *Turns {
	return &Turns{endEarly, make([]atomic.Int32, n)}
}

// IsEnded reports whether a turn is not run. The first rank to call it decides.
func (t *Turns) IsEnded(turn int) bool {
	if t.decided[turn].Load() == 0 {
		choice := int32(runTurn)
		if t.endEarly != nil && t.endEarly(turn, len(t.decided)) {
			choice = endTurn
		}
		t.decided[turn].CompareAndSwap(0, choice)
	}
	return t.decided[turn].Load() == endTurn
}

// cacheMode is the mode in which steps are planned. An ideal step needs no plan.
func (m *measurement) cacheMode(name string) lrpp.Mode {
	if m.Exchanges[name] != nil {
		return lrpp.Direct
	}
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
	if m.Prepare != nil {
		if err := m.Prepare(t); err != nil {
			return nil, err
		}
	}
	begin := t.TouchAll
	if m.Untouched {
		begin = t.BeginCommits
	}
	if err := begin(); err != nil {
		return nil, err
	}
	others, err := m.openExchanges()
	defer func() {
		for _, x := range others {
			x.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	for _, name := range m.Modes {
		if m.cacheMode(name) == lrpp.Cached {
			if err := t.OpenCache(int64(m.Warmup + m.Steps + m.Ahead)); err != nil {
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
			if turn < 2 {
				return nil, ErrEnded
			}
			break
		}
		for i, name := range m.Modes {
			if x := others[name]; x != nil {
				t.SetExchange(x)
			} else if name == Ideal {
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

// openExchanges makes the exchanges of the modes that are not those of cache.mode.
func (m *measurement) openExchanges() (map[string]Exchange, error) {
	all := map[string]Exchange{}
	for _, name := range m.Modes {
		if open := m.Exchanges[name]; open != nil {
			x, err := open(m.trial)
			if err != nil {
				return all, err
			}
			all[name] = x
		}
	}
	return all, nil
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
	steps := t.Start(m.cacheMode(name), m.Warmup+m.Steps+m.Ahead)
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
	s.Moved = meanOf(t.Moved(), m.Steps)
	m.totals.addBlock(m.blocks, t.Moved())
	m.blocks++
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
