package bench

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

var idealBench = Bench{
	Name: "ideal",
	Doc: "the step of each cache mode beside one that has every row at hand and exchanges none (BagPipe, fig. 15), by turns in one run; " +
		"--link gives the ranks links, --compute a stand-in for forward and backward " +
		"(settings: model=dim48|dim16, batch=N, ranks=N, threads=N, steps=N, link=BANDWIDTH,LATENCY, compute=DURATION)",
	Run: runIdeal,
}

// idealModes are compared, the ideal first.
var idealModes = []string{train.IdealMode, "none", "planned", "lrpp"}

func runIdeal(out io.Writer, o Options) (*Report, error) {
	if err := o.checkArgs("model", "batch", "ranks", "threads", "steps", "link", "compute"); err != nil {
		return nil, err
	}
	if o.option("ranks", "") == "" {
		o.Args = append(o.Args, "ranks=4")
	}
	ranks, err := o.number("ranks", 4, 1, 1024)
	if err != nil {
		return nil, err
	}
	link, compute, err := o.network()
	if err != nil {
		return nil, err
	}
	batch, models := 2048, shapes
	if compute > 0 {
		batch, models = 8192, shapes[:1]
	}
	if o.Tiny {
		batch, models = 64, []shape{tinyShape}
	}
	if batch, err = o.number("batch", batch, ranks, maxSamples); err != nil {
		return nil, err
	}
	var report *Report
	for _, m := range models {
		if o.option("model", m.name) != m.name {
			continue
		}
		if err := idealOne(out, o, m, batch, ranks, link, compute, &report); err != nil {
			return nil, err
		}
	}
	if report == nil {
		return nil, settingError("no model %q here; there are dim48 and, without compute=, dim16", o.option("model", ""))
	}
	return report, nil
}

// network reads the settings link and compute; nil and 0 where they are not given.
func (o Options) network() (link *transport.Link, compute time.Duration, err error) {
	if s := o.option("link", ""); s != "" {
		l, err := transport.ParseLink(s)
		if err != nil {
			return nil, 0, settingError("%v", err)
		}
		link = &l
	}
	if s := o.option("compute", ""); s != "" {
		if compute, err = time.ParseDuration(s); err != nil || compute <= 0 || compute > time.Minute {
			return nil, 0, settingError("compute=%s is no duration from 0 to 1m; write one as 30ms", s)
		}
	}
	return link, compute, nil
}

func idealOne(out io.Writer, o Options, s shape, batch, ranks int, link *transport.Link, compute time.Duration, report **Report) error {
	cfg, err := s.config(o, batch)
	if err != nil {
		return err
	}
	steps := max(4, 40960/batch)
	if o.Tiny {
		steps = 2
	}
	if steps, err = o.number("steps", steps, 1, math.MaxInt32); err != nil {
		return err
	}
	e := env.Real()
	m := train.MeasureOptions{
		Warmup: 2, Steps: steps, Repeats: o.repeats(), Modes: idealModes,
		Options: train.Options{Observer: silent{}, Stop: func() bool { return false }, Progress: func(data.Progress) error { return nil }},
	}
	if compute > 0 {
		m.WrapModel = func(_ int, inner model.Model) model.Model {
			return newStandIn(e, inner, len(cfg.Model.TableRows()), compute)
		}
	}
	if link != nil {
		m.World = &train.World{Processes: 1, Neighbours: 1, Join: func([]int) ([]transport.Endpoint, error) {
			eps := transport.NewMem(e, ranks, 1)
			for i := range eps {
				eps[i] = transport.WrapLink(e, eps[i], *link)
			}
			return eps, nil
		}}
	}
	samples, info, err := train.Measure(e, cfg, m)
	if err != nil {
		return err
	}
	if *report == nil {
		*report = newReport("ideal", info.Device)
		(*report).header(out)
	}
	name := fmt.Sprintf("%s batch %d ranks %d", s.name, batch, ranks)
	if link != nil {
		name += fmt.Sprintf(" link %v", *link)
	}
	if compute > 0 {
		name += fmt.Sprintf(" compute %v", compute)
	}
	(*report).idealFigures(out, name, samples)
	return nil
}

// idealFigures compares modes repeat by repeat.
func (r *Report) idealFigures(out io.Writer, name string, samples [][]train.Sample) {
	fmt.Fprintf(out, "\n%s\n", name)
	t := table(out)
	fmt.Fprintln(t, "mode\tms per step\tleast\tgreatest\tof ideal\tleast\tgreatest\tfactor over none\tcritical rows\tKiB\tdelayed rows\tKiB\t")
	none := 0
	for i, mode := range idealModes {
		if mode == "none" {
			none = i
		}
	}
	for i, mode := range idealModes {
		var ms, ofIdeal, factor []float64
		for k, s := range samples[i] {
			ms = append(ms, 1e3*s.Step.Seconds())
			ofIdeal = append(ofIdeal, s.Step.Seconds()/samples[0][k].Step.Seconds())
			factor = append(factor, samples[none][k].Step.Seconds()/s.Step.Seconds())
		}
		step := r.add(fmt.Sprintf("%s, %s: step", name, mode), "ms", ms...)
		of := r.add(fmt.Sprintf("%s, %s: time over ideal", name, mode), "", ofIdeal...)
		over := r.add(fmt.Sprintf("%s, %s: speed over none", name, mode), "", factor...)
		moved := samples[i][0].Moved
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t%d\t%d\t%d\t\n", mode, step.Median, step.Min, step.Max,
			of.Median, of.Min, of.Max, over.Median, moved.Critical.Rows, moved.Critical.Bytes>>10, moved.Delayed.Rows, moved.Delayed.Bytes>>10)
	}
	t.Flush()
	t = table(out)
	for i, mode := range idealModes {
		fmt.Fprintf(t, "%s\t", mode)
		for st := train.Stage(0); st < train.Stages; st++ {
			var stage []float64
			for _, s := range samples[i] {
				stage = append(stage, 1e3*s.Stages[st].Seconds())
			}
			fmt.Fprintf(t, "%s %.2f\t", st, r.add(fmt.Sprintf("%s, %s: stage %s", name, mode, st), "ms", stage...).Median)
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}
