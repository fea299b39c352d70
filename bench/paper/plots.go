package paper

import (
	"cmp"
	"slices"

	"github.com/ecrec/ecrec/bench/chart"
)

// looks gives each system of a report a number, which decides its looks on all charts.
type looks map[string]int

// newLooks numbers the systems in the order in which the figures show them, ours before the paper's.
func newLooks(figures []*Figure) looks {
	l := looks{}
	add := func(system string) {
		if _, ok := l[system]; !ok {
			l[system] = len(l)
		}
	}
	for _, f := range figures {
		for _, s := range f.Series {
			add(s.System)
		}
	}
	for _, f := range figures {
		for _, v := range f.Values {
			add(v.System)
		}
	}
	return l
}

const (
	// mostMarkers is the number of values up to which a line has markers and its values have rows in the table.
	mostMarkers = 40
	// mostPoints is the number of values of a line that a chart draws.
	mostPoints = 1000
	// paperSuffix names the values of the paper in a legend.
	paperSuffix = " (paper)"
)

// mostCharts is the number of charts of a figure whose values have several units.
const mostCharts = 3

// listCharts returns the charts of a figure, one for each unit of our values, that of the axis first. It is empty without values of ours.
func (f *Figure) listCharts(l looks) (all []*chart.Chart) {
	units := []string{f.Y.Unit}
	for _, s := range f.Series {
		for _, p := range s.Points {
			if u := f.unitOf(p.Unit); !slices.Contains(units, u) {
				units = append(units, u)
			}
		}
	}
	for _, u := range units {
		if c := f.chartOf(l, u); c != nil && len(all) < mostCharts {
			all = append(all, c)
		}
	}
	return all
}

// chartOf returns the chart of the values of a unit, nil without values of ours.
func (f *Figure) chartOf(l looks, unit string) *chart.Chart {
	c := &chart.Chart{X: axisLabel(f.X), Y: axisLabel(f.Y), Bars: f.Bars}
	if unit != f.Y.Unit {
		c.Y = chart.Axis{Label: unit}
	}
	for _, s := range f.Series {
		line := chart.Series{Name: s.System, Number: l[s.System], Dashed: s.Dashed, Plain: len(s.Points) > mostMarkers}
		for _, p := range s.Points {
			if f.isPlotted(unit, p.Unit, p.Label, p.X) {
				line.Points = append(line.Points, chart.Point{X: p.X, Label: p.Label, Y: p.Y, Least: p.Least, Most: p.Most})
			}
		}
		if !f.Bars {
			slices.SortStableFunc(line.Points, func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
			line.Points = thinPoints(line.Points)
		}
		if len(line.Points) > 0 {
			c.Series = append(c.Series, line)
		}
	}
	if len(c.Series) == 0 {
		return nil
	}
	c.Series = append(c.Series, f.paperSeries(l, unit)...)
	return c
}

// isPlotted reports whether a value has a place on the chart of a unit: bars have labels, lines an x. On a line a label with x = 0 is
// that of a value beside the line.
func (f *Figure) isPlotted(chart, unit, label string, x float64) bool {
	return f.unitOf(unit) == chart && (f.Bars && label != "" || !f.Bars && (label == "" || x != 0))
}

// paperSeries returns the paper's values of a unit, a series for each system.
func (f *Figure) paperSeries(l looks, unit string) (all []chart.Series) {
	for _, v := range f.Values {
		if !f.isPlotted(unit, v.Unit, v.Label, v.X) {
			continue
		}
		i := slices.IndexFunc(all, func(s chart.Series) bool { return s.Name == v.System })
		if i < 0 {
			all = append(all, chart.Series{Name: v.System, Number: l[v.System], Hollow: true})
			i = len(all) - 1
		}
		all[i].Points = append(all[i].Points, chart.Point{X: v.X, Label: v.Label, Y: v.Y, Least: v.Y, Most: v.Y})
	}
	return all
}

// thinPoints returns the last point and evenly spaced ones before it.
func thinPoints(points []chart.Point) []chart.Point {
	every := (len(points) + mostPoints - 1) / mostPoints
	if every < 2 {
		return points
	}
	var kept []chart.Point
	for i := (len(points) - 1) % every; i < len(points); i += every {
		kept = append(kept, points[i])
	}
	return kept
}

func axisLabel(a Axis) chart.Axis {
	label := a.Name
	if a.Unit != "" {
		label += " (" + a.Unit + ")"
	}
	return chart.Axis{Label: label, Log: a.Log}
}
