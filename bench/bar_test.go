package bench

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// ratios are 15 pairs around a value, with an interval from 1 % below it to 1 % above it.
func ratios(around float64) (values []float64) {
	for i := range 15 {
		values = append(values, around*(1+0.01*float64(i-7)/4))
	}
	return values
}

func TestVerdictsOfBars(t *testing.T) {
	r := &Report{Bench: "b", Settings: map[string]string{"every": "1,10", "model": ""}}
	r.addPaired("a: ratio", ratioUnit, ratios(1)...) // 0.9925 to 1.0075 or a little more
	r.addPaired("few", ratioUnit, 1, 1, 1, 1, 1)
	r.addQuantile("p99", "ms", 0.99, ratios(1))
	r.addQuantile("p50", "ms", 0.5, ratios(1))
	r.addFigure("plain", "ms", ratios(1)...)
	for _, c := range []struct {
		check Check
		want  Verdict
		text  string
	}{
		{atMost("a: ratio", Upper, 1.02), Holds, "15 pairs"},
		{atMost("ratio", Upper, 1.001), NotShown, "the interval holds 1.001"},
		{atMost("ratio", Upper, 0.9), Misses, "15 pairs"},
		{atLeast("ratio", Lower, 0.98), Holds, ""},
		{atLeast("ratio", Lower, 1), NotShown, "the interval holds 1"},
		{atLeast("ratio", Lower, 1.1), Misses, ""},
		{atMost("ratio", Median, 1), Holds, ""},
		{atMost("ratio", Median, 0.999), Misses, ""},
		{atLeast("ratio", Median, 1.001), Misses, ""},
		{atMost("few", Upper, 2), NotShown, "too few, it takes 6"},
		{atMost("few", Median, 2), NotShown, "too few"},
		{atMost("p99", Itself, 2), NotShown, "too few, it takes 100"},
		{atMost("p50", Itself, 2), Holds, "1 ms (of 15)"},
		{atMost("plain", Median, 2), Holds, ""},
		{atMost("plain", Upper, 2), NotShown, "the figure has no pairs"},
		{atMost("tio", Upper, 2), NotShown, "no such figure"},
	} {
		got := judge([]Bar{{Source: "s", Ways: oneWay(c.check)}}, r)
		if len(got) != 1 || got[0].Verdict != c.want || !strings.Contains(got[0].Ways[0][0].Text, c.text) {
			t.Errorf("%v: %+v, want %s, %q", c.check, got, c.want, c.text)
		}
	}
}

// A bar of several figures is as good as the worst of them, and one of several ways as good as the best.
func TestWaysOfABar(t *testing.T) {
	r := &Report{Bench: "b"}
	r.addPaired("good", ratioUnit, ratios(0.5)...)
	r.addPaired("even", ratioUnit, ratios(1)...)
	r.addPaired("bad", ratioUnit, ratios(2)...)
	good, even, bad := atMost("good", Upper, 1), atMost("even", Upper, 1), atMost("bad", Upper, 1)
	for _, c := range []struct {
		ways [][]Check
		want Verdict
	}{
		{oneWay(good), Holds}, {oneWay(good, even), NotShown}, {oneWay(good, even, bad), Misses},
		{[][]Check{{bad}, {good}}, Holds}, {[][]Check{{bad}, {even}}, NotShown}, {[][]Check{{bad}, {good, bad}}, Misses},
	} {
		r.Bars = judge([]Bar{{Source: "s", Ways: c.ways}}, r)
		var out bytes.Buffer
		err := r.WriteBars(&out)
		if r.Bars[0].Verdict != c.want || (err == nil) != (c.want == Holds) || !strings.Contains(out.String(), "bar "+string(c.want)) {
			t.Errorf("%v: %+v, %v, want %s", c.ways, r.Bars, err, c.want)
		}
	}
	r.Bars = nil
	if err := r.WriteBars(&bytes.Buffer{}); err == nil {
		t.Error("no bar is judged, and that is a success")
	}
}

// A bar is judged for the settings that it names: of the run, or of each figure of a run with several cases.
func TestSettingsOfABar(t *testing.T) {
	r := &Report{Bench: "b", Settings: map[string]string{"every": "1,10", "model": "", "batch": "64"}}
	r.addPaired("x every 10: ratio", ratioUnit, ratios(1)...)
	r.addPaired("y every 10: ratio", ratioUnit, ratios(3)...)
	r.setCase(0, map[string]string{"model": "x", "every": "10"})
	r.setCase(1, map[string]string{"model": "y", "every": "10"})
	for settings, want := range map[string]Verdict{
		"": Misses, "model=x": Holds, "model=y": Misses, "model=x every=10": Holds, "batch=64 model=x": Holds,
		"model=z": "", "every=1": "", "batch=65": "", "every=7": "",
	} {
		bar := Bar{Settings: strings.Fields(settings), Ways: oneWay(atMost("ratio", Upper, 2))}
		got := judge([]Bar{bar}, r)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0].Verdict != want) {
			t.Errorf("%q: %+v, want %q", settings, got, want)
		}
	}
}

// The settings of each bar are those of its benchmark.
func TestBarsHaveSettings(t *testing.T) {
	for _, b := range All() {
		for _, x := range b.Bars {
			if _, err := b.options(Options{Args: x.Settings}); err != nil || x.Source == "" || len(x.Ways) == 0 {
				t.Errorf("%s: %q: %v", b.Name, x.Source, err)
			}
			if err := b.CheckBars(Options{Args: x.Settings}); err != nil {
				t.Errorf("%s: %q: %v", b.Name, x.Source, err)
			}
		}
	}
	for _, c := range []struct {
		bench Bench
		args  []string
	}{{cacheBench, nil}, {overheadBench, []string{"k=2"}}, {streamBench, []string{"bogus=1"}}} {
		if err := c.bench.CheckBars(Options{Args: c.args}); !errors.Is(err, ErrSetting) {
			t.Errorf("%s %q: %v", c.bench.Name, c.args, err)
		}
	}
	var out bytes.Buffer
	if err := serveBench.DescribeBars(&out); err != nil || !strings.Contains(out.String(), "or predict / empty") {
		t.Errorf("%v, %s", err, &out)
	}
}

// checkBars checks that each figure of a bar is in a report: a bar whose figure has another name is never judged.
func checkBars(t *testing.T, b Bench, r *Report) {
	t.Helper()
	for _, x := range b.Bars {
		for _, way := range x.Ways {
			for _, c := range way {
				found := false
				for _, f := range r.Figures {
					found = found || c.namesFigure(f)
				}
				if !found {
					t.Errorf("no figure %q of the bar %q", c.Figure, x.Source)
				}
			}
		}
	}
}
