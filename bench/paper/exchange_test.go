package paper

import (
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench"
)

// exchangeFigures are the figures that are drawn from bench exchange.
var exchangeFigures = []string{"B2", "B7", "B9", "B10", "B11", "B12", "B18", "O15"}

// Every check of the figures of exchanges can fail, and those of the order of two systems can hold: for each there are values of one system
// with which it does.
func TestChecksOfExchangesCanFail(t *testing.T) {
	for _, id := range exchangeFigures {
		d := drawing(t, id)
		reports := runTiny(t, d)
		fails, holds := map[string]bool{}, map[string]bool{}
		look := func(reports []*bench.Report) {
			for _, c := range drawReports(t, d, reports).Checks {
				fails[c.Text] = fails[c.Text] || !c.Holds
				holds[c.Text] = holds[c.Text] || c.Holds
			}
		}
		look(reports)
		for _, change := range changesOf(reports) {
			for _, by := range []float64{1e-3, 1e6} {
				of := slices.Clone(reports)
				for i := range of {
					if change.report < 0 || change.report == i {
						of[i] = changedIf(of[i], by, change)
					}
				}
				look(of)
			}
		}
		if len(fails) == 0 {
			t.Errorf("%s has no checks", id)
		}
		for text, can := range fails {
			if !can {
				t.Errorf("%s: %q cannot fail", id, text)
			}
			if strings.Contains(text, "less time") && !holds[text] { // other orders are of several labels at once
				t.Errorf("%s: %q cannot hold", id, text)
			}
		}
	}
}

// change is one of the values of a system in a report, or in all (-1).
type change struct {
	report              int
	name, system, stage string
	mode, hot           string // of counts
}

func changesOf(reports []*bench.Report) (all []change) {
	for i, r := range reports {
		for _, f := range r.Figures {
			isCount := slices.Contains([]string{"rows", "rows, critical", "distinct rows", "bytes"}, f.Name)
			if c := (change{report: i, name: f.Name, mode: f.Case["mode"], hot: f.Case["hot"]}); isCount && !slices.Contains(all, c) {
				all = append(all, c)
			}
			for _, of := range []int{i, -1} {
				c := change{report: of, name: f.Name, system: f.Case["system"], stage: f.Case["stage"]}
				if c.system != "" && !slices.Contains(all, c) && (f.Name == "step" || f.Name == "stage" || f.Name == "placing a batch") {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// changedIf multiplies the values of a change in a report.
func changedIf(r *bench.Report, by float64, c change) *bench.Report {
	x := *r
	x.Figures = slices.Clone(r.Figures)
	for i := range x.Figures {
		f := &x.Figures[i]
		if f.Name == c.name && f.Case["system"] == c.system && f.Case["stage"] == c.stage &&
			(c.system != "" || f.Case["mode"] == c.mode && f.Case["hot"] == c.hot) {
			f.Median, f.Min, f.Max = f.Median*by, f.Min*by, f.Max*by
		}
	}
	return &x
}

// The figures have the values of the systems that they name, and the paper's beside them.
func TestValuesOfExchanges(t *testing.T) {
	d := drawing(t, "B10")
	reports := runTiny(t, d)
	f := drawReports(t, d, reports)
	want, _, err := point(reports[1], 0, "", "step", "system", "pooled", "model", "wdl")
	if err != nil {
		t.Fatal(err)
	}
	if got := f.atLabel("TorchRec", "W&D"); got.Y != want.Y || got.Y <= 0 {
		t.Errorf("%+v, want %+v", got, want)
	}
	ratio := f.atLabel("TorchRec", "W&D, over BagPipe")
	if v, ok := f.paperAt("TorchRec", 0, "W&D, over BagPipe"); !ok || ratio.N == 0 || v != 1.2 {
		t.Errorf("ours %+v, the paper's %v", ratio, v)
	}
	if s := f.series("TorchRec"); s.Kind != bench.Virtual {
		t.Errorf("kind %s", s.Kind)
	}
}
