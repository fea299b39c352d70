package train

import (
	"time"

	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
)

// Sample is one measurement of a job: blocks of steps and, in the same run, the
// matrix products of those steps alone, on all ranks at once.
type Sample struct {
	// Step and GEMM are wall-clock times of one step and of its bare products.
	Step, GEMM time.Duration
	// Stages are rank 0's, mean per step.
	Stages [Stages]time.Duration
}

// MeasureOptions say how much to measure: Repeats samples, each of Steps steps
// and as many rounds of GEMMs, after Warmup steps. All rows are touched before, as
// they are in a run of some length: the first touch of a row draws it and takes
// memory from the system, which a step does not do again.
type MeasureOptions struct {
	Warmup, Steps, Repeats int
	// Block is called on rank 0 when a measured block of steps begins (true) and
	// ends (false).
	Block func(begins bool)
	Options
}

// Measure trains a config and returns its samples; it evaluates and saves
// nothing.
func Measure(e env.Env, cfg *config.Config, m MeasureOptions) ([]Sample, Info, error) {
	j := newJob(e, cfg, m.Options)
	if err := j.open(); err != nil {
		return nil, Info{}, err
	}
	defer j.close()
	j.steps = int64(m.Warmup + m.Repeats*m.Steps)
	var samples []Sample
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
func (r *rank) measure(m MeasureOptions) (samples []Sample, err error) {
	p := r.pipeline(span{r.job.train, r.job.order, 1, r.job.steps}, [2]uint16{chanPlan, chanFeed}, r.job.planOptions())
	defer func() { p.Close(err) }()
	if err := r.shard.TouchAll(); err != nil {
		return nil, err
	}
	step := int64(0)
	tell := func(begins bool) {
		if r.id == 0 && m.Block != nil {
			m.Block(begins)
		}
	}
	block := func(n int, stages *[Stages]time.Duration) (time.Duration, error) {
		if err := r.ctl.comm.Barrier().Wait(); err != nil {
			return 0, err
		}
		begin := r.env.Now()
		for range n {
			step++
			if _, err := r.next(p, step); err != nil {
				return 0, err
			}
			for s, d := range r.watch.spent {
				stages[s] += d / time.Duration(n)
			}
		}
		err := r.ctl.comm.Barrier().Wait()
		return (r.env.Now() - begin) / time.Duration(n), err
	}
	var ignored [Stages]time.Duration
	if m.Warmup > 0 {
		if _, err := block(m.Warmup, &ignored); err != nil {
			return nil, err
		}
	}
	for range m.Repeats {
		var s Sample
		tell(true)
		if s.Step, err = block(m.Steps, &s.Stages); err != nil {
			return nil, err
		}
		tell(false)
		if s.GEMM, err = r.gemms(m.Steps); err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// gemms times n rounds of a step's products on all ranks at once.
func (r *rank) gemms(n int) (time.Duration, error) {
	if err := r.ctl.comm.Barrier().Wait(); err != nil {
		return 0, err
	}
	begin := r.env.Now()
	slice := 0
	if t := r.job.roles.trainers; r.id < t {
		b := r.job.order.BatchSize(1)
		slice = (r.id+1)*b/t - r.id*b/t
	}
	for range n {
		r.model.GEMMs(slice)
	}
	if err := r.s.Sync(); err != nil {
		return 0, err
	}
	err := r.ctl.comm.Barrier().Wait()
	return (r.env.Now() - begin) / time.Duration(n), err
}
