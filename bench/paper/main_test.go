package paper

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/bench"
)

// built is the folder of the executable that benchmarks of jobs start, empty until one does.
var built string

// program builds ecrec once for the tests that run jobs.
var program = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "ecrec-paper")
	if err != nil {
		panic(err)
	}
	built = dir
	path := filepath.Join(dir, "ecrec")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/ecrec").CombinedOutput(); err != nil {
		panic(string(out))
	}
	return path
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// tinyReports has the reports of tiny runs: drawings may share runs.
var tinyReports = map[string]*bench.Report{}

// runTiny returns the reports of the tiny runs of a drawing.
func runTiny(t *testing.T, d Drawing) (reports []*bench.Report) {
	t.Helper()
	for _, run := range d.Runs(Tiny) {
		r := tinyReports[run.String()]
		if r == nil {
			b, err := bench.Find(run.Bench)
			if err != nil {
				t.Fatal(err)
			}
			o := bench.Options{Tiny: true, Repeats: run.Repeats, Args: run.Args, Program: program()}
			if r, err = b.Run(io.Discard, o); err != nil {
				t.Fatalf("%s: %v: %v", d.ID, run, err)
			}
			tinyReports[run.String()] = r
			checkTimed(t, run, r)
			repeatTimes(r)
		}
		reports = append(reports, r)
	}
	return reports
}

// checkTimed checks that a run beside others has no value that their load changes.
func checkTimed(t *testing.T, run Run, r *bench.Report) {
	t.Helper()
	for _, f := range r.Figures {
		if !run.IsTimed() && f.Evidence.IsTimed() {
			t.Errorf("%s: %s of %v is %s, and the run is not timed", run, f.Name, f.Case, f.Evidence)
		}
	}
}

// repeatTimes makes a report look as if each time had been taken twice, with the same value: checks of single times have no verdict.
func repeatTimes(r *bench.Report) {
	for i := range r.Figures {
		if f := &r.Figures[i]; f.Evidence.IsTimed() && f.N == 1 {
			f.N = 2
		}
	}
}

// drawTiny draws a figure from tiny runs.
func drawTiny(t *testing.T, d Drawing) *Figure {
	t.Helper()
	return drawReports(t, d, runTiny(t, d))
}

// drawReports draws a figure from reports.
func drawReports(t *testing.T, d Drawing, reports []*bench.Report) *Figure {
	t.Helper()
	f := Of(d.ID)
	if err := d.Draw(f, reports); err != nil {
		t.Fatalf("%s: %v", d.ID, err)
	}
	if len(f.Series) == 0 {
		t.Errorf("%s has no series", d.ID)
	}
	for _, s := range f.Series {
		if s.System == "" || s.Kind == "" || len(s.Points) == 0 {
			t.Errorf("%s: a series without system, kind or points: %+v", d.ID, s)
		}
	}
	for _, c := range f.Checks {
		if c.Text == "" || c.Seen == "" || c.Holds && c.Unclear {
			t.Errorf("%s: %+v", d.ID, c)
		}
	}
	return f
}

// drawing finds a drawing by its id.
func drawing(t *testing.T, id string) Drawing {
	t.Helper()
	i := slices.IndexFunc(All(), func(d Drawing) bool { return d.ID == id })
	if i < 0 {
		t.Fatalf("there is no drawing %s", id)
	}
	return All()[i]
}

// changed returns a copy of a report in which the values of a name, and of a case, are multiplied: KEY, VALUE, KEY, VALUE. A test
// shows with it that a check can fail.
func changed(t *testing.T, r *bench.Report, by float64, name string, of ...string) *bench.Report {
	t.Helper()
	c := *r
	c.Figures = slices.Clone(r.Figures)
	n := 0
	for i := range c.Figures {
		f := &c.Figures[i]
		if f.Name != name || !hasCase(f.Case, of) {
			continue
		}
		n++
		f.Median, f.Min, f.Max = f.Median*by, f.Min*by, f.Max*by
		if f.Interval != nil {
			f.Interval = &[2]float64{f.Interval[0] * by, f.Interval[1] * by}
		}
	}
	if n == 0 {
		t.Fatalf("the report of %s has no figure %q of %v", r.Bench, name, of)
	}
	return &c
}

// Every drawing draws from tiny runs.
func TestEveryDrawingDrawsTiny(t *testing.T) {
	for _, d := range All() {
		t.Run(d.ID, func(t *testing.T) {
			if d.Why != "" {
				if d.Runs != nil || d.Draw != nil {
					t.Errorf("%s has runs, and a reason why it has none: %s", d.ID, d.Why)
				}
				return
			}
			drawTiny(t, d)
		})
	}
}
