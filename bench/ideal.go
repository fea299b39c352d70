package bench

import (
	"fmt"
	"io"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

var idealBench = Bench{
	Name: "ideal",
	Doc:  "step time of each cache mode, beside a step that exchanges no rows",
	Detail: "The ideal step has every row at hand (BagPipe, fig. 15). All modes take turns in one run. With link the ranks " +
		"exchange messages over simulated links; with compute a stand-in waits in place of the forward and backward pass.",
	Settings: []Setting{
		choice("model", "", []string{"dim48", "dim16"}, "model to train. Default: both; with compute dim48 alone"),
		number("batch", "", 1, maxSamples, "samples of a step, over all ranks. Default: 2048; with compute 8192"),
		number("ranks", "4", 1, 1024, "number of ranks"),
		threadsSetting,
		number("steps", "", 1, maxSteps, "steps in a turn. Default: 40960 / batch, at least 4"),
		text("link", "", "BANDWIDTH,LATENCY such as 10Gb/s,50us", "simulated links between ranks. Default: none"),
		text("compute", "", "a duration up to 1m, such as 30ms", "time of the stand-in for the forward and backward pass. Default: none"),
	},
	measure: runIdeal,
}

// idealModes are compared, the ideal first.
var idealModes = append([]string{measure.Ideal}, lrpp.ModeNames()...)

func runIdeal(out io.Writer, o Options) (*Report, error) {
	ranks := o.number("ranks")
	link, compute, err := o.linkAndCompute()
	if err != nil {
		return nil, err
	}
	batch, models := 2048, o.models("dim48", "dim16")
	if compute > 0 {
		if batch, models = 8192, o.models("dim48"); models[0].name == "dim16" {
			return nil, settingError("model=dim16: compute needs model=dim48")
		}
	}
	switch {
	case o.isSet("batch"):
		batch = o.number("batch")
	case o.Tiny:
		batch = 64
	}
	if batch < ranks {
		return nil, settingError("batch=%d: want at least 1 sample for each of the %d ranks", batch, ranks)
	}
	var report *Report
	for i, m := range models {
		o.setDone(i, len(models), "models")
		if err := idealOne(out, o, m, batch, ranks, link, compute, &report); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// linkAndCompute returns the settings link and compute, nil and 0 if they are not set.
func (o Options) linkAndCompute() (link *transport.EmulatedLink, compute time.Duration, err error) {
	if s := o.text("link"); s != "" {
		l, err := transport.ParseEmulatedLink(s)
		if err != nil {
			return nil, 0, settingError("%v", err)
		}
		link = &l
	}
	if s := o.text("compute"); s != "" {
		if compute, err = time.ParseDuration(s); err != nil || compute <= 0 || compute > time.Minute {
			return nil, 0, settingError("compute=%s: want a duration up to 1m, such as 30ms", s)
		}
	}
	return link, compute, nil
}

func idealOne(out io.Writer, o Options, s shape, batch, ranks int, link *transport.EmulatedLink, compute time.Duration,
	report **Report) error {
	cfg, err := s.config(job{batch: batch, ranks: ranks, threads: o.number("threads")})
	if err != nil {
		return err
	}
	steps := max(4, 40960/batch)
	if o.Tiny {
		steps = 2
	}
	if o.isSet("steps") {
		steps = o.number("steps")
	}
	e := env.Real()
	m := measure.Options{
		Warmup: 2, Steps: steps, Repeats: o.repeats(), Modes: idealModes, EndEarly: o.isStopped,
		Options: train.Options{Observer: silent{}, Stop: neverStop, Progress: func(data.Progress) error { return nil }},
	}
	if compute > 0 {
		lookups := len(cfg.Model.TableRows()) * model.ShapeOf(cfg.ModelConfig()).RowWidth()
		m.WrapModel = func(_ int, inner model.Model) model.Model {
			return newStandIn(e, inner, lookups, compute)
		}
	}
	if link != nil {
		m.World = &train.World{Processes: 1, Neighbours: 1, Join: func([]int) ([]transport.Endpoint, error) {
			eps := transport.NewMem(e, ranks, 1)
			for i := range eps {
				eps[i] = transport.EmulateLink(e, eps[i], *link)
			}
			return eps, nil
		}}
	}
	samples, info, err := measure.Run(e, cfg, m)
	if err != nil {
		return err
	}
	if *report == nil {
		*report = o.newReport(info.Device)
		(*report).writeHeader(out)
	}
	name := fmt.Sprintf("%s batch %d ranks %d", s.name, batch, ranks)
	if link != nil {
		name += fmt.Sprintf(" link %v", *link)
	}
	if compute > 0 {
		name += fmt.Sprintf(" compute %v", compute)
	}
	if link != nil || compute > 0 {
		(*report).evidence = Simulated
	}
	(*report).idealFigures(out, name, samples)
	return nil
}

// idealFigures compares modes repeat by repeat.
func (r *Report) idealFigures(out io.Writer, name string, samples [][]measure.Sample) {
	fmt.Fprintf(out, "\n%s\n", name)
	t := table(out)
	fmt.Fprintln(t, "mode\tms per step\tleast\tgreatest\tof ideal\tinterval\tspeed of none's\tinterval\tcritical rows\tKiB\tdelayed rows\tKiB\t")
	none := 0
	for i, mode := range idealModes {
		if mode == "none" {
			none = i
		}
	}
	for i, mode := range idealModes {
		var ms, best, unplanned []float64
		for k, s := range samples[i] {
			ms = append(ms, 1e3*s.Step.Seconds())
			best, unplanned = append(best, 1e3*samples[0][k].Step.Seconds()), append(unplanned, 1e3*samples[none][k].Step.Seconds())
		}
		step := r.addFigure(fmt.Sprintf("%s, %s: step", name, mode), "ms", ms...)
		of := r.addRatio(fmt.Sprintf("%s, %s: time over ideal", name, mode), ms, best)
		over := r.addRatio(fmt.Sprintf("%s, %s: speed over none", name, mode), unplanned, ms)
		moved := samples[i][0].Moved
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.3f\t%s\t%.3f\t%s\t%d\t%d\t%d\t%d\t\n", mode, step.Median, step.Min, step.Max,
			of.Median, of.betweenText(3), over.Median, over.betweenText(3), moved.Critical.Rows, moved.Critical.Bytes>>10, moved.Delayed.Rows, moved.Delayed.Bytes>>10)
	}
	t.Flush()
	t = table(out)
	for i, mode := range idealModes {
		fmt.Fprintf(t, "%s\t", mode)
		for st := probe.Stage(0); st < probe.Stages; st++ {
			var stage []float64
			for _, s := range samples[i] {
				stage = append(stage, 1e3*s.Stages[st].Seconds())
			}
			fmt.Fprintf(t, "%s %.2f\t", st, r.addFigure(fmt.Sprintf("%s, %s: stage %s", name, mode, st), "ms", stage...).Median)
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}
