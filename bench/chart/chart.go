package chart

import (
	"errors"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Chart holds the values, and how they are drawn.
type Chart struct {
	X, Y Axis
	// Bars reports whether values are groups of bars, one group for each label, in place of lines over x.
	Bars   bool
	Series []Series
	// Marks are vertical lines at moments of a time axis.
	Marks []Mark
}

// Axis is an axis with its label.
type Axis struct {
	Label string
	Log   bool
}

// Series is the values of one system.
type Series struct {
	Name   string
	Number int // decides its looks
	Hollow bool
	Dashed bool
	Steps  bool // a value holds until the next one
	Plain  bool // a line without markers
	Points []Point
}

// Point is a value with its spread.
type Point struct {
	X              float64
	Label          string
	Y, Least, Most float64
}

// Mark is a vertical line.
type Mark struct {
	Name   string
	Number int
	X      float64
}

// errNothing is the error for a chart without values.
var errNothing = errors.New("chart: there are no values to draw")

// labels returns the labels of the groups of bars, in the order of the series' points.
func (c *Chart) labels() (all []string) {
	for _, s := range c.Series {
		for _, p := range s.Points {
			if !slices.Contains(all, p.Label) {
				all = append(all, p.Label)
			}
		}
	}
	return all
}

// eachPoint calls a function for each point and its place on the x axis.
func (c *Chart) eachPoint(f func(x float64, p Point)) {
	labels := c.labels()
	for _, s := range c.Series {
		for _, p := range s.Points {
			x := p.X
			if c.Bars {
				x = float64(slices.Index(labels, p.Label))
			}
			f(x, p)
		}
	}
}

// places returns the x of all points, in order.
func (c *Chart) places() (all []float64) {
	c.eachPoint(func(x float64, _ Point) { all = append(all, x) })
	slices.Sort(all)
	return slices.Compact(all)
}

// bounds are the ranges of the axes, and whether they are logarithmic.
type bounds struct {
	x0, x1, y0, y1 float64
	logX, logY     bool
}

// findBounds computes the ranges.
func (c *Chart) findBounds() (b bounds, err error) {
	b = bounds{x0: math.Inf(1), x1: math.Inf(-1), y0: math.Inf(1), y1: math.Inf(-1)}
	c.eachPoint(func(x float64, p Point) {
		b.x0, b.x1 = min(b.x0, x), max(b.x1, x)
		b.y0, b.y1 = min(b.y0, p.Y, p.Least), max(b.y1, p.Y, p.Most)
	})
	for _, v := range []float64{b.x0, b.x1, b.y0, b.y1} {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return b, errNothing
		}
	}
	b.logX, b.logY = c.X.Log && b.x0 > 0 && !c.Bars, c.Y.Log && b.y0 > 0
	b.y0, b.y1 = niceRange(b.y0, b.y1, b.logY, c.Bars)
	switch {
	case c.Bars:
		b.x0, b.x1 = -0.5, b.x1+0.5
	case b.x0 == b.x1 && b.logX:
		b.x0, b.x1 = b.x0/2, b.x1*2
	case b.x0 == b.x1:
		b.x0, b.x1 = b.x0-1, b.x1+1
	case b.logX:
		b.x0, b.x1 = b.x0/1.1, b.x1*1.1
	default:
		margin := 0.02 * (b.x1 - b.x0)
		if len(c.Marks) > 0 || c.isTimeline() {
			margin = 0
		}
		b.x0, b.x1 = b.x0-margin, b.x1+margin
	}
	return b, nil
}

// isTimeline reports whether all series are plain lines.
func (c *Chart) isTimeline() bool {
	return !slices.ContainsFunc(c.Series, func(s Series) bool { return !s.Plain })
}

// niceRange widens the range of the y axis. It contains zero if the values are not far from it.
func niceRange(low, high float64, isLog, bars bool) (float64, float64) {
	if isLog {
		return low / 1.5, high * 1.5
	}
	if low > 0 && (bars || low < 0.6*high) {
		low = 0
	}
	if high < 0 && (bars || high > 0.6*low) {
		high = 0
	}
	if low == high {
		low, high = low-1, high+1
	}
	margin := 0.06 * (high - low)
	if low != 0 {
		low -= margin
	}
	if high != 0 {
		high += margin
	}
	return low, high
}

const fontSize = 12

// build returns the plot of a chart in some colours.
func (c *Chart) build(p palette, width vg.Length) (*plot.Plot, error) {
	b, err := c.findBounds()
	if err != nil {
		return nil, err
	}
	g := plot.New()
	g.BackgroundColor = nil
	face := font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, fontSize)
	for _, a := range []*plot.Axis{&g.X, &g.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = face, face
		a.Label.TextStyle.Color, a.Tick.Label.Color = p.ink, p.muted
		a.Color, a.Tick.Color = p.muted, p.muted
		a.Width, a.Tick.Width, a.Tick.Length = 0.75, 0.75, 4
		a.Padding = 0
		a.Label.Padding = 4
	}
	g.X.Label.Text, g.Y.Label.Text = wrapText(c.X.Label, 90), wrapText(c.Y.Label, 40)
	g.X.Min, g.X.Max, g.Y.Min, g.Y.Max = b.x0, b.x1, b.y0, b.y1
	g.Y.Width, g.Y.Tick.Length = 0, 0 // the grid shows the values
	g.X.Tick.Marker, g.Y.Tick.Marker = ticker{b.logX}, ticker{b.logY}
	if b.logX {
		g.X.Scale = plot.LogScale{}
	}
	if b.logY {
		g.Y.Scale = plot.LogScale{}
	}
	g.Add(grid{p})
	if c.Bars {
		labels := c.labels()
		g.X.Tick.Marker = labelTicks(labels, width)
		g.X.Tick.Color = color.Transparent // the labels have a distance from the axis
		g.Add(bars{c, p, labels})
		return g, nil
	}
	if !c.isTimeline() {
		g.X.Tick.Marker = placeTicks(c.places(), g.X)
	}
	for _, m := range c.Marks {
		g.Add(markLine{m, p})
	}
	for _, s := range c.Series {
		g.Add(lines{s, p})
	}
	return g, nil
}

// grid draws a line at each labelled value of y, and a stronger one at zero.
type grid struct{ palette }

// Plot implements plot.Plotter.
func (g grid) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		style := draw.LineStyle{Color: g.grid, Width: 0.75}
		if t.IsMinor() || t.Value < p.Y.Min || t.Value > p.Y.Max {
			continue
		}
		if t.Value == 0 {
			style.Color = g.muted
		}
		c.StrokeLine2(style, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
}
