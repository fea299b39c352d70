package train

import (
	"time"

	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/model"
)

// Sample is one measurement of a job: a block of steps and, in the same run, the
// matrix products of those steps alone, on all ranks at once.
type Sample struct {
	// Step and GEMM are wall-clock times of one step and of its bare products; GEMM
	// is 0 where they were not asked for.
	Step, GEMM time.Duration
	// Stages are rank 0's, mean per step.
	Stages [Stages]time.Duration
	// Moved is what came to rank 0 in one step, the mean.
	Moved lrpp.Moved
	// Cost is what protection cost rank 0, mean per step, Protection what all ranks held
	// for it after the block.
	Cost       Cost
	Protection Protection
	// Checkpoint is the time of a checkpoint after the block, where one was asked for.
	Checkpoint time.Duration
}

// IdealMode measures steps that have every row at hand and exchange none. It is no
// cache.mode: what such steps train is no model.
const IdealMode = "ideal"

// UnprotectedMode measures steps of the config's cache.mode as if ec.code were
// "none". It is no cache.mode: the parities know nothing of what such steps train.
const UnprotectedMode = "unprotected"

// MeasureOptions say how much to measure: Repeats samples of each mode, by turns,
// each of Steps steps after Warmup steps. All rows are touched before, as they are
// in a run of some length: the first touch of a row draws it and takes memory from
// the system, which a step does not do again.
type MeasureOptions struct {
	Warmup, Steps, Repeats int
	// Modes are those of cache.mode, IdealMode and UnprotectedMode; the config's where empty.
	Modes []string
	// Checkpoints asks for a checkpoint after each block of the first mode.
	Checkpoints bool
	// GEMMs asks for the products alone.
	GEMMs bool
	// WrapModel, if set, may put a stand-in in the place of a rank's model.
	WrapModel func(rank int, m model.Model) model.Model
	// Block is called on rank 0 when a measured block of steps begins (true) and
	// ends (false).
	Block func(begins bool)
	Options
}

// Measure trains a config and returns its samples by mode; it evaluates and saves
// nothing.
func Measure(e env.Env, cfg *config.Config, m MeasureOptions) ([][]Sample, Info, error) {
	if len(m.Modes) == 0 {
		m.Modes = []string{cfg.Cache.Mode}
	}
	j := newJob(e, cfg, m.Options)
	if err := j.open(); err != nil {
		return nil, Info{}, err
	}
	defer j.close()
	j.steps = int64(m.Repeats * len(m.Modes) * (m.Warmup + m.Steps))
	var samples [][]Sample
	var info Info
	err := j.eachRank(func(r *rank) error {
		s, err := r.measure(m)
		if r.id == 0 {
			samples, info = s, j.info(r)
		}
		return err
	})
	return samples, info, err
}

// measure is what each rank does in Measure.
func (r *rank) measure(m MeasureOptions) ([][]Sample, error) {
	if m.WrapModel != nil {
		r.model = m.WrapModel(r.id, r.model)
	}
	if err := r.shard.TouchAll(); err != nil {
		return nil, err
	}
	if r.commits != nil {
		if err := r.protect(); err != nil {
			return nil, err
		}
		r.commits.TouchAll()
	}
	for _, mode := range m.Modes {
		if r.job.mode(mode) == lrpp.Cached {
			if err := r.openCache(int64(m.Warmup + m.Steps)); err != nil {
				return nil, err
			}
			break
		}
	}
	ideal := newIdeal(r)
	defer ideal.Close()
	samples := make([][]Sample, len(m.Modes))
	for range m.Repeats {
		for i, mode := range m.Modes {
			switch {
			case mode == IdealMode:
				r.exchange = ideal
			case r.job.mode(mode) == lrpp.Cached:
				r.exchange = r.cache
			default:
				r.exchange = r.base
			}
			s, err := r.block(m, mode)
			if err != nil {
				return nil, err
			}
			if m.Checkpoints && i == 0 {
				if s.Checkpoint, err = r.timed(1, func() error { return r.checkpoint(r.done, true) }); err != nil {
					return nil, err
				}
			}
			samples[i] = append(samples[i], s)
		}
	}
	return samples, nil
}

// block measures one block of steps in a mode.
func (r *rank) block(m MeasureOptions, mode string) (s Sample, err error) {
	switch {
	case mode == UnprotectedMode:
		defer r.unprotect()()
	case r.commits != nil:
		r.commits.Begin(r.done, true) // after blocks that it has not seen
	}
	first := r.done + 1
	o := r.planOptions(mode)
	p := r.pipeline(span{r.job.train, r.job.order, first, first + int64(m.Warmup+m.Steps) - 1}, [2]uint16{chanPlan, chanFeed}, o)
	defer func() { p.Close(err) }()
	for range m.Warmup {
		if _, err := r.next(p, r.done+1); err != nil {
			return s, err
		}
	}
	tell := func(begins bool) {
		if r.id == 0 && m.Block != nil {
			m.Block(begins)
		}
	}
	before := r.cost()
	if err := r.ctl.comm.Barrier().Wait(); err != nil {
		return s, err
	}
	tell(true)
	r.moved = lrpp.Moved{}
	if s.Step, err = r.timed(m.Steps, func() error {
		if _, err := r.next(p, r.done+1); err != nil {
			return err
		}
		for st, d := range r.watch.spent {
			s.Stages[st] += d / time.Duration(m.Steps)
		}
		return nil
	}); err != nil {
		return s, err
	}
	tell(false)
	s.Cost = r.cost().since(before, m.Steps)
	n := int64(m.Steps)
	mean := func(t lrpp.Traffic) lrpp.Traffic { return lrpp.Traffic{Rows: t.Rows / n, Bytes: t.Bytes / n} }
	s.Moved = lrpp.Moved{Critical: mean(r.moved.Critical), Delayed: mean(r.moved.Delayed)}
	if err := r.exchange.Settle(); err != nil {
		return s, err
	}
	if r.commits != nil {
		if err := r.settle(); err != nil {
			return s, err
		}
		if s.Protection, err = r.protection(); err != nil {
			return s, err
		}
	}
	if !m.GEMMs {
		return s, nil
	}
	s.GEMM, err = r.gemms(m.Steps)
	return s, err
}

// timed is the mean time of f, called n times on all ranks at once.
func (r *rank) timed(n int, f func() error) (time.Duration, error) {
	if err := r.ctl.comm.Barrier().Wait(); err != nil {
		return 0, err
	}
	begin := r.env.Now()
	for range n {
		if err := f(); err != nil {
			return 0, err
		}
	}
	err := r.ctl.comm.Barrier().Wait()
	return (r.env.Now() - begin) / time.Duration(n), err
}

// gemms times n rounds of a step's products on all ranks at once.
func (r *rank) gemms(n int) (time.Duration, error) {
	slice := 0
	if t := r.job.roles.trainers; r.id < t {
		b := r.job.order.BatchSize(1)
		slice = (r.id+1)*b/t - r.id*b/t
	}
	return r.timed(n, func() error {
		r.model.GEMMs(slice)
		return r.s.Sync()
	})
}
