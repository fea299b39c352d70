package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ecrec/ecrec/bench/paired"
)

// Bar is a bound that figures of a benchmark must keep. Each benchmark has its bars as data beside it, and every report judges
// the bars of its settings.
type Bar struct {
	// Settings are those for which the bar holds, KEY=VALUE.
	Settings []string
	// Source is the sentence that sets the bar.
	Source string
	// Ways are alternatives. The bar holds if all checks of one way hold.
	Ways [][]Check
}

// Check is a bound of one number of a figure.
type Check struct {
	// Figure is the name of the figure, or the end of it: all figures that match must keep the bound.
	Figure string
	// Judged is the number that is compared with the bound.
	Judged Number
	// AtLeast: the bound is the least value, else the greatest.
	AtLeast bool
	Bound   float64
}

// Number is a number of a figure.
type Number string

// The numbers that bars judge.
const (
	// Median is the median over the turns or pairs. Itself is the value of a figure that is a quantile.
	Median Number = "median"
	Itself Number = ""
	// Lower and Upper are the ends of the 95 % interval of the median of pairs.
	Lower Number = "lower 95 % bound"
	Upper Number = "upper 95 % bound"
)

// atMost is the check of a greatest value.
func atMost(figure string, judged Number, bound float64) Check {
	return Check{Figure: figure, Judged: judged, Bound: bound}
}

// atLeast is the check of a least value.
func atLeast(figure string, judged Number, bound float64) Check {
	return Check{Figure: figure, Judged: judged, Bound: bound, AtLeast: true}
}

// oneWay is the list of a bar without alternatives.
func oneWay(checks ...Check) [][]Check { return [][]Check{checks} }

// String describes the check: "upper 95 % bound at most 1.03".
func (c Check) String() string {
	bound := fmt.Sprintf("at most %g", c.Bound)
	if c.AtLeast {
		bound = fmt.Sprintf("at least %g", c.Bound)
	}
	return strings.TrimSpace(string(c.Judged) + " " + bound)
}

// Verdict is the result of a bar.
type Verdict string

// The verdicts. A bar is not shown if the interval holds the bound, there are too few pairs, or the figure is missing.
const (
	Holds    Verdict = "holds"
	NotShown Verdict = "not shown"
	Misses   Verdict = "misses"
)

// BarResult is a bar with its verdict.
type BarResult struct {
	Source   string          `json:"source"`
	Settings []string        `json:"settings,omitempty"`
	Verdict  Verdict         `json:"verdict"`
	Ways     [][]CheckResult `json:"ways"`
}

// CheckResult is the check of one figure.
type CheckResult struct {
	Figure  string  `json:"figure"`
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"` // the numbers, and why it is not shown
}

// judge returns the results of the bars that hold for the settings of a report.
func judge(bars []Bar, r *Report) (results []BarResult) {
	for _, b := range bars {
		if !b.appliesTo(r.Settings) || !b.hasCase(r) {
			continue
		}
		x := BarResult{Source: b.Source, Settings: b.Settings}
		for _, way := range b.Ways {
			var checks []CheckResult
			for _, c := range way {
				checks = append(checks, b.checkFigures(c, r)...)
			}
			x.Ways = append(x.Ways, checks)
		}
		x.Verdict = x.combineWays()
		results = append(results, x)
	}
	return results
}

// appliesTo reports whether a run with some settings can have figures for the bar. An empty setting is computed.
func (b Bar) appliesTo(settings map[string]string) bool {
	return !slices.ContainsFunc(b.Settings, func(s string) bool {
		key, value, _ := strings.Cut(s, "=")
		v := settings[key]
		return v != "" && !slices.Contains(strings.Split(v, ","), value)
	})
}

// matchesCase reports whether a figure is of the bar's settings.
func (b Bar) matchesCase(f Figure) bool {
	return !slices.ContainsFunc(b.Settings, func(s string) bool {
		key, value, _ := strings.Cut(s, "=")
		v, ok := f.Case[key]
		return ok && v != value
	})
}

// hasCase reports whether a report has a figure for the bar, or figures of no case at all with the names of its checks. A model
// that the run left out has neither.
func (b Bar) hasCase(r *Report) bool {
	others := false
	for _, f := range r.Figures {
		if !b.namesFigure(f) {
			continue
		}
		if b.matchesCase(f) {
			return true
		}
		others = true
	}
	return !others
}

// namesFigure reports whether a check of the bar names a figure.
func (b Bar) namesFigure(f Figure) bool {
	return slices.ContainsFunc(b.Ways, func(way []Check) bool {
		return slices.ContainsFunc(way, func(c Check) bool { return c.namesFigure(f) })
	})
}

// namesFigure reports whether the check is for a figure: its name, or the end of it after a space.
func (c Check) namesFigure(f Figure) bool {
	return f.Name == c.Figure || strings.HasSuffix(f.Name, " "+c.Figure)
}

