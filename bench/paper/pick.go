package paper

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/ecrec/ecrec/bench"
)

// line returns the values of a name over a numeric value of their case: that value is x, and the points are in its order. Of the other
// values of the case, those given must match: KEY, VALUE, KEY, VALUE.
func line(r *bench.Report, system, name, key string, of ...string) (Series, error) {
	s := Series{System: system}
	for _, f := range r.Figures {
		if f.Name != name || !hasCase(f.Case, of) {
			continue
		}
		x, err := strconv.ParseFloat(f.Case[key], 64)
		if err != nil {
			return s, fmt.Errorf("the report of %s: %q has %s = %q, want a number", r.Bench, name, key, f.Case[key])
		}
		if err := s.addPoint(pointOf(f, x, ""), f.Evidence); err != nil {
			return s, fmt.Errorf("the report of %s: %q: %w", r.Bench, name, err)
		}
	}
	if len(s.Points) == 0 {
		return s, fmt.Errorf("the report of %s has no figure %q of %v", r.Bench, name, of)
	}
	slices.SortStableFunc(s.Points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	return s, nil
}

// bars returns the values of a name for some values of a key of their case, which are the labels, in the given order.
func bars(r *bench.Report, system, name, key string, labels []string, of ...string) (Series, error) {
	s := Series{System: system}
	for i, label := range labels {
		p, kind, err := point(r, float64(i), label, name, append(slices.Clone(of), key, label)...)
		if err != nil {
			return s, err
		}
		if err := s.addPoint(p, kind); err != nil {
			return s, fmt.Errorf("the report of %s: %q: %w", r.Bench, name, err)
		}
	}
	return s, nil
}

// pointOf returns a figure of a report as a point. The spread of pairs is the interval of their median.
func pointOf(f bench.Figure, x float64, label string) Point {
	p := Point{X: x, Label: label, Y: f.Median, Least: f.Min, Most: f.Max, N: f.N, Single: f.N == 1 && f.Evidence.IsTimed(),
		Few: f.N < bench.LeastRepeats && f.Evidence.IsTimed()}
	if f.Interval != nil {
		p.Least, p.Most = f.Interval[0], f.Interval[1]
	}
	return p
}

// addPoint appends a point. All points of a series have one kind of evidence.
func (s *Series) addPoint(p Point, kind bench.Evidence) error {
	if len(s.Points) > 0 && s.Kind != kind {
		return fmt.Errorf("of the series %q one value is %s, another %s", s.System, s.Kind, kind)
	}
	s.Kind = kind
	s.Points = append(s.Points, p)
	return nil
}

// scaled returns a point with all values multiplied, for another unit.
func scaled(p Point, by float64) Point {
	p.Y, p.Least, p.Most = p.Y*by, p.Least*by, p.Most*by
	if by < 0 {
		p.Least, p.Most = p.Most, p.Least
	}
	return p
}

// scaledSeries returns a series with all values multiplied.
func scaledSeries(s Series, by float64) Series {
	points := slices.Clone(s.Points)
	for i, p := range points {
		points[i] = scaled(p, by)
	}
	s.Points = points
	return s
}

// over returns a / b. Its spread is the widest that the two allow, and N the smaller one. A ratio of pairs that the benchmark
// has computed is better evidence than this.
func over(a, b Point) Point {
	p := computed(a, b)
	p.Y, p.Least, p.Most, p.Unit = a.Y/b.Y, a.Least/b.Most, a.Most/b.Least, "ratio"
	return p
}

// overPositive is over, with N = 0 if the spread of b contains 0: the ratio may then be anything.
func overPositive(a, b Point) Point {
	if b.Least <= 0 {
		return Point{}
	}
	return over(a, b)
}

// minus is a - b, with the widest spread that the two allow.
func minus(a, b Point) Point {
	p := computed(a, b)
	p.Y, p.Least, p.Most = a.Y-b.Y, a.Least-b.Most, a.Most-b.Least
	return p
}

// sum adds two values of one job.
func sum(a, b Point) Point {
	p := computed(a, b)
	p.Y, p.Least, p.Most = a.Y+b.Y, a.Least+b.Least, a.Most+b.Most
	return p
}

// computed returns a with the evidence of a value that is computed from a and b: its N is the smaller one.
func computed(a, b Point) Point {
	a.N, a.Single, a.Few = min(a.N, b.N), a.Single || b.Single, a.Few || b.Few
	return a
}

// at returns the value of a system at x. It has N = 0 if there is none: a check of it fails, and reports the missing value.
func (f *Figure) at(system string, x float64) Point {
	return f.findPoint(system, func(p Point) bool { return p.X == x })
}

// atLabel returns the value of a system at a label, as at does.
func (f *Figure) atLabel(system, label string) Point {
	return f.findPoint(system, func(p Point) bool { return p.Label == label })
}

func (f *Figure) findPoint(system string, is func(Point) bool) Point {
	if s := f.series(system); s != nil {
		if i := slices.IndexFunc(s.Points, is); i >= 0 {
			return s.Points[i]
		}
	}
	return Point{}
}

// series returns the series of a system, nil if there is none.
func (f *Figure) series(system string) *Series {
	i := slices.IndexFunc(f.Series, func(s Series) bool { return s.System == system })
	if i < 0 {
		return nil
	}
	return &f.Series[i]
}

// points returns the points of a system, in the order of x.
func (f *Figure) points(system string) []Point {
	s := f.series(system)
	if s == nil {
		return nil
	}
	return slices.SortedStableFunc(slices.Values(s.Points), func(a, b Point) int { return cmp.Compare(a.X, b.X) })
}

// paperAt returns the paper's value of a system at x, or at a label if that is not empty; false if it has none.
func (f *Figure) paperAt(system string, x float64, label string) (float64, bool) {
	for _, v := range f.Values {
		if v.System == system && v.Label == label && (label != "" || v.X == x) {
			return v.Y, true
		}
	}
	return 0, false
}
