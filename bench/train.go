package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/bench/paired"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/train"
)

var trainBench = Bench{
	Name:   "train",
	Doc:    "speed of training, beside the bare matrix products of the same step",
	Detail: "Trains a model over the tables of Criteo on synthetic data.",
	Settings: []Setting{
		deviceSetting,
		choice("model", "", []string{"dim48", "dim16", "mlperf", "deepfm", "wdl", "dcnv2"}, "model to train. Default: dim48 and dim16"),
		choice("hots", "", []string{"one", "mlperf"}, "ids of each feature; mlperf: 214 in all. Default: mlperf for dcnv2, else one"),
		blasSetting,
		number("batch", "", 1, maxSamples, "samples of a step, over all ranks. Default: 2048, then 16384").orTiny("64"),
		number("ranks", "1", 1, maxThreads, "number of ranks"),
		threadsSetting,
		number("steps", "", 1, maxSteps, "steps in a measurement. Default: 32768 / batch, at least 2").orTiny("2"),
	},
	Bars: []Bar{
		{[]string{"device=cpu", "model=dim48"}, "training of dim48 reaches 0.80 of the peak of multiply-adds", oneWay(atLeast("share of peak", Lower, 80))},
		{[]string{"device=cpu", "model=dim16"}, "training of dim16 reaches 0.72 of the peak of multiply-adds", oneWay(atLeast("share of peak", Lower, 72))},
	},
	measure: runTrain,
}

