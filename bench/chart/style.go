package chart

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colors are the number of colours of series.
const Colors = 8

// palette has the colours of a chart.
type palette struct {
	ink, muted, grid, paper color.Color
	series                  [Colors]color.Color
}

// onPage has colours that inline replaces by variables of CSS.
var onPage = func() palette {
	p := palette{ink: color.RGBA{2, 0, 0, 255}, muted: color.RGBA{2, 0, 1, 255}, grid: color.RGBA{2, 0, 2, 255}, paper: color.RGBA{2, 0, 3, 255}}
	for i := range p.series {
		p.series[i] = color.RGBA{1, 0, uint8(i), 255}
	}
	return p
}()

// inFile has the colours of files: those of a page in the light scheme. The series are Okabe and Ito's, readable for the colour-blind;
// yellow is darker, so that lines show on white.
var inFile = palette{
	ink: color.RGBA{26, 26, 26, 255}, muted: color.RGBA{107, 107, 107, 255}, grid: color.RGBA{226, 226, 226, 255},
	paper: color.RGBA{255, 255, 255, 255},
	series: [Colors]color.Color{
		color.RGBA{0, 94, 162, 255}, color.RGBA{200, 80, 0, 255}, color.RGBA{0, 128, 96, 255}, color.RGBA{170, 70, 130, 255},
		color.RGBA{150, 115, 0, 255}, color.RGBA{60, 140, 200, 255}, color.RGBA{90, 90, 90, 255}, color.RGBA{110, 60, 200, 255},
	},
}

func (p palette) colorOf(number int) color.Color { return p.series[number%Colors] }

// dashes are the patterns of lines. Their number and that of the markers have no common factor with each other or with Colors, or share
// only few, so that two series of one colour differ.
var dashes = [][]vg.Length{nil, {7, 3}, {2, 2}, {9, 3, 2, 3}, {4, 2}}

// shapes are the corners of markers, as multiples of the radius.
var shapes = [][]vg.Point{
	nil, // a circle
	{{X: -0.9, Y: -0.9}, {X: 0.9, Y: -0.9}, {X: 0.9, Y: 0.9}, {X: -0.9, Y: 0.9}},
	{{X: 0, Y: 1.3}, {X: 1.2, Y: -0.8}, {X: -1.2, Y: -0.8}},
	{{X: 0, Y: 1.35}, {X: 1.35, Y: 0}, {X: 0, Y: -1.35}, {X: -1.35, Y: 0}},
	{{X: 0, Y: -1.3}, {X: 1.2, Y: 0.8}, {X: -1.2, Y: 0.8}},
	{{X: 0.4, Y: 1.2}, {X: 0.4, Y: 0.4}, {X: 1.2, Y: 0.4}, {X: 1.2, Y: -0.4}, {X: 0.4, Y: -0.4}, {X: 0.4, Y: -1.2}, {X: -0.4, Y: -1.2},
		{X: -0.4, Y: -0.4}, {X: -1.2, Y: -0.4}, {X: -1.2, Y: 0.4}, {X: -0.4, Y: 0.4}, {X: -0.4, Y: 1.2}},
	{{X: 0, Y: 1.25}, {X: 1.2, Y: 0.4}, {X: 0.75, Y: -1}, {X: -0.75, Y: -1}, {X: -1.2, Y: 0.4}},
}

// Patterns of bars.
const (
	solid = iota
	rising
	level
	falling
	upright
	patterns
)

const markerRadius = 3.6

// drawMarker draws the marker of a series, hollow for a paper's value.
func (p palette) drawMarker(c *draw.Canvas, number int, hollow bool, at vg.Point) {
	const r = vg.Length(markerRadius)
	var path vg.Path
	if corners := shapes[number%len(shapes)]; corners == nil {
		path.Move(vg.Point{X: at.X + r, Y: at.Y})
		path.Arc(at, r, 0, 2*3.141592653589793)
	} else {
		for i, corner := range corners {
			to := vg.Point{X: at.X + r*corner.X, Y: at.Y + r*corner.Y}
			if i == 0 {
				path.Move(to)
			} else {
				path.Line(to)
			}
		}
	}
	path.Close()
	fill := p.colorOf(number)
	if hollow {
		fill = p.paper
	}
	c.SetColor(fill)
	c.Fill(path)
	c.SetLineStyle(draw.LineStyle{Color: p.colorOf(number), Width: 1.3})
	c.Stroke(path)
}

// lineStyle is the style of the line of a series.
func (p palette) lineStyle(s Series) draw.LineStyle {
	style := draw.LineStyle{Color: p.colorOf(s.Number), Width: 1.6, Dashes: dashes[s.Number%len(dashes)]}
	if s.Dashed {
		style.Dashes, style.Width = []vg.Length{1.5, 3}, 1.3
	}
	return style
}
