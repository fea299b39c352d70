package chart

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// lines draws a series over x: a line, the spreads, the markers. A hollow series has markers alone.
type lines struct {
	Series
	palette
}

// Plot implements plot.Plotter.
func (l lines) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	var path []vg.Point
	for i, v := range l.Points {
		at := vg.Point{X: toX(v.X), Y: toY(v.Y)}
		if i > 0 && l.Steps {
			path = append(path, vg.Point{X: at.X, Y: path[len(path)-1].Y})
		}
		path = append(path, at)
	}
	if !l.Hollow {
		c.StrokeLines(l.lineStyle(l.Series), c.ClipLinesXY(path)...)
	}
	if l.Plain {
		return
	}
	for _, v := range l.Points {
		l.drawSpread(&c, toX(v.X), toY(v.Least), toY(v.Most), l.Number)
	}
	for _, v := range l.Points {
		l.drawMarker(&c, l.Number, l.Hollow, vg.Point{X: toX(v.X), Y: toY(v.Y)})
	}
}

// drawSpread draws the whisker from the least to the greatest value.
func (p palette) drawSpread(c *draw.Canvas, x, least, most vg.Length, number int) {
	if most-least < 0.5 {
		return
	}
	const cap = 3
	style := draw.LineStyle{Color: p.colorOf(number), Width: 1}
	c.StrokeLine2(style, x, least, x, most)
	c.StrokeLine2(style, x-cap, least, x+cap, least)
	c.StrokeLine2(style, x-cap, most, x+cap, most)
}

// markLine draws a vertical line.
type markLine struct {
	Mark
	palette
}

// Plot implements plot.Plotter.
func (m markLine) Plot(c draw.Canvas, p *plot.Plot) {
	toX, _ := p.Transforms(&c)
	x := toX(m.X)
	c.StrokeLine2(draw.LineStyle{Color: m.colorOf(m.Number), Width: 1.2, Dashes: dashes[m.Number%len(dashes)]}, x, c.Min.Y, x, c.Max.Y)
}

// bars draws groups of bars, a hollow marker for a paper's value, and the spreads.
type bars struct {
	*Chart
	palette
	groups []string
}

// Plot implements plot.Plotter.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	var systems []string // those with bars or values: each has a place in every group
	for _, s := range b.Series {
		if !slices.Contains(systems, s.Name) {
			systems = append(systems, s.Name)
		}
	}
	base := toY(max(p.Y.Min, min(0, p.Y.Max)))
	for _, s := range b.Series {
		for _, v := range s.Points {
			group := slices.Index(b.groups, v.Label)
			here := b.inGroup(v.Label, systems)
			width := 0.78 / float64(max(2, len(here)))
			middle := float64(group) + width*(float64(slices.Index(here, s.Name))-float64(len(here)-1)/2)
			x, y := toX(middle), toY(v.Y)
			if s.Hollow {
				b.drawMarker(&c, s.Number, true, vg.Point{X: x, Y: y})
				continue
			}
			half := (toX(middle+width/2) - x) * 0.92
			b.drawBar(&c, s.Number, vg.Rectangle{Min: vg.Point{X: x - half, Y: min(base, y)}, Max: vg.Point{X: x + half, Y: max(base, y)}})
			spread := b.palette
			spread.series[s.Number%Colors] = b.ink
			spread.drawSpread(&c, x, toY(v.Least), toY(v.Most), s.Number)
		}
	}
}

// inGroup returns the systems that have a value in a group, in their order.
func (b bars) inGroup(label string, systems []string) (here []string) {
	for _, name := range systems {
		if slices.ContainsFunc(b.Series, func(s Series) bool {
			return s.Name == name && slices.ContainsFunc(s.Points, func(p Point) bool { return p.Label == label })
		}) {
			here = append(here, name)
		}
	}
	return here
}

// drawBar draws a bar: filled, or hatched on the background.
func (p palette) drawBar(c *draw.Canvas, number int, r vg.Rectangle) {
	color, pattern := p.colorOf(number), number%patterns
	fill := color
	if pattern != solid {
		fill = p.paper
	}
	corners := []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}}
	c.FillPolygon(fill, corners)
	style := draw.LineStyle{Color: color, Width: 1.2}
	for _, l := range hatch(pattern, r) {
		c.StrokeLines(style, l)
	}
	c.StrokeLines(style, append(corners, r.Min))
}

// hatch returns the lines of a pattern within a rectangle.
func hatch(pattern int, r vg.Rectangle) (all [][]vg.Point) {
	const gap = 4.5
	w, h := r.Max.X-r.Min.X, r.Max.Y-r.Min.Y
	switch pattern {
	case level:
		for y := r.Min.Y + gap; y < r.Max.Y; y += gap {
			all = append(all, []vg.Point{{X: r.Min.X, Y: y}, {X: r.Max.X, Y: y}})
		}
	case upright:
		for x := r.Min.X + gap; x < r.Max.X; x += gap {
			all = append(all, []vg.Point{{X: x, Y: r.Min.Y}, {X: x, Y: r.Max.Y}})
		}
	case rising, falling:
		for d := vg.Length(gap); d < w+h; d += gap * 1.4 { // x + y = d, cut at the sides
			from, to := vg.Point{X: max(0, d-h), Y: min(d, h)}, vg.Point{X: min(d, w), Y: max(0, d-w)}
			if pattern == rising {
				from.X, to.X = w-from.X, w-to.X
			}
			all = append(all, []vg.Point{{X: r.Min.X + from.X, Y: r.Min.Y + from.Y}, {X: r.Min.X + to.X, Y: r.Min.Y + to.Y}})
		}
	}
	return all
}
