package bench

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/train"
)

var trainBench = Bench{
	Name: "train",
	Doc: "training steps of the Criteo Kaggle DLRMs on synthetic data, beside the bare matrix products of the same step " +
		"(settings: device=cpu|cuda, model=dim48|dim16|mlperf, blas=KIND as kernels.blas, batch=N, ranks=N, threads=N, steps=N)",
	Run: runTrain,
}

// shape is a model of the training benchmark.
type shape struct {
	name        string
	dim         int
	bottom, top []int
	tables      string
}

var shapes = []shape{
	{"dim48", 48, []int{512, 256, 64, 48}, []int{1024, 1024, 1024, 256, 128, 1}, `"criteo-kaggle"`},
	{"dim16", 16, []int{512, 256, 64, 16}, []int{512, 256, 1}, `"criteo-kaggle"`},
}

// mlperf is the DLRM of MLPerf, over the rows of Criteo Kaggle: 17 GB of weights, for a GPU.
var mlperf = shape{"mlperf", 128, []int{512, 256, 128}, []int{1024, 1024, 512, 256, 1}, `"criteo-kaggle"`}

var tinyShape = shape{"tiny", 4, []int{8, 4}, []int{8, 1}, "[" + strings.TrimSuffix(strings.Repeat("50, ", 26), ", ") + "]"}

func runTrain(out io.Writer, o Options) (*Report, error) {
	if err := o.checkArgs("device", "model", "blas", "batch", "ranks", "threads", "steps"); err != nil {
		return nil, err
	}
	for _, key := range []string{"ranks", "threads"} { // numbers before they are put into a config
		if _, err := o.number(key, 0, 0, math.MaxInt32); err != nil {
			return nil, err
		}
	}
	if _, err := o.device(); err != nil {
		return nil, err
	}
	batches := []int{2048, 16384}
	models := shapes
	if o.Tiny {
		batches, models = []int{64}, []shape{tinyShape}
	}
	if n, err := o.number("batch", 0, 1, maxSamples); err != nil {
		return nil, err
	} else if n > 0 {
		batches = []int{n}
	}
	var report *Report
	if o.option("model", "") == mlperf.name {
		models = []shape{mlperf}
	}
	for _, m := range models {
		if v := o.option("model", m.name); v != m.name {
			continue
		}
		for _, b := range batches {
			if err := trainOne(out, o, m, b, &report); err != nil {
				return nil, err
			}
		}
	}
	if report == nil {
		return nil, settingError("no model %q", o.option("model", ""))
	}
	return report, nil
}

// config of a benchmark run, through the front door: a TOML file.
func (s shape) config(o Options, batch int, sets ...string) (*config.Config, error) {
	dir, err := os.MkdirTemp("", "ecrec-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := dir + "/bench.toml"
	if err := os.WriteFile(path, []byte(s.toml(o, batch, dir)), 0o644); err != nil {
		return nil, err
	}
	return config.Load(path, sets)
}

// toml is the text of a config that writes to a folder.
func (s shape) toml(o Options, batch int, dir string) string {
	return fmt.Sprintf(`[job]
ranks = %s
threads = %s
device = %q
out = %q
[kernels]
blas = %q
[data]
format = "synthetic"
[model]
embedding_dim = %d
tables = %s
bottom_mlp = [%s]
top_mlp = [%s]
[train]
global_batch = %d
iterations = 1
[optimizer.dense]
kind = "sgd"
lr = 0.1
[optimizer.sparse]
kind = "sgd"
lr = 0.1
`, o.option("ranks", "1"), o.option("threads", "0"), o.option("device", "cpu"), dir, o.option("blas", "exact"), s.dim, s.tables, join(s.bottom), join(s.top), batch)
}

func join(widths []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(widths), " ", ", "), "[]")
}

// silent observes nothing.
type silent struct{}

