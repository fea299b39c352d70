package paper

import (
	"testing"

	"github.com/ecrec/ecrec/bench"
)

func TestLoad(t *testing.T) {
	d := drawing(t, "E-load")
	reports := runTiny(t, d)
	f := drawReports(t, d, reports)
	if len(f.Series) != 4 || len(f.Checks) != 5 {
		t.Fatalf("%+v", f)
	}
	for i, name := range []string{"k=4 is worse", "k=2 is worse"} {
		bad := drawReports(t, d, append([]*bench.Report{reports[0],
			changed(t, reports[1], 100, "greatest to least", "deltas", "each update")}, reports[2:]...))
		if i == 1 {
			bad = drawReports(t, d, append([]*bench.Report{
				changed(t, reports[0], 100, "greatest to least", "deltas", "each update")}, reports[1:]...))
		}
		if bad.Checks[i].Holds {
			t.Errorf("%s, and the check holds: %+v", name, bad.Checks[i])
		}
	}
	bad := drawReports(t, d, append([]*bench.Report{reports[0],
		changed(t, reports[1], 100, "greatest to least", "rows", "in turn")}, reports[2:]...))
	if bad.Checks[2].Holds {
		t.Errorf("an uneven load of rows in turn passes: %+v", bad.Checks[2])
	}
	for i, k := range []int{3, 2} {
		of := append(reports[:0:0], reports...)
		of[k] = changed(t, reports[k], 100, "greatest to least", "deltas", "each update")
		if c := drawReports(t, d, of).Checks[3+i]; c.Holds {
			t.Errorf("a worse balance with bursts passes: %+v", c)
		}
	}
}
