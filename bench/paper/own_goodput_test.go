package paper

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench"
)

// changedCheck draws a figure with changed values, and expects a check to hold or not.
func changedCheck(t *testing.T, id string, check int, holds bool, reports ...*bench.Report) {
	t.Helper()
	f := drawReports(t, drawing(t, id), reports)
	if c := f.Checks[check]; c.Holds != holds {
		t.Errorf("%s: %+v, want %v", id, c, holds)
	}
}

func TestGoodputChecks(t *testing.T) {
	r := runTiny(t, drawing(t, "G1"))[0]
	changedCheck(t, "G1", 0, true, r)
	changedCheck(t, "G1", 0, false, changed(t, r, 0, digestEqual, "system", "ours"))
	changedCheck(t, "G1", 0, false, changed(t, r, 0, "failures", "system", "ours"))
	changedCheck(t, "G1", 1, false, changed(t, r, 1000, timeOverClean, "system", "ours"))
	changedCheck(t, "G1", 1, true, changed(t, r, 1e-3, timeOverClean, "system", "ours"))
	changedCheck(t, "G1", 2, false, changed(t, r, 1e-3, timeOverClean, "system", "ckpt-full", "mtbf", "60"))
	unscaled := *r
	unscaled.Settings = maps.Clone(r.Settings)
	unscaled.Settings["scale"] = "1"
	changedCheck(t, "G1", 3, false, changed(t, &unscaled, 1000, timeOverClean, "system", "ours", "mtbf", "60"))
	fast := changed(t, &unscaled, 1e-3, timeOverClean, "system", "ours", "mtbf", "60")
	changedCheck(t, "G1", 3, true, fast)
	changedCheck(t, "G1", 3, false, changed(t, fast, 0, digestEqual, "system", "ours"))
	apart := func(system string) *bench.Report { // as a full report measures some systems
		x := *r
		x.Settings = maps.Clone(r.Settings)
		x.Settings["system"] = system
		return &x
	}
	if f := drawReports(t, drawing(t, "G1"), []*bench.Report{apart("ours"), apart("ckpt-full")}); f.series("ours") == nil || f.series("ckpt-full") == nil {
		t.Error("a system of the second report is missing")
	}
	save, _, err := point(r, 60, "", saveOfMTBF, "system", "ckpt-full", "mtbf", "60")
	if err != nil {
		t.Fatal(err)
	}
	if got := drawReports(t, drawing(t, "G1"), []*bench.Report{r}).at("ckpt-full: "+saveOfMTBF, 60); got.Y != save.Y || got.Unit != "%" || got.Y <= 0 {
		t.Errorf("%+v, want %+v", got, save)
	}
	f := drawTiny(t, drawing(t, "G1"))
	if len(f.Values) != 3 || len(f.Notes) < 6 {
		t.Errorf("values %+v, notes %q", f.Values, f.Notes)
	}
}

func TestLostWorkChecks(t *testing.T) {
	r := runTiny(t, drawing(t, "G2"))[0]
	changedCheck(t, "G2", 0, true, r)
	changedCheck(t, "G2", 0, false, changed(t, r, 0, digestEqual, "system", "replica", "n", "5"))
	changedCheck(t, "G2", 1, false, changed(t, r, 1000, memoryShare, "system", "ours"))
	changedCheck(t, "G2", 2, false, changed(t, r, 1000, withProtect, "system", "ours"))
	changedCheck(t, "G2", 3, false, changed(t, r, 1000, withProtect, "system", "ckpt-full", "n", "50"))
	calm := *r // without failures that hit a process
	calm.Figures = slices.DeleteFunc(slices.Clone(r.Figures), func(f bench.Figure) bool { return f.Name == perFailure })
	f := drawReports(t, drawing(t, "G2"), []*bench.Report{&calm})
	if f.series("ours") != nil || len(f.Notes) != 3+len(lostWorkSystems)*len(strings.Split(r.Settings["n"], ",")) {
		t.Errorf("series %+v, notes %q", f.Series, f.Notes)
	}
}

func TestFaultChecks(t *testing.T) {
	r := runTiny(t, drawing(t, "G3"))[0]
	changedCheck(t, "G3", 0, true, r)
	changedCheck(t, "G3", 0, false, changed(t, r, 0, digestEqual, "fault", "stall"))
	changedCheck(t, "G3", 1, false, changed(t, r, 1e6, "detect", "fault", "kill"))
	changedCheck(t, "G3", 2, false, changed(t, r, 1e6, "fault to first step", "fault", "silent-node"))
}
