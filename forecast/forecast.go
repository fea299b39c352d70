package forecast

import (
	"runtime"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/heartbeat"
	"github.com/ecrec/ecrec/plan"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// Options are the parts of a forecast beside its config.
type Options struct {
	// PerHost is the number of processes on each machine; at least 1.
	PerHost int
	// FreeMemory is the bytes of this machine that are free, of which measurements use a part. 0: no limit is set.
	FreeMemory float64
	// SharedBy is the number of machines that are emulated on this one, and share its cores. 0: each machine has as many cores as this one.
	SharedBy int
	// Link is the link of each machine. Nil: messages between machines take no time on the wire.
	Link *transport.EmulatedLink
	// Steps is the number of steps to count. 0: as many as MaxLookups allow, up to an epoch of commits.
	Steps int
	// MaxLookups bounds the lookups that are counted. 0: DefaultLookups.
	MaxLookups float64
	// Untimed skips the measurements. Forecasts have no times then.
	Untimed bool
	// Recipe is that of the data, nil before it is counted. Progress is called while data is converted.
	Recipe   *data.Recipe
	Progress func(data.Progress) error
}

// DefaultLookups is about how many lookups are counted in some seconds.
const DefaultLookups = 12e6

// leastSteps is the least number of counted steps that is worth more than a sample of one.
const leastSteps = 4

// Run predicts the job of a config.
func Run(e env.Env, cfg *config.Config, o Options) (*plan.Forecast, *train.Outline, error) {
	outline, err := train.OpenOutline(e, cfg, o.Recipe, o.PerHost, o.Progress)
	if err != nil {
		return nil, nil, err
	}
	defer outline.Close()
	f, err := forecast(e, cfg, outline, o)
	return f, outline, err
}

func forecast(e env.Env, cfg *config.Config, outline *train.Outline, o Options) (*plan.Forecast, error) {
	j := &outline.Job
	f := &plan.Forecast{Ranks: j.Ranks, Processes: min(o.PerHost, j.Ranks), Machines: (j.Ranks + o.PerHost - 1) / o.PerHost,
		Batch: outline.BatchSize(), Slice: outline.MaxSlice(), First: 1}
	steps, sample := amount(outline, o)
	f.Sample = sample
	c, err := plan.Steps(*j, f.First, int64(steps), outline.Steps(), sample, func(step int64, trainer int, dst []int64) ([]int64, error) {
		_, rows, err := outline.Slice(step, trainer, dst)
		return rows, err
	})
	if err != nil {
		return nil, err
	}
	beat := time.Duration(cfg.Elastic.Heartbeat)
	largest := f.Summarize(j, c, beat.Seconds())
	f.Memory = outline.Memory(min(j.Ranks/2, j.Ranks-1), &f.Mean)
	f.MostMemory = mostMemory(outline, f, largest)
	if o.Untimed {
		return f, nil
	}
	host, here := hostOf(outline, o), f.Processes*max(1, o.SharedBy)
	if err := measureWires(e, &host, here, o.Link, sealed(cfg)); err != nil {
		return nil, err
	}
	work, err := measureWork(outline, f, here, o.FreeMemory)
	if err != nil {
		return nil, err
	}
	times := host.Step(j, &f.Largest, work)
	f.Work, f.Times = work, &times
	f.Rebuild = j.LossOf(&f.MostMemory, &host, times.Step, heartbeat.Limit(beat, true).Seconds())
	return f, nil
}

// amount is how many steps are counted, and of how many trainers one is read.
func amount(outline *train.Outline, o Options) (steps, sample int) {
	most, each := o.MaxLookups, outline.LookupsPerStep()
	if most == 0 {
		most = DefaultLookups
	}
	for sample = 1; each*leastSteps > most*float64(sample) && 2*sample <= outline.Job.Trainers; {
		sample *= 2 // so that it divides most numbers of trainers
	}
	if o.Steps > 0 {
		return o.Steps, sample
	}
	wanted := 10
	if outline.Job.Commits {
		wanted = max(wanted, outline.Job.CommitEvery)
	}
	return min(wanted, max(1, int(most*float64(sample)/each)-2)), sample
}

// mostMemory is the memory of the process with the most: that of rank 0, which keeps snapshots and owns the most rows,
// or of the rank that moves the most bytes.
func mostMemory(outline *train.Outline, f *plan.Forecast, largest int) plan.Memory {
	a, b := outline.Memory(0, &f.Largest), outline.Memory(largest, &f.Largest)
	if first := outline.Job.First; first > 0 { // a server
		if c := outline.Memory(first, &f.Largest); c.Sum() > b.Sum() {
			b = c
		}
	}
	if a.Sum() > b.Sum() {
		return a
	}
	return b
}

// sealed is whether connections between machines are sealed.
func sealed(cfg *config.Config) transport.Secure {
	if cfg.Job.Secure == "off" {
		return transport.SecureOff
	}
	return transport.SecureOn
}

// hostOf describes the machines of a job: as many cores as this one has.
func hostOf(outline *train.Outline, o Options) plan.Host {
	j := &outline.Job
	h := plan.Host{Ranks: j.Ranks, Processes: min(o.PerHost, j.Ranks), Machines: (j.Ranks + o.PerHost - 1) / o.PerHost, Cores: float64(runtime.NumCPU()) / float64(max(1, o.SharedBy)),
		Threads: outline.Threads()}
	if j.Ranks > 1 {
		h.Remote = float64(j.Ranks-h.Processes) / float64(j.Ranks-1)
	}
	return h
}
