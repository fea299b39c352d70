package bench

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// In virtual time a recovery is a function of the settings. It undoes the steps since the last commit, and the times are in the order in
// which they happen.
func TestVirtualRecovery(t *testing.T) {
	run := func(args ...string) *Report {
		r, err := recoveryBench.Run(&bytes.Buffer{}, Options{Tiny: true, Repeats: 2, Args: append([]string{"clock=virtual"}, args...)})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	args := []string{"ranks=3,5", "every=4", "compute=5ms"}
	a, b := run(args...), run(args...)
	if fmt.Sprint(a.Figures) != fmt.Sprint(b.Figures) {
		t.Errorf("%+v, then %+v", a.Figures, b.Figures)
	}
	before := 0.0
	for _, name := range []string{"join_ms", "survey_ms", "ready_ms", "resume_ms", "regain_ms"} {
		f := a.mustFind(t, name, "ranks", "5")
		if f.Evidence != Virtual || f.Median <= before {
			t.Errorf("%s after %g ms: %+v", name, before, f)
		}
		before = f.Median
	}
	if f := a.mustFind(t, "steps redone", "ranks", "5"); f.Median != 2 { // it is lost in the middle of an epoch of 4
		t.Errorf("%+v", f)
	}
	if f := a.mustFind(t, "rows decoded", "ranks", "5"); f.Median < 1 {
		t.Errorf("%+v", f)
	}
	slow := run("ranks=5", "every=4", "compute=5ms", "link=10Mb/s,50us")
	if x, y := a.mustFind(t, "resume_ms", "ranks", "5").Median, slow.mustFind(t, "resume_ms").Median; y <= x {
		t.Errorf("%g ms over slow links, %g over fast ones", y, x)
	}
}

func TestBadClocksOfRecovery(t *testing.T) {
	for args, want := range map[string]string{"link=10Gb/s,50us": "clock=virtual", "ranks=3,5": "clock=virtual", "ranks=65": "clock=virtual",
		"clock=x": "clock", "clock=virtual link=10": "10", "clock=virtual ranks=6 k=4 r=1": "ranks=6"} {
		_, err := recoveryBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: strings.Fields(args)})
		if !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