func runTrain(out io.Writer, o Options) (*Report, error) {
	batches := []int{2048, 16384}
	if n := o.number("batch"); n > 0 {
		batches = []int{n}
	}
	var report *Report
	models := o.models("dim48", "dim16")
	for i, m := range models {
		for k, b := range batches {
			o.setDone(i*len(batches)+k, len(models)*len(batches), "cases")
			if err := trainOne(out, o, m, b, &report); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// neverStop is train.Options.Stop of a job that a signal does not stop: the benchmark ends between its turns.
func neverStop() bool { return false }

// silent observes nothing.
type silent = measure.Silent

func trainOne(out io.Writer, o Options, s shape, batch int, report **Report) error {
	cfg, err := s.config(job{batch: batch, ranks: o.number("ranks"), threads: o.number("threads"), device: o.text("device"),
		blas: o.text("blas"), hots: o.text("hots")})
	if err != nil {
		return err
	}
	steps := max(2, 32768/batch)
	if n := o.number("steps"); n > 0 {
		steps = n
	}
	onCPU, flops := cfg.Job.Device == "cpu", model.ShapeOf(cfg.ModelConfig()).FLOPs
	profile := &timed{spent: map[string]cost{}}
	if onCPU {
		profile.peak = func() float64 { return peak(cfg.Job.Threads, o.Tiny) }
	}
	samples, info, err := measure.Run(env.Real(), cfg, measure.Options{
		Warmup: max(2, steps/2), Steps: steps, Repeats: o.repeats(), GEMMs: true,
		Block: profile.enterBlock, EndEarly: o.endsTurns,
		Options: train.Options{
			Observer: silent{},
			Stop:     neverStop,
			Progress: func(data.Progress) error { return nil },
			WrapStream: func(rank int, s kernels.Stream) kernels.Stream {
				if rank != 0 || !onCPU { // a GPU's operations are not over when their calls are
					return s
				}
				profile.Stream = s
				return profile
			},
		},
	})
	if err != nil {
		return err
	}
	if *report == nil {
		*report = o.newReport(info.Device)
		(*report).writeHeader(out)
	}
	r := trained{name: fmt.Sprintf("%s batch %d", s.name, batch), batch: batch, flops: flops, samples: samples[0], info: info,
		steps: len(samples[0]) * steps, spent: profile.spent, cpu: profile.cpu, peaks: profile.peaks}
	if onCPU {
		if r.bandwidth, err = bandwidth(info.Threads, o.Tiny); err != nil {
			return err
		}
	}
	first := len((*report).Figures)
	(*report).trainFigures(out, r)
	if onCPU {
		(*report).opFigures(out, r)
	}
	(*report).setCase(first, map[string]string{"model": s.name, "batch": strconv.Itoa(batch)})
	return nil
}

// trained is the measurement of a model. The limits and spent, the cost of each group of rank 0's
// operations, are zero for a GPU.
type trained struct {
	name      string
	batch     int
	flops     float64 // of the products of a sample
	samples   []measure.Sample
	info      train.Info
	steps     int // of all samples
	spent     map[string]cost
	cpu       []time.Duration // of the process, for each sample
	peaks     []float64       // FMAs in registers beside each sample, in operations per second
	bandwidth float64         // of a copy, in bytes per second
}

// bytesPerStep is the traffic of the operations of a step, on all ranks.
func (r trained) bytesPerStep() (bytes float64) {
	for _, c := range r.spent {
		bytes += float64(c.bytes)
	}
	return bytes * float64(r.info.Ranks) / float64(r.steps)
}

func (r *Report) trainFigures(out io.Writer, m trained) {
	name, flops := m.name, m.flops
	var rate, alone, perCPU []float64
	for i, s := range m.samples {
		perCPU = append(perCPU, float64(m.batch*m.steps/len(m.samples))/max(m.cpu[i].Seconds(), 1e-9))
		rate = append(rate, float64(m.batch)/s.Step.Seconds())
		alone = append(alone, float64(m.batch)/s.GEMM.Seconds())
	}
	fmt.Fprintf(out, "\n%s: %d dense parameters, %.2f MFLOP/sample, %d ranks, %d threads, %d rows\n",
		name, m.info.DenseParams, flops/1e6, m.info.Ranks, m.info.Threads, m.info.Rows)
	t := table(out)
	fmt.Fprintln(t, "\tmedian\tmin\tmax\t\tinterval\t")
	figures := []Figure{
		r.addFigure(name+" training", "samples/s", rate...),
		r.addFigure(name+" training per CPU second", "samples", perCPU...),
		r.addFigure(name+" products alone", "samples/s", alone...),
		r.addPaired(name+" share of the products' rate", "%", scale(paired.Ratios(rate, alone), 100)...),
	}
	if len(m.peaks) > 0 { // not measured for a GPU
		bytes := m.bytesPerStep()
		figures = append(figures,
			r.addPaired(name+" share of peak", "%", scale(paired.Ratios(scale(rate, flops), m.peaks), 100)...),
			r.addAs(Modelled, name+" share of memory bandwidth", "%", scale(rate, 100*bytes/float64(m.batch)/m.bandwidth)...),
			r.addAs(Modelled, name+" operands of a step", "MB", bytes/1e6),
			r.addFigure("peak of FMAs in registers", "GFLOP/s", scale(m.peaks, 1e-9)...),
			r.addFigure("memory bandwidth, of a copy", "GB/s", m.bandwidth/1e9))
	}
	figures = append(figures, r.addFigure(name+" products alone", "GFLOP/s", scale(alone, flops/1e9)...))
	for _, f := range figures {
		f.Name = strings.TrimPrefix(f.Name, name+" ")
		f.writeLine(t, 1)
	}
	for st := probe.Stage(0); st < probe.Stages; st++ {
		var ms []float64
		for _, s := range m.samples {
			ms = append(ms, 1e3*s.Stages[st].Seconds())
		}
		f := r.addFigure(name+" stage "+st.String(), "ms", ms...)
		fmt.Fprintf(t, "stage %s\t%.2f\t%.2f\t%.2f\tms\t\t\n", st, f.Median, f.Min, f.Max)
	}
	t.Flush()
}

// opFigures reports the time of each group of rank 0's operations, over the run, and the rate of
// their operands.
func (r *Report) opFigures(out io.Writer, m trained) {
	t := table(out)
	fmt.Fprintln(t, "\tms\tGB/s\t")
	for _, group := range opGroups {
		c, ran := m.spent[group]
		if !ran {
			continue
		}
		name := m.name + " op " + group
		f := r.addFigure(name, "ms", 1e3*c.time.Seconds()/float64(m.steps))
		bytes := r.addAs(Modelled, name+" operands", "GB/s", float64(c.bytes)/1e9/max(c.time.Seconds(), 1e-9))
		fmt.Fprintf(t, "%s\t%.2f\t%.1f\t\n", group, f.Median, bytes.Median)
	}
	t.Flush()
}

func scale(v []float64, by float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] * by
	}
	return out
}