func (silent) Started(train.Info) error          { return nil }
func (silent) Step(train.StepInfo)               {}
func (silent) Checkpointed(int64, string, error) {}
func (silent) PassedOver(string, error)          {}
func (silent) Warned(string)                     {}
func (silent) Recovered(train.Recovery)          {}
func (silent) Evaluated(train.Eval)              {}

func trainOne(out io.Writer, o Options, s shape, batch int, report **Report) error {
	cfg, err := s.config(o, batch)
	if err != nil {
		return err
	}
	steps := max(2, 32768/batch)
	if o.Tiny {
		steps = 2
	}
	if steps, err = o.number("steps", steps, 1, math.MaxInt32); err != nil {
		return err
	}
	onCPU := cfg.Job.Device == "cpu"
	profile := &timed{spent: map[string]time.Duration{}}
	samples, info, err := train.Measure(env.Real(), cfg, train.MeasureOptions{
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
		(*report).header(out)
	}
	if !onCPU {
		(*report).trainFigures(out, s, batch, flops(cfg), samples[0], info, 0)
		return nil
	}
	(*report).trainFigures(out, s, batch, flops(cfg), samples[0], info, peak(info.Threads, o.Tiny))
	(*report).opFigures(out, s, batch, samples[0], profile.spent, steps)
	return nil
}

// flops is the multiply-adds, counted as two, of the products of one sample's
// forward and backward pass; the first bottom layer needs no input gradient.
func flops(c *config.Config) float64 {
	f := float64(len(c.Model.TableRows()) + 1)
	total := 0.0
	for i, mlp := range [][]int{c.Model.BottomMLP, c.Model.TopMLP} {
		in := float64(c.Data.DenseCount())
		if i == 1 {
			in = float64(c.Model.EmbeddingDim) + f*(f-1)/2
		}
		for l, out := range mlp {
			passes := 3.0
			if i == 0 && l == 0 {
				passes = 2
			}
			total += passes * 2 * in * float64(out)
			in = float64(out)
		}
	}
	return total
}

func (r *Report) trainFigures(out io.Writer, s shape, batch int, flops float64, samples []train.Sample, info train.Info, peak float64) {
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
		r.add(name+" training", "samples/s", rate...),
		r.add(name+" products alone", "samples/s", alone...),
		r.add(name+" share of the products' rate", "%", share...),
	}
	if peak > 0 { // which nobody has measured of a GPU
		figures = append(figures, r.add(name+" share of peak", "%", ofPeak...))
	}
	for _, f := range figures {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%s\n", strings.TrimPrefix(f.Name, name+" "), f.Median, f.Min, f.Max, f.Unit)
	}
	if peak > 0 {
		pk := r.add("peak of FMAs in registers", "GFLOP/s", peak/1e9)
		fmt.Fprintf(t, "%s\t%.1f\t\t\t%s\n", pk.Name, pk.Median, pk.Unit)
	}
	gf := r.add(name+" products alone", "GFLOP/s", scale(alone, flops/1e9)...)
	fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%s\n", "products alone", gf.Median, gf.Min, gf.Max, gf.Unit)
	for st := train.Stage(0); st < train.Stages; st++ {
		var ms []float64
		for _, m := range samples {
			ms = append(ms, 1e3*m.Stages[st].Seconds())
		}
		f := r.add(name+" stage "+st.String(), "ms", ms...)
		fmt.Fprintf(t, "stage %s\t%.2f\t%.2f\t%.2f\tms\n", st, f.Median, f.Min, f.Max)
	}
	t.Flush()
}

// opFigures says where the time of rank 0's operations goes, over the whole run.
func (r *Report) opFigures(out io.Writer, s shape, batch int, samples []train.Sample, spent map[string]time.Duration, steps int) {
	t := table(out)
	rounds := float64(len(samples) * steps)
	for _, group := range opGroups {
		f := r.add(fmt.Sprintf("%s batch %d op %s", s.name, batch, group), "ms", 1e3*spent[group].Seconds()/rounds)
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
