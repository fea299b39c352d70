package bench

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// The clocks of the setting clock.
const (
	realClock    = "real"
	virtualClock = "virtual"
	bothClocks   = "both"
)

// emulatedJob is a job of several ranks in this process. Its links, forward and backward pass may be emulated.
type emulatedJob struct {
	shape                 shape
	ranks, batch, threads int
	link                  *transport.EmulatedLink // nil: messages take the time that a copy takes
	compute               time.Duration           // the wait of a stand-in in place of the model; 0: the model computes
	sets                  []string                // further keys of the config, KEY=VALUE

	// sizeOnly keeps the sizes of rows, gradients and messages, and none of their values: rows and dense parameters repeat in memory,
	// and none is touched before. It needs compute. dense is the number of dense parameters; 0: those of the shape.
	sizeOnly bool
	dense    int

	// virtual runs the job on a virtual clock; it needs sizeOnly. The seed chooses the data, and the order of events at one
	// moment.
	virtual bool
	seed    uint64
}

// measure measures blocks of steps.
func (j emulatedJob) measure(o measure.Options) (samples [][]measure.Sample, info train.Info, err error) {
	cfg, err := j.config()
	if err != nil {
		return nil, info, err
	}
	o.Observer, o.Stop, o.Progress = silent{}, neverStop, func(data.Progress) error { return nil }
	run := func(e env.Env) (err error) {
		samples, info, err = j.measureOn(e, cfg, o)
		return err
	}
	if j.virtual {
		err = virtual.Run(j.seed, run)
	} else {
		err = run(env.Real())
	}
	return samples, info, err
}

// config returns the config of the job. A stand-in has no use of the MLPs: its dense parameters have memory of
// their own.
func (j emulatedJob) config() (*config.Config, error) {
	s := j.shape
	if j.sizeOnly {
		s = s.withoutMLPs()
	}
	sets := append([]string{fmt.Sprintf("job.seed=%d", j.seed)}, j.sets...)
	return s.config(job{batch: j.batch, ranks: j.ranks, threads: j.threads}, sets...)
}

// withoutMLPs is the shape with the least layers, and the same rows.
func (s shape) withoutMLPs() shape {
	if n := len(s.bottom); n > 0 {
		s.bottom = s.bottom[n-1:]
	}
	s.top = []int{1}
	return s
}

// denseParams is the number of dense parameters of the model.
func (s shape) denseParams() (n int, err error) {
	cfg, err := s.config(job{batch: 1, ranks: 1})
	if err != nil {
		return 0, err
	}
	for _, t := range model.ShapeOf(cfg.ModelConfig()).Tensors {
		n += t.Len()
	}
	return n, nil
}

func (j emulatedJob) measureOn(e env.Env, cfg *config.Config, o measure.Options) ([][]measure.Sample, train.Info, error) {
	var zeros *repeated
	var failed atomic.Pointer[error] // of ranks that run at the same time
	if j.sizeOnly {
		memory, err := newSizes()
		if err != nil {
			return nil, train.Info{}, err
		}
		defer memory.freeMemory()
		o.Untouched, zeros = true, memory.zeros
		o.WrapDevice = func(dev kernels.Device) kernels.Device { return memory.wrapDevice(dev, j.virtual) }
		if j.dense == 0 {
			if j.dense, err = j.shape.denseParams(); err != nil {
				return nil, train.Info{}, err
			}
		}
	}
	if j.compute > 0 {
		lookups := len(cfg.Model.TableRows()) * model.ShapeOf(cfg.ModelConfig()).RowWidth()
		o.WrapModel = func(_ int, inner model.Model) model.Model {
			m := newStandIn(e, inner, lookups, j.compute)
			if j.sizeOnly {
				if err := m.enlarge(j.dense, (j.batch+j.ranks-1)/j.ranks, zeros); err != nil {
					failed.Store(&err)
				}
			}
			return m
		}
	}
	o.World = &train.World{Processes: 1, Neighbours: 1, Join: func([]int) ([]transport.Endpoint, error) {
		return j.connect(e), nil
	}}
	samples, info, err := measure.Run(e, cfg, o)
	if f := failed.Load(); f != nil {
		err = *f
	}
	return samples, info, err
}

// connect returns the endpoints of the ranks.
func (j emulatedJob) connect(e env.Env) []transport.Endpoint {
	if j.link != nil && j.virtual {
		return transport.NewNetwork(e, j.ranks, 1, *j.link)
	}
	eps := transport.NewMem(e, j.ranks, 1)
	if j.link != nil {
		for i := range eps {
			eps[i] = transport.EmulateLink(e, eps[i], *j.link)
		}
	}
	return eps
}
