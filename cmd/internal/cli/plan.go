package cli

import (
	"encoding/json"
	"fmt"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/forecast"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/plan"
	"github.com/ecrec/ecrec/transport"
)

type planCmd struct {
	fileFlags
	Ranks     []int  `sep:"," placeholder:"N,..." help:"Number of ranks, each in a process of its own. Several numbers, such as 8,64,512, print a table. Default: job.ranks, or 1."`
	PerHost   int    `default:"1" placeholder:"P" help:"Processes on each machine (1)."`
	Link      string `placeholder:"RATE,LATENCY" help:"Link of each machine, for example 25Gb/s,20us. Default: only the processor's work for messages is counted."`
	RankBatch int    `placeholder:"N" help:"Samples of each rank's slice, instead of train.global_batch: a batch that grows with the ranks."`
	Memory    string `placeholder:"SIZE" help:"Memory of a machine, for example 256GiB. Default: that of this machine."`
	Steps     int    `placeholder:"N" help:"Steps whose ids are counted. Default: up to 10 or ec.commit_every, as many as take some seconds."`
	NoTimes   bool   `name:"no-times" help:"Count only; measure nothing on this machine."`
	JSON      bool   `name:"json" help:"Print JSON, with all counts."`
}

// mostPlanned is the most ranks that a plan can have.
const mostPlanned = 1 << 16

// Run prints the needs of a job.
func (c *planCmd) Run(a *app) error {
	o, memory, err := c.options()
	if err != nil {
		return err
	}
	if len(c.Ranks) == 0 {
		cfg, err := c.loadConfig()
		if err != nil {
			return err
		}
		c.Ranks = []int{cfg.Job.Ranks}
	}
	var all []*plan.Forecast
	text := planText{out: a.out, memory: memory, link: o.Link}
	for _, ranks := range c.Ranks {
		cfg, err := c.loadForRanks(ranks)
		if err != nil {
			return err
		}
		f, outline, err := forecast.Run(env.Real(), cfg, o)
		if err != nil {
			return err
		}
		o.Recipe = outline.Recipe
		all = append(all, f)
		if a.stop.isRequested() {
			return errStopped
		}
		text.cfg, text.outline = cfg, outline
	}
	if c.JSON {
		e := json.NewEncoder(a.out)
		e.SetIndent("", " ")
		return e.Encode(all)
	}
	return text.write(all)
}

// options checks the flags. memory is that of a machine, 0 if it cannot be read.
func (c *planCmd) options() (o forecast.Options, memory float64, err error) {
	for _, n := range c.Ranks {
		if n < 1 || n > mostPlanned {
			return o, 0, errUsage(fmt.Sprintf("plan: --ranks %d: want 1 to %s", n, report.Thousands(mostPlanned)))
		}
	}
	if c.PerHost < 1 || c.RankBatch < 0 || c.Steps < 0 {
		return o, 0, errUsage("plan: --per-host, --rank-batch and --steps must be at least 1")
	}
	o = forecast.Options{PerHost: c.PerHost, Steps: c.Steps, Untimed: c.NoTimes, Progress: func(data.Progress) error { return nil }}
	if free, ok := machine.AvailableMemory(); ok {
		o.FreeMemory = float64(free)
	}
	if c.Link != "" {
		l, err := transport.ParseEmulatedLink(c.Link)
		if err != nil {
			return o, 0, errUsage("plan: --" + err.Error())
		}
		o.Link = &l
	}
	if c.Memory != "" {
		size, err := config.ParseSize(c.Memory)
		if err != nil {
			return o, 0, errUsage(fmt.Sprintf("plan: --memory %s: %v", c.Memory, err))
		}
		return o, float64(size), nil
	}
	if m, err := machine.ReadMemory(); err == nil {
		memory = float64(m.Total)
	}
	return o, memory, nil
}

// loadForRanks loads the config for as many processes as ranks.
func (c *planCmd) loadForRanks(ranks int) (*config.Config, error) {
	sets := append(c.Set[:len(c.Set):len(c.Set)], fmt.Sprintf("job.ranks=%d", ranks))
	if c.RankBatch > 0 {
		sets = append(sets, fmt.Sprintf("train.global_batch=%d", c.RankBatch*ranks))
	}
	return config.LoadFor(ranks, c.Config, sets)
}
