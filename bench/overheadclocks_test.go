package bench

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func runOverheadTiny(t *testing.T, args ...string) *Report {
	t.Helper()
	r, err := overheadBench.Run(&bytes.Buffer{}, Options{Tiny: true, Repeats: 1, Args: args})
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return r
}

// In virtual time the overhead is a function of the settings. On a slow link a commit at every step sends more than one at every second
// step, and costs more.
func TestVirtualOverhead(t *testing.T) {
	args := []string{"clock=virtual", "r=1", "ranks=3", "every=1,2", "compute=1ms", "link=100Mb/s,50us"}
	a, b := runOverheadTiny(t, args...), runOverheadTiny(t, args...)
	if fmt.Sprint(a.Figures) != fmt.Sprint(b.Figures) {
		t.Errorf("%+v, then %+v", a.Figures, b.Figures)
	}
	often, seldom := a.mustFind(t, overheadWall, "every", "1"), a.mustFind(t, overheadWall, "every", "2")
	if often.Evidence != Virtual || often.Median <= 1 || often.Median <= seldom.Median {
		t.Errorf("a commit at every step: %+v, at every second: %+v", often, seldom)
	}
	if sent := a.mustFind(t, "deltas sent by rank 0", "every", "1"); sent.Evidence != Counted || sent.Median <= 0 {
		t.Errorf("%+v", sent)
	}
}

// On both clocks the links and the stand-in take the same time. A virtual step has no work of the CPU, and is not longer.
func TestOverheadOnBothClocks(t *testing.T) {
	r := runOverheadTiny(t, "clock=both", "r=1", "ranks=3", "every=1", "compute=20ms", "link=20Mb/s,50us")
	for _, name := range []string{"virtual over real", "virtual over real, without the code"} {
		if f := r.mustFind(t, name); f.Evidence != Simulated || f.Median <= 0 || f.Median > 1.02 {
			t.Errorf("%+v", f)
		}
	}
	if f := r.mustFind(t, "step, virtual"); f.Evidence != Virtual || f.Median < 20 {
		t.Errorf("%+v", f)
	}
}

func TestBadClocksOfOverhead(t *testing.T) {
	for args, want := range map[string]string{"link=10Gb/s,50us": "clock=virtual", "compute=1ms": "clock=virtual", "ranks=3,5": "clock=virtual",
		"clock=x": "clock", "clock=virtual link=10": "10", "clock=virtual ranks=6 k=4 r=1": "ranks=6", "clock=virtual every=3 steps=4": "steps=4"} {
		_, err := overheadBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: strings.Fields(args)})
		if !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
