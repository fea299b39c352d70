package bench

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench/sgemm"
	"github.com/ecrec/ecrec/train"
)

// drawnTiny are benchmarks of jobs whose processes are lost. Package paper runs them tiny too, which would take as long again;
// its TestRunsOfLosses fails if it does not.
var drawnTiny = []string{"faultkinds", "faults", "lostwork"}

// Every benchmark runs, tiny, and reports figures that are greater than zero
// where time was spent.
func TestEveryBenchmarkRunsTiny(t *testing.T) {
	for _, b := range All() {
		t.Run(b.Name, func(t *testing.T) {
			if slices.Contains(drawnTiny, b.Name) {
				t.Skip("TestEveryDrawingDrawsTiny of package paper runs it")
			}
			var out bytes.Buffer
			r, err := b.Run(&out, Options{Tiny: true, Program: program})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Figures) == 0 || out.Len() == 0 {
				t.Fatalf("%d figures, %d bytes printed", len(r.Figures), out.Len())
			}
			for _, f := range r.Figures {
				if !(f.Min <= f.Median && f.Median <= f.Max) || f.N < 1 {
					t.Errorf("%+v", f)
				}
			}
			for _, f := range r.Figures {
				if f.Evidence == "" || f.Unit == "" && f.Values != nil {
					t.Errorf("%+v: no kind of evidence, or no unit", f)
				}
			}
			if _, err := sgemm.Open("libopenblas.so.0"); err == nil || b.Name != kernelsBench.Name {
				checkBars(t, b, r)
			}
			if err := r.WriteJSON(filepath.Join(t.TempDir(), "r.json")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestUnknownSettingsAreRefused(t *testing.T) {
	for _, b := range All() {
		if _, err := b.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{"bogus=1"}}); err == nil {
			t.Errorf("%s took bogus=1", b.Name)
		}
	}
	if _, err := Find("bogus"); err == nil {
		t.Error("found a benchmark called bogus")
	}
}

func TestBadSettingsOfKernelsAreNamed(t *testing.T) {
	for _, arg := range []string{"part=x", "threads=0", "threads=1,x", "threads=100000", "m=0", "m=x", "shapes=5",
		"shapes=0x5", "shapes=5x6x7", "table=3", "libraries=/nowhere/libx.so"} {
		_, err := kernelsBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{arg}})
		if !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), arg) {
			t.Errorf("%s: %v", arg, err)
		}
	}
	r, err := kernelsBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{"part=products", "threads=1", "m=3", "shapes=5x6,7x2"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.Figures {
		if strings.HasSuffix(f.Name, " exact") {
			got = append(got, f.Name)
		}
	}
	want := []string{"product y 5x6 threads 1 exact", "product dx 5x6 threads 1 exact", "product dw 5x6 threads 1 exact",
		"product y 7x2 threads 1 exact", "product dx 7x2 threads 1 exact", "product dw 7x2 threads 1 exact"}
	if !slices.Equal(got, want) {
		t.Errorf("figures %q, want %q", got, want)
	}
}

func TestCasesOfOracle(t *testing.T) {
	for _, arg := range []string{"batch=0", "batch=x", "features=0", "ranks=1,0", "ranks=1000", "lookahead=0", "threads=100000", "mode=none"} {
		_, err := oracleBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{arg}})
		if !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), arg) {
			t.Errorf("%s: %v", arg, err)
		}
	}
	o, err := oracleBench.options(Options{Args: []string{"batch=7,8", "features=3", "ranks=2,1,4", "lookahead=9,2", "threads=1"}})
	cases, threads := oracleCases(o)
	want := []oracleCase{{7, 3, 2, 9, "planned"}, {8, 3, 2, 9, "planned"}, {7, 3, 1, 9, "planned"}, {7, 3, 4, 9, "planned"},
		{7, 3, 2, 2, "planned"}}
	if err != nil || !slices.Equal(cases, want) || !slices.Equal(threads, []int{1}) {
		t.Errorf("cases %v, threads %v, %v; want %v", cases, threads, err, want)
	}
}

