package bench

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
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
		blasSetting,
		number("batch", "", 1, maxSamples, "samples of a step, over all ranks. Default: 2048, then 16384").orTiny("64"),
		number("ranks", "1", 1, maxThreads, "number of ranks"),
		threadsSetting,
		number("steps", "", 1, maxSteps, "steps in a measurement. Default: 32768 / batch, at least 2").orTiny("2"),
	},
	measure: runTrain,
}

func runTrain(out io.Writer, o Options) (*Report, error) {
	batches := []int{2048, 16384}
	if n := o.number("batch"); n > 0 {
		batches = []int{n}
	}
	var report *Report
	for _, m := range o.models("dim48", "dim16") {
		for _, b := range batches {
			if err := trainOne(out, o, m, b, &report); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// silent observes nothing.
type silent struct{}

func (silent) Started(train.Info) error          { return nil }
func (silent) Step(train.StepInfo)               {}
func (silent) Checkpointed(int64, string, error) {}
func (silent) SkippedCheckpoint(string, error)   {}
func (silent) Warned(string)                     {}
func (silent) Recovered(train.Recovery)          {}
func (silent) Evaluated(train.Eval)              {}
func (silent) Committed(int64)                   {}

func trainOne(out io.Writer, o Options, s shape, batch int, report **Report) error {
	cfg, err := s.config(job{batch: batch, ranks: o.number("ranks"), threads: o.number("threads"), device: o.text("device"),
		blas: o.text("blas")})
	if err != nil {
		return err
	}
	steps := max(2, 32768/batch)
	if n := o.number("steps"); n > 0 {
		steps = n
	}
	onCPU, flops := cfg.Job.Device == "cpu", model.ShapeOf(cfg.ModelConfig()).FLOPs
	profile := &timed{spent: map[string]time.Duration{}}
	samples, info, err := measure.Run(env.Real(), cfg, measure.Options{
		Warmup: max(2, steps/2), Steps: steps, Repeats: o.repeats(), GEMMs: true,
		Block: func(begins bool) { profile.on = begins },
		Options: train.Options{
			Observer: silent{},
			Stop:     func() bool { return false },
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
		*report = newReport("train", info.Device)
		(*report).writeHeader(out)
	}
	if !onCPU {
		(*report).trainFigures(out, s, batch, flops, samples[0], info, 0)
		return nil
	}
	(*report).trainFigures(out, s, batch, flops, samples[0], info, peak(info.Threads, o.Tiny))
	(*report).opFigures(out, s, batch, samples[0], profile.spent, steps)
	return nil
}

func (r *Report) trainFigures(out io.Writer, s shape, batch int, flops float64, samples []measure.Sample, info train.Info, peak float64) {
	var rate, alone, share, ofPeak []float64
	for _, m := range samples {
		rate = append(rate, float64(batch)/m.Step.Seconds())
		alone = append(alone, float64(batch)/m.GEMM.Seconds())
		share = append(share, 100*m.GEMM.Seconds()/m.Step.Seconds())
		ofPeak = append(ofPeak, 100*flops*float64(batch)/m.Step.Seconds()/peak)
	}
	name := fmt.Sprintf("%s batch %d", s.name, batch)
	fmt.Fprintf(out, "\n%s: %d dense parameters, %.2f MFLOP/sample, %d ranks, %d threads, %d rows\n",
		name, info.DenseParams, flops/1e6, info.Ranks, info.Threads, info.Rows)
	t := table(out)
	fmt.Fprintln(t, "\tmedian\tmin\tmax\t")
	figures := []Figure{
		r.addFigure(name+" training", "samples/s", rate...),
		r.addFigure(name+" products alone", "samples/s", alone...),
		r.addFigure(name+" share of the products' rate", "%", share...),
	}
	if peak > 0 { // not measured for a GPU
		figures = append(figures, r.addFigure(name+" share of peak", "%", ofPeak...))
	}
	for _, f := range figures {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%s\n", strings.TrimPrefix(f.Name, name+" "), f.Median, f.Min, f.Max, f.Unit)
	}
	if peak > 0 {
		pk := r.addFigure("peak of FMAs in registers", "GFLOP/s", peak/1e9)
		fmt.Fprintf(t, "%s\t%.1f\t\t\t%s\n", pk.Name, pk.Median, pk.Unit)
	}
	gf := r.addFigure(name+" products alone", "GFLOP/s", scale(alone, flops/1e9)...)
	fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%s\n", "products alone", gf.Median, gf.Min, gf.Max, gf.Unit)
	for st := probe.Stage(0); st < probe.Stages; st++ {
		var ms []float64
		for _, m := range samples {
			ms = append(ms, 1e3*m.Stages[st].Seconds())
		}
		f := r.addFigure(name+" stage "+st.String(), "ms", ms...)
		fmt.Fprintf(t, "stage %s\t%.2f\t%.2f\t%.2f\tms\n", st, f.Median, f.Min, f.Max)
	}
	t.Flush()
}

// opFigures reports the time of each group of rank 0's operations, over the run.
func (r *Report) opFigures(out io.Writer, s shape, batch int, samples []measure.Sample, spent map[string]time.Duration, steps int) {
	t := table(out)
	rounds := float64(len(samples) * steps)
	for _, group := range opGroups {
		if _, ran := spent[group]; !ran {
			continue
		}
		f := r.addFigure(fmt.Sprintf("%s batch %d op %s", s.name, batch, group), "ms", 1e3*spent[group].Seconds()/rounds)
		fmt.Fprintf(t, "%s\t%.2f\tms\n", group, f.Median)
	}
	t.Flush()
}

// peak is the rate of FMAs in registers on all threads at once, in operations
// per second: the median of a few rounds.
func peak(threads int, tiny bool) float64 {
	rounds := 20_000_000
	if tiny {
		rounds = 1000
	}
	var rates []float64
	for range 5 {
		var wait sync.WaitGroup
		var flops float64
		begin := time.Now()
		for i := range threads {
			wait.Add(1)
			go func() {
				defer wait.Done()
				if n := kernels.PeakLoop(rounds); i == 0 {
					flops = n
				}
			}()
		}
		wait.Wait()
		rates = append(rates, float64(threads)*flops/time.Since(begin).Seconds())
	}
	return figure("", "", rates).Median
}

func scale(v []float64, by float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] * by
	}
	return out
}
