package bench

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/bench/baseline"
	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// otherSystem is a system that is not a cache mode.
type otherSystem struct {
	name string
	// looksAhead reports whether the first steps of a run differ from others, as the lookahead is not full.
	looksAhead bool
	plan       func(c *exchangeSettings, d *exchangeData) plannedExchange
}

// others are the systems that are not cache modes. Each plans the steps that are trained, and may change the order of
// the samples.
var others = []otherSystem{
	{"pooled", false, func(c *exchangeSettings, d *exchangeData) plannedExchange {
		return plannedExchange{data: d, program: baseline.Pooled(d.idsOf(), c.trained())}
	}},
	{"fb-dlrm", false, func(c *exchangeSettings, d *exchangeData) plannedExchange {
		return plannedExchange{data: d, program: baseline.FBDLRM(d.idsOf(), c.trained()), parse: c.parse}
	}},
	{"fae", false, planFAE},
	{"het", false, func(c *exchangeSettings, d *exchangeData) plannedExchange {
		return plannedExchange{data: d, het: baseline.HET(d.idsOf(), c.trained(), c.staleAt, d.pastUses(c.history))}
	}},
	{"replicated", true, func(c *exchangeSettings, d *exchangeData) plannedExchange {
		return plannedExchange{data: d, program: baseline.Replicated(d.idsOf(), c.lookahead+c.trained(), c.lookahead)}
	}},
	{"partitioned", true, func(c *exchangeSettings, d *exchangeData) plannedExchange {
		return plannedExchange{data: d, program: baseline.Partitioned(d.idsOf(), c.lookahead+c.trained(), c.lookahead)}
	}},
	{"partitioned-placed", true, planPlaced},
	{"static-hot", false, func(c *exchangeSettings, d *exchangeData) plannedExchange {
		return plannedExchange{data: d, program: baseline.StaticHot(d.idsOf(), c.trained(), hottest(c, d))}
	}},
}

// plannedExchange is the work of a system.
type plannedExchange struct {
	data    *exchangeData // in the order of the system
	program *baseline.Program
	het     *baseline.HETProgram // in place of program
	parse   time.Duration
	placing float64
	hot     float64
}

// exchangeSystems lists the names of all systems.
func exchangeSystems() (names []string) {
	for _, x := range others {
		names = append(names, x.name)
	}
	return append(names, ours...)
}

// hottest lists the rows of which static-hot and fae have copies: the share of all rows of the tables.
func hottest(c *exchangeSettings, d *exchangeData) []int32 {
	rows := int64(0)
	for _, n := range c.tables {
		rows += n
	}
	return baseline.Hottest(d.countLookups(), int(c.hot*float64(rows)))
}

func planFAE(c *exchangeSettings, d *exchangeData) plannedExchange {
	hot := hottest(c, d)
	order, batches := baseline.Resort(d.hotSamples(hot), c.batch)
	x := plannedExchange{data: d.reordered(order), hot: float64(batches) * float64(c.batch) / float64(len(order))} // of all samples, also those skipped
	x.program = baseline.StaticHot(x.data.idsOf(), c.trained(), hot)
	return x
}

func planPlaced(c *exchangeSettings, d *exchangeData) plannedExchange {
	began := time.Now()
	order := baseline.Place(d.idsOf(), c.batch, c.allSteps(), c.lookahead)
	x := plannedExchange{data: d.reordered(order), placing: time.Since(began).Seconds() / float64(c.allSteps())}
	x.program = baseline.Partitioned(x.data.idsOf(), c.lookahead+c.trained(), c.lookahead)
	return x
}

// measureExchange measures a system once.
func measureExchange(c *exchangeSettings, name string, d *exchangeData) (s exchangeSample, device string, err error) {
	x, looksAhead := plannedExchange{data: d}, name == "lrpp"
	if i := slices.IndexFunc(others, func(o otherSystem) bool { return o.name == name }); i >= 0 {
		if looksAhead = others[i].looksAhead; !looksAhead {
			d = d.skipSteps(c.lookahead)
		}
		x = others[i].plan(c, d)
	} else if !looksAhead {
		x.data = d.skipSteps(c.lookahead)
	}
	before := c.warmup
	if looksAhead {
		before += c.lookahead
	}
	var memory sizes
	if c.isVirtual { // rows have sizes only: nothing depends on their values
		if memory, err = newSizes(); err != nil {
			return s, device, err
		}
		defer memory.freeMemory()
	}
	err = c.runOn(func(e env.Env) error {
		cfg, err := c.shapeOf(d).config(job{batch: c.batch, ranks: c.ranks, threads: c.ranks}, "oracle.lookahead="+strconv.Itoa(c.lookahead))
		if err != nil {
			return err
		}
		o := c.measureOptions(e, name, before, x)
		if c.isVirtual {
			o.WrapDevice = func(dev kernels.Device) kernels.Device { return memory.wrapDevice(dev, true) }
			o.Untouched = true
		}
		samples, info, err := measure.Run(e, cfg, o)
		if err == nil {
			s, device = exchangeSample{Sample: samples[0][0], placing: x.placing, hot: x.hot}, info.Device
		}
		return err
	})
	s.distinct = x.data.distinctOf(before + c.steps - 1)
	return s, device, err
}

// distinctOf is the number of distinct rows of a step.
func (d *exchangeData) distinctOf(step int) float64 {
	rows, f := map[uint64]bool{}, len(d.tables)
	for p := step * d.batch; p < (step+1)*d.batch; p++ {
		i := d.sampleAt(int64(p))
		for k, id := range d.ids[i*f : (i+1)*f] {
			rows[uint64(k)<<32|uint64(id)] = true
		}
	}
	return float64(len(rows))
}

// shapeOf is a model with the least dense part; the rest of the dense gradient is the stand-in's.
func (c *exchangeSettings) shapeOf(d *exchangeData) shape {
	var tables []string
	for _, n := range d.tables {
		tables = append(tables, strconv.Itoa(int(n)))
	}
	return shape{name: c.model.name, dim: c.model.width, bottom: []int{c.model.width}, top: []int{1},
		tables: "[" + strings.Join(tables, ", ") + "]"}
}

// measureOptions has one block of a system.
func (c *exchangeSettings) measureOptions(e env.Env, name string, warmup int, x plannedExchange) measure.Options {
	exchanges := map[string]func(*train.Trial) (measure.Exchange, error){}
	if x.program != nil || x.het != nil {
		exchanges[name] = func(t *train.Trial) (measure.Exchange, error) {
			dev, s := t.Device()
			o := baseline.Options{Env: e, Device: dev, Stream: s, Shard: t.Shard(), Base: t.BaseExchange(), Program: x.program,
				Critical: t.OpenComm(0), Background: t.OpenComm(1), Parse: x.parse, Features: len(x.data.tables)}
			if x.het != nil {
				return baseline.NewHET(o, x.het)
			}
			return baseline.New(o)
		}
	}
	return measure.Options{
		Warmup: warmup, Steps: c.steps, Ahead: c.lookahead, Repeats: 1, Modes: []string{name},
		Options: train.Options{Observer: silent{}, Stop: neverStop, Source: x.data, Progress: func(data.Progress) error { return nil },
			World: &train.World{Processes: 1, Neighbours: 1, Join: func([]int) ([]transport.Endpoint, error) { return c.joinRanks(e) }}},
		Prepare: func(t *train.Trial) error {
			t.SetModel(newExchangeStandIn(e, t, c))
			return nil
		},
		Exchanges: exchanges,
	}
}