// The oracle of the benchmark plans the rows of the batches: the number of distinct rows is the
// same for any number of ranks.
func TestOracleCountsRows(t *testing.T) {
	d, err := makeOracleData(500, 30, 2)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[[2]uint32]bool{}
	for l, id := range d.steps[0] {
		rows[[2]uint32{uint32(l % 30), id}] = true
	}
	for i, ranks := range []int{1, 3, 8} {
		mode := []string{"planned", "lrpp", "planned"}[i]
		r := newOracleRun(oracleCase{500, 30, ranks, 2, mode}, &oracleData{tables: d.tables, steps: d.steps[:1]})
		if r.rows != len(rows) {
			t.Errorf("%d ranks: %d rows, want %d", ranks, r.rows, len(rows))
		}
	}
}

// A sum of floats strays from its rows; xor never does.
func TestSumsDriftAndXORDoesNot(t *testing.T) {
	d, err := newDrift(3, 4, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	d.updateRows(200)
	e, err := d.decodeRows()
	if err != nil || e.xorWrong != 0 || e.wrong == 0 || e.weight == 0 || e.weight > 1e-3 {
		t.Errorf("%+v, %v", e, err)
	}
	d.xors[0][0] ^= 1
	if e, err := d.decodeRows(); err != nil || e.xorWrong != 3 {
		t.Errorf("a wrong bit of parity: %+v, %v", e, err)
	}
}

func TestBadSettingsOfLossesAreNamed(t *testing.T) {
	for _, b := range []struct {
		bench Bench
		args  []string
	}{
		{overheadBench, []string{"k=0", "every=x", "model=x", "steps=3", "checkpoints=x", "dir=/none"}},
		{recoveryBench, []string{"kills=0", "gap=x", "model=x", "csv=/none/x.csv", "png=/none/x.png",
			"svg=x.png", "png=x"}},
		{driftBench, []string{"k=0", "updates=1,x", "stripes=0", "width=-1"}},
	} {
		for _, arg := range b.args {
			_, err := b.bench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{arg}})
			if _, value, _ := strings.Cut(arg, "="); !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), value) {
				t.Errorf("%s: %v", arg, err)
			}
		}
	}
}

// A run's throughput, and the place of a loss, are computed from the lines of its steps.
func TestThroughputAroundALoss(t *testing.T) {
	r := jobRun{batch: 10}
	for i, step := range []int64{1, 2, 3, 4, 5, 4, 5, 6, 7, 8} { // 5 was the last; 3 was committed
		at := int64(100 * i)
		if i > 4 {
			at += 1000
		}
		r.steps = append(r.steps, stepLine{step, at})
	}
	x := train.Recovery{Step: 6, CommittedStep: 3, ResumeMS: 1100, WholeMS: 1350}
	if before, rebuilding := r.throughputAround(&x); r.lossOf(&x) != 5 || before != 100 || rebuilding != 100 {
		t.Errorf("line %d, %v before, %v while it rebuilds; want 5, 100, 100", r.lossOf(&x), before, rebuilding)
	}
	// Of the 1.3 s from the end of step 5 to that of step 6, one step would have taken 0.1 s.
	if seconds, share := r.costOf(&x, 100); math.Abs(seconds-1.2) > 1e-9 || math.Abs(share-100*0.1/1.3) > 1e-9 {
		t.Errorf("a cost of %v s, %v %%", seconds, share)
	}
	// Nine steps end 0 to 1.9 s after the first one. 4 and 5 are redone, and the loss pauses for 0.8 s.
	if w := r.throughputWindows(); !slices.Equal(w, []float64{80, 0, 0}) {
		t.Errorf("windows %v", w)
	}
	dir := t.TempDir()
	r.Recoveries = []train.Recovery{x}
	report := &Report{Command: []string{"/usr/bin/ecrec", "bench", "recovery"}}
	if err := errors.Join(writeStepsCSV(filepath.Join(dir, "x.csv"), []jobRun{r}),
		plotThroughput(filepath.Join(dir, "x.png"), "x", r, report), plotThroughput(filepath.Join(dir, "x.svg"), "x", r, report)); err != nil {
		t.Fatal(err)
	}
	for name, begins := range map[string]string{"x.csv": "run,seconds,step,samples_per_s\n1,0.100,2,100.0\n", "x.png": "\x89PNG", "x.svg": "<?xml"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.HasPrefix(string(got), begins) {
			t.Errorf("%s: %v, %.60q", name, err, got)
		}
	}
}
