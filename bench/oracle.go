package bench

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/ecrec/ecrec/data"
)

var oracleBench = Bench{
	Name: "oracle",
	Doc: "samples/s that the oracle plans on synthetic Criteo Kaggle data: the ranks' plans and the owners' merges " +
		"(settings: batch=N,N, features=N,N, ranks=N,N, threads=N,N; of the first three lists the first " +
		"numbers are the base, and each other one is tried with the rest of the base)",
	Run: runOracle,
}

// oracleCase is one set-up: samples in a global batch, tables, and ranks, which
// train and own rows.
type oracleCase struct{ batch, features, ranks int }

func (c oracleCase) String() string {
	return fmt.Sprintf("batch %d, features %d, ranks %d", c.batch, c.features, c.ranks)
}

const (
	mostFeatures  = 1 << 10
	mostRanks     = 1 << 8
	oracleSeed    = 42
	oracleTime    = 400 * time.Millisecond
	oracleBatches = 8 // different ones
)

func runOracle(out io.Writer, o Options) (*Report, error) {
	cases, threads, err := oracleCases(o)
	if err != nil {
		return nil, err
	}
	runs, err := oracleRuns(cases)
	if err != nil {
		return nil, err
	}
	report := newReport("oracle", "none")
	report.header(out)
	took := make([][][]oracleParts, len(runs)) // of each case, of each number of threads, in turn
	for i := range runs {
		took[i] = make([][]oracleParts, len(threads))
	}
	for range o.repeats() {
		for i, r := range runs {
			for j, n := range threads {
				took[i][j] = append(took[i][j], r.measure(n, o.Tiny))
			}
		}
	}
	fmt.Fprintf(out, "million samples/s of all ranks: median (least-greatest), the same per core, and ns/sample of the parts\n")
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "batch\tfeatures\tranks\trows\tthreads\tM samples/s\tper core\tplans\tmerges\t\n")
	for i, r := range runs {
		rows := report.add("distinct rows, "+r.String(), "rows", float64(r.rows))
		for j, n := range threads {
			fmt.Fprintf(t, "%d\t%d\t%d\t%.0f\t%d\t", r.batch, r.features, r.ranks, rows.Median, n)
			oracleFigures(t, report, fmt.Sprintf("%v, threads %d", r, n), n, took[i][j])
		}
	}
	return report, nil
}

// oracleCases are the cases to measure, the base first, each on so many threads.
func oracleCases(o Options) (cases []oracleCase, threads []int, err error) {
	if err := o.checkArgs("batch", "features", "ranks", "threads"); err != nil {
		return nil, nil, err
	}
	all := runtime.GOMAXPROCS(0)
	fallback := [][]int{{16384, 2048, 65536}, {26, 13, 52}, {2, 1, 4, 8}}
	if o.Tiny {
		fallback = [][]int{{64, 37}, {5, 3}, {2, 3}}
	}
	var lists [3][]int
	for i, s := range []struct {
		key  string
		most int
	}{{"batch", maxSamples}, {"features", mostFeatures}, {"ranks", mostRanks}} {
		if lists[i], err = o.numbers(s.key, fallback[i], 1, s.most); err != nil {
			return nil, nil, err
		}
	}
	if threads, err = o.numbers("threads", slices.Compact([]int{1, all}), 1, all); err != nil {
		return nil, nil, err
	}
	base := oracleCase{lists[0][0], lists[1][0], lists[2][0]}
	cases = append(cases, base)
	for i, list := range lists {
		for _, n := range list[1:] {
			c := base
			*[]*int{&c.batch, &c.features, &c.ranks}[i] = n
			cases = append(cases, c)
		}
	}
	return cases, threads, nil
}

// oracleFigures reports what was measured of one case on so many threads.
func oracleFigures(t io.Writer, report *Report, name string, threads int, took []oracleParts) {
	var all, core []float64
	parts := make([][]float64, len(oracleParts{}))
	for _, p := range took {
		sum := 0.0
		for i, seconds := range p {
			parts[i] = append(parts[i], 1e9*seconds)
			sum += seconds
		}
		all = append(all, 1/sum)
		core = append(core, 1/sum/float64(threads))
	}
	f := report.add("oracle, "+name, "samples/s", all...)
	c := report.add("oracle per core, "+name, "samples/s", core...)
	fmt.Fprintf(t, "%.2f (%.2f-%.2f)\t%.2f\t", f.Median/1e6, f.Min/1e6, f.Max/1e6, c.Median/1e6)
	for i, part := range []string{"plans", "merges"} {
		fmt.Fprintf(t, "%.0f\t", report.add(part+", "+name, "ns/sample", parts[i]...).Median)
	}
	fmt.Fprintln(t)
}

// oracleData is the ids of some global batches, made before anything is timed.
type oracleData struct {
	tables []int64
	steps  [][]uint32
}

// oracleRuns sets up the cases; those with the same batches share them.
func oracleRuns(cases []oracleCase) (runs []*oracleRun, err error) {
	type shape struct{ batch, features int }
	made := map[shape]*oracleData{}
	for _, c := range cases {
		s := shape{c.batch, c.features}
		if made[s] == nil {
			if err := checkMemory(4*oracleBatches*c.batch*c.features, "batch and features"); err != nil {
				return nil, err
			}
			if made[s], err = makeOracleData(c.batch, c.features, oracleBatches); err != nil {
				return nil, err
			}
		}
		runs = append(runs, newOracleRun(c, made[s]))
	}
	return runs, nil
}

// makeOracleData draws batches with so many features: the tables of Kaggle, again
// and again where there are more.
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