// checkFigures judges all figures of a check.
func (b Bar) checkFigures(c Check, r *Report) (results []CheckResult) {
	for _, f := range r.Figures {
		if c.namesFigure(f) && b.matchesCase(f) {
			v, text := c.judgeFigure(f)
			results = append(results, CheckResult{f.Name, c.String(), v, text})
		}
	}
	if results == nil {
		return []CheckResult{{c.Figure, c.String(), NotShown, "the run has no such figure"}}
	}
	return results
}

// judgeFigure compares a figure with the bound.
func (c Check) judgeFigure(f Figure) (Verdict, string) {
	text := fmt.Sprintf("%.4g", f.Median)
	if f.Unit != ratioUnit {
		text += " " + f.Unit
	}
	if f.Values != nil {
		text += fmt.Sprintf(" (%.4g to %.4g, %d pairs)", f.between.Low, f.between.High, f.N)
	} else {
		text += fmt.Sprintf(" (of %d)", f.N)
	}
	if least := leastValues(f); f.N < least {
		return NotShown, fmt.Sprintf("%s: too few, it takes %d", text, least)
	}
	kept := func(x float64) bool { return x == c.Bound || x < c.Bound != c.AtLeast }
	if c.Judged == Median || c.Judged == Itself {
		if kept(f.Median) {
			return Holds, text
		}
		return Misses, text
	}
	if f.Values == nil {
		return NotShown, text + ": the figure has no pairs"
	}
	near, far := f.between.High, f.between.Low // the end that is judged, and the other one
	if c.Judged == Lower {
		near, far = far, near
	}
	switch {
	case kept(near):
		return Holds, text
	case kept(far):
		return NotShown, text + fmt.Sprintf(": the interval holds %g", c.Bound)
	}
	return Misses, text
}

// leastValues is the least number of values that can show a figure: below the quantile of a share p are 1/(1-p) values for one above.
func leastValues(f Figure) int {
	if f.Quantile > 0 {
		return max(paired.LeastPairs, int(math.Round(1/(1-f.Quantile))))
	}
	return paired.LeastPairs
}

// combineWays is the verdict of a bar: the best of its ways, each as bad as its worst check.
func (x BarResult) combineWays() Verdict {
	order := []Verdict{Holds, NotShown, Misses}
	best := len(order) - 1
	for _, way := range x.Ways {
		worst := 0
		for _, c := range way {
			worst = max(worst, slices.Index(order, c.Verdict))
		}
		best = min(best, worst)
	}
	return order[best]
}

// CheckBars returns an error that is ErrSetting if no bar holds for the settings of a run.
func (b Bench) CheckBars(o Options) error {
	o, err := b.options(o)
	if err != nil {
		return err
	}
	settings := map[string]string{}
	for _, s := range b.Settings {
		settings[s.Name] = o.text(s.Name)
	}
	switch {
	case len(b.Bars) == 0:
		return settingError("%s has no bars", b.Name)
	case !slices.ContainsFunc(b.Bars, func(x Bar) bool { return x.appliesTo(settings) }):
		return settingError("no bar of %s holds for these settings; see ecrec bench %s --help", b.Name, b.Name)
	}
	return nil
}

// WriteBars writes a line for each bar of a report, and one for each figure that it judges. It returns an error unless all hold.
func (r *Report) WriteBars(out io.Writer) error {
	fmt.Fprintln(out)
	missed, notShown := 0, 0
	for _, b := range r.Bars {
		switch b.Verdict {
		case Misses:
			missed++
		case NotShown:
			notShown++
		}
		fmt.Fprintf(out, "bar %-9s  %s%s\n", b.Verdict, b.Source, settingsText(b.Settings))
		for i, way := range b.Ways {
			if i > 0 {
				fmt.Fprintln(out, "    or")
			}
			for _, c := range way {
				fmt.Fprintf(out, "    %-9s  %s: %s; %s\n", c.Verdict, c.Figure, c.Text, c.Check)
			}
		}
	}
	switch {
	case len(r.Bars) == 0:
		return fmt.Errorf("bench %s: no bar is judged: the run has no figure of one", r.Bench)
	case missed+notShown > 0:
		return fmt.Errorf("bench %s: of %d bars %d are missed and %d not shown", r.Bench, len(r.Bars), missed, notShown)
	}
	return nil
}

func settingsText(settings []string) string {
	if len(settings) == 0 {
		return ""
	}
	return " [" + strings.Join(settings, " ") + "]"
}

// DescribeBars writes the bars of a benchmark, for its help.
func (b Bench) DescribeBars(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, x := range b.Bars {
		fmt.Fprintf(t, "  %s%s\n", x.Source, settingsText(x.Settings))
		for i, way := range x.Ways {
			for _, c := range way {
				join := ""
				if i > 0 {
					join = "or "
				}
				fmt.Fprintf(t, "    %s%s\t%v\n", join, c.Figure, c)
			}
		}
	}
	return t.Flush()
}
