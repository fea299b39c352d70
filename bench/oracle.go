package bench

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/oracle"
)

var oracleBench = Bench{
	Name: "oracle",
	Doc:  "speed of planning: samples/s that the oracle plans",
	Detail: "Plans synthetic Criteo Kaggle data: plans of the ranks, then merges and decisions of the owners. The first numbers of " +
		"batch, features, ranks and lookahead are the base case. Each further number is tried in the base case in place of the first.",
	Settings: []Setting{
		choice("mode", "planned", []string{"planned", "lrpp"}, "cache mode to plan for"),
		numbers("batch", "16384,2048,65536", 1, maxSamples, "samples of a step, over all ranks").orTiny("64,37"),
		numbers("features", "26,13,52", 1, mostFeatures, "tables").orTiny("5,3"),
		numbers("ranks", "2,1,4,8", 1, mostRanks, "ranks that train and own rows").orTiny("2,3"),
		numbers("lookahead", "50,10,200", 1, mostLookahead, "number of future steps in the window").orTiny("3,1"),
		numbers("threads", "", 1, runtime.GOMAXPROCS(0), "numbers of threads. Default: 1 and all cores"),
	},
	measure: runOracle,
}

// oracleCase is one set-up: samples in a global batch, tables, ranks that train
// and own rows, batches of lookahead.
type oracleCase struct {
	batch, features, ranks, lookahead int
	mode                              string
}

// settings returns the case of its figures.
func (c oracleCase) settings() map[string]string {
	return map[string]string{"mode": c.mode, "batch": strconv.Itoa(c.batch), "features": strconv.Itoa(c.features),
		"ranks":     strconv.Itoa(c.ranks),
		"lookahead": strconv.Itoa(c.lookahead)}
}

const (
	mostFeatures  = 1 << 10
	mostRanks     = 1 << 8
	oracleSeed    = 42
	oracleTime    = 400 * time.Millisecond
	warmupSteps   = 2 // in addition to those that fill the window
	mostLookahead = oracle.MaxLookahead
)

func runOracle(out io.Writer, o Options) (*Report, error) {
	cases, threads := oracleCases(o)
	runs, err := oracleRuns(cases)
	if err != nil {
		return nil, err
	}
	report := o.newReport("none")
	report.writeHeader(out)
	took := make([][][]oracleParts, len(runs)) // of each case, of each number of threads, in turn
	for i := range runs {
		took[i] = make([][]oracleParts, len(threads))
	}
	for n := 0; o.moreTurns(n, o.repeats()); n++ {
		for i, r := range runs {
			for j, n := range threads {
				took[i][j] = append(took[i][j], r.timeParts(n, o.Tiny))
			}
		}
	}
	fmt.Fprintf(out, "million samples/s of all ranks: median (least-greatest), the same per core, ms per batch, and ns/sample of the parts\n")
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "batch\tfeatures\tranks\tlookahead\trows\tthreads\tM samples/s\tper core\tms per batch\tplans\tmerges\tdecisions\t\n")
	for i, r := range runs {
		first := len(report.Figures)
		rows := report.addAs(Counted, "distinct rows", "rows", float64(r.rows))
		report.setCase(first, r.settings())
		for j, n := range threads {
			fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%.0f\t%d\t", r.batch, r.features, r.ranks, r.lookahead, rows.Median, n)
			first := len(report.Figures)
			oracleFigures(t, report, r.batch, min(n, r.ranks), took[i][j])
			of := r.settings()
			of["threads"] = strconv.Itoa(n)
			report.setCase(first, of)
		}
	}
	return report, nil
}

// oracleCases returns the cases to measure, the base case first, and the numbers of threads.
func oracleCases(o Options) (cases []oracleCase, threads []int) {
	lists := [4][]int{o.numbers("batch"), o.numbers("features"), o.numbers("ranks"), o.numbers("lookahead")}
	base := oracleCase{lists[0][0], lists[1][0], lists[2][0], lists[3][0], o.text("mode")}
	cases = append(cases, base)
	for i, list := range lists {
		for _, n := range list[1:] {
			c := base
			*[]*int{&c.batch, &c.features, &c.ranks, &c.lookahead}[i] = n
			cases = append(cases, c)
		}
	}
	return cases, o.threadCounts()
}

// oracleFigures reports the measurements of one case that kept cores cores busy.
func oracleFigures(t io.Writer, report *Report, batch, cores int, took []oracleParts) {
	var all, core, ms []float64
	parts := make([][]float64, len(oracleParts{}))
	for _, p := range took {
		sum := 0.0
		for i, seconds := range p {
			parts[i] = append(parts[i], 1e9*seconds)
			sum += seconds
		}
		all = append(all, 1/sum)
		core = append(core, 1/sum/float64(cores))
		ms = append(ms, 1e3*sum*float64(batch))
	}
	f := report.addFigure("rate", "samples/s", all...)
	c := report.addFigure("rate per core", "samples/s", core...)
	fmt.Fprintf(t, "%.2f (%.2f-%.2f)\t%.2f\t%.3f\t", f.Median/1e6, f.Min/1e6, f.Max/1e6, c.Median/1e6, report.addFigure("batch", "ms",
		ms...).Median)
	for i, part := range []string{"plans", "merges", "decisions"} {
		fmt.Fprintf(t, "%.0f\t", report.addFigure(part, "ns/sample", parts[i]...).Median)
	}
	fmt.Fprintln(t)
}

// oracleData holds the ids of some global batches, drawn before anything is timed.
type oracleData struct {
	tables []int64
	steps  [][]uint32
}

// oracleRuns sets up the cases; cases with the same batches share them. There are enough batches
// that one is used again only after it has left every window.
func oracleRuns(cases []oracleCase) (runs []*oracleRun, err error) {
	type shape struct{ batch, features int }
	steps := map[shape]int{}
	for _, c := range cases {
		s := shape{c.batch, c.features}
		steps[s] = max(steps[s], c.lookahead+2)
	}
	bytes := 0
	for s, n := range steps {
		bytes += 4 * n * s.batch * s.features
	}
	if err := checkMemory(bytes, "batch, features and lookahead"); err != nil {
		return nil, err
	}
	made := map[shape]*oracleData{}
	for _, c := range cases {
		s := shape{c.batch, c.features}
		if made[s] == nil {
			if made[s], err = makeOracleData(c.batch, c.features, steps[s]); err != nil {
				return nil, err
			}
		}
		runs = append(runs, newOracleRun(c, made[s]))
	}
	return runs, nil
}

// makeOracleData draws batches with features tables: those of Kaggle, repeated if there are more.
func makeOracleData(batch, features, steps int) (*oracleData, error) {
	kaggle, err := data.Tables("criteo-kaggle")
	if err != nil {
		return nil, err
	}
	d := &oracleData{tables: slices.Repeat(kaggle, (features-1)/len(kaggle)+1)[:features], steps: make([][]uint32, steps)}
	src, err := data.Open(data.Options{Format: data.FormatSynthetic, Tables: d.tables, Seed: oracleSeed})
	if err != nil {
		return nil, err
	}
	defer src.Close()
	order := data.Order{Samples: src.Len(), Batch: batch}
	workers := runtime.GOMAXPROCS(0)
	failed := make([]error, workers)
	together(workers, func(w int) {
		for i := w; i < steps && failed[w] == nil; i += workers {
			var b data.Batch
			failed[w] = src.Read(&b, order.Slice(int64(i+1), 0, 1, nil))
			d.steps[i] = b.IDs
		}
	})
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}
