package bench

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/transport"
)

func runIdealTiny(t *testing.T, args ...string) *Report {
	t.Helper()
	r, err := idealBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: args})
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return r
}

// mustFind returns the figure with a name and a case.
func (r *Report) mustFind(t *testing.T, name string, of ...string) Figure {
	t.Helper()
	for _, f := range r.Figures {
		fits := f.Name == name
		for i := 0; i+1 < len(of); i += 2 {
			fits = fits && f.Case[of[i]] == of[i+1]
		}
		if fits {
			return f
		}
	}
	t.Fatalf("the report has no figure %q of %v", name, of)
	return Figure{}
}

func TestBadSettingsOfIdealAreNamed(t *testing.T) {
	for _, args := range []string{"clock=x", "clock=both", "ideal=30ms", "clock=virtual ideal=30ms compute=20ms", "clock=virtual ideal=2m",
		"dense=5", "modes=x", "clock=virtual delayed=x", "ranks=4 batch=1", "link=10"} {
		list := strings.Fields(args)
		_, err := idealBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: list})
		if key, _, _ := strings.Cut(list[min(1, len(list)-1)], "="); !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// A report in virtual time is a function of its settings, and its figures say that they are virtual.
func TestVirtualIdealDependsOnSeeds(t *testing.T) {
	args := []string{"clock=virtual", "ranks=3,4", "compute=1ms", "lookahead=3", "delayed=both", "batch=96"}
	a, b := runIdealTiny(t, args...), runIdealTiny(t, args...)
	if len(a.Figures) != len(b.Figures) {
		t.Fatalf("%d and %d figures", len(a.Figures), len(b.Figures))
	}
	for i := range a.Figures {
		if fmt.Sprint(a.Figures[i]) != fmt.Sprint(b.Figures[i]) {
			t.Errorf("%+v, then %+v", a.Figures[i], b.Figures[i])
		}
	}
	for _, mode := range idealModes {
		step := a.mustFind(t, "step", "ranks", "4", "mode", mode)
		if step.Evidence != Virtual || step.Median < 1 {
			t.Errorf("%s: a step of %v ms, %s", mode, step.Median, step.Evidence)
		}
		if mode != measure.Ideal && step.Median <= a.mustFind(t, "step", "ranks", "4", "mode", measure.Ideal).Median {
			t.Errorf("a step of %s is not longer than the ideal one", mode)
		}
	}
	if rows := a.mustFind(t, "rows, critical", "ranks", "3", "mode", "none"); rows.Evidence != Counted || rows.Median == 0 {
		t.Errorf("critical rows: %+v", rows)
	}
}

// The ideal step of n ranks is the wait, and the rest of the all-reduce of the last bucket: a formula.
func TestVirtualIdealStepIsTheFormula(t *testing.T) {
	const dense, ranks = 4 << 20, 4 // 16 buckets of 1 MiB
	l := transport.EmulatedLink{BytesPerS: 1.25e9, Latency: 50 * time.Microsecond}
	r := runIdealTiny(t, "clock=virtual", "ranks=4", "compute=100ms", fmt.Sprint("dense=", dense), "modes=ideal", "link=10Gb/s,50us")
	bucket := 2 * float64(ranks-1) / ranks * (1 << 20) / l.BytesPerS * 1e3
	want, got := 100+bucket, r.mustFind(t, "step").Median
	if got < want || got > want+1 {
		t.Errorf("an ideal step takes %.3f ms, want %.3f and some latencies", got, want)
	}
}

// The wait is fitted so that the ideal step takes the time that is asked for.
func TestIdealStepIsFitted(t *testing.T) {
	r := runIdealTiny(t, "clock=virtual", "ideal=20ms", "dense=3000000", "modes=ideal", "ranks=4")
	if got := r.mustFind(t, "step").Median; got < 19.94 || got > 20.06 {
		t.Errorf("the ideal step takes %v ms, want 20", got)
	}
	_, err := idealBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{"clock=virtual", "ideal=1ms", "dense=30000000", "ranks=4"}})
	if !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), "30000000 dense parameters") {
		t.Errorf("an ideal step that is shorter than its all-reduce: %v", err)
	}
}

// On both clocks a step takes about the same time. The bound is loose: other processes share the cores of a test. A real step is never
// shorter, since it has the same waits.
func TestClocksAgree(t *testing.T) {
	r := runIdealTiny(t, "clock=both", "ranks=2", "compute=150ms", "link=10Gb/s,50us", "modes=ideal,none,planned")
	for _, mode := range []string{"ideal", "none", "planned"} {
		f := r.mustFind(t, "virtual over real", "mode", mode)
		if f.Median > 1.02 || f.Median < 0.2 {
			t.Errorf("%s: the virtual step takes %.3f of the real one", mode, f.Median)
		}
	}
}

// Rows and zeros repeat: a write at one place is read a period later.
func TestMemoryRepeats(t *testing.T) {
	r, err := newRepeated(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	defer r.freeMemory()
	a, err := r.mapBytes(3<<16 - 5)
	if err != nil {
		t.Fatal(err)
	}
	defer unmapRepeated(a)
	a[7] = 42
	if len(a) >= 3<<16 && (a[1<<16+7] != 42 || a[2<<16+7] != 42) {
		t.Errorf("%d bytes do not repeat", len(a))
	}
}
