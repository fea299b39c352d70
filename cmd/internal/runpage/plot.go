package runpage

import (
	"bytes"
	"html/template"
	"image/color"
	"maps"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/ecrec/ecrec/cmd/internal/rundir"
)

const (
	width, height = 24 * vg.Centimeter, 9 * vg.Centimeter
	// mostPoints is the number of points of a curve that are drawn, evenly spaced if it has more.
	mostPoints  = 1000
	legendWidth = 6 * vg.Centimeter
)

var lossColor = color.Gray{Y: 64}

// curve is a line of a plot, with dots if it has few values.
type curve struct {
	name string
	xys  plotter.XYs
	dots bool
}

// draw draws curves over the steps, with a line at each loss. It returns an empty plot if no curve
// has a point.
func draw(label string, losses []int64, curves ...curve) (template.HTML, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "step", label
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs = true, true, width-legendWidth // names are next to their lines, for any width of the font
	drawn := false
	for i, c := range curves {
		if len(c.xys) == 0 {
			continue
		}
		drawn = true
		line, dots, err := plotter.NewLinePoints(thin(c.xys))
		if err != nil {
			return "", err
		}
		line.Color, dots.Color = plotutil.Color(i), plotutil.Color(i)
		line.Dashes = plotutil.Dashes(i / len(plotutil.DefaultColors)) // dashes distinguish repeated colors
		if p.Add(line); c.dots {
			p.Add(dots)
		}
		p.Legend.Add(c.name, line)
	}
	if !drawn {
		return "", nil
	}
	for i, step := range losses {
		line, err := plotter.NewLine(plotter.XYs{{X: float64(step), Y: p.Y.Min}, {X: float64(step), Y: p.Y.Max}})
		if err != nil {
			return "", err
		}
		line.Color, line.Dashes = lossColor, []vg.Length{vg.Points(4), vg.Points(3)}
		if p.Add(line); i == 0 {
			p.Legend.Add("loss of ranks", line)
		}
	}
	canvas := vgsvg.New(width, height)
	p.Draw(vgdraw.New(canvas))
	var text bytes.Buffer
	if _, err := canvas.WriteTo(&text); err != nil {
		return "", err
	}
	_, svg, _ := bytes.Cut(text.Bytes(), []byte("<svg")) // without the XML header
	return template.HTML(append([]byte("<svg"), svg...)), nil
}

// thin returns the last point and evenly spaced ones before it.
func thin(xys plotter.XYs) plotter.XYs {
	every := (len(xys) + mostPoints - 1) / mostPoints
	var kept plotter.XYs
	for i := (len(xys) - 1) % every; i < len(xys); i += every {
		kept = append(kept, xys[i])
	}
	return kept
}

// Curves of a run.
func trainLoss(s *rundir.Series) (xys plotter.XYs) {
	for _, p := range s.Points {
		if p.Loss != nil {
			xys = append(xys, plotter.XY{X: float64(p.Step), Y: *p.Loss})
		}
	}
	return xys
}

func evals(s *rundir.Series, value func(rundir.Eval) *float64) (xys plotter.XYs) {
	for _, e := range s.Evals {
		if v := value(e); v != nil {
			xys = append(xys, plotter.XY{X: float64(e.Step), Y: *v})
		}
	}
	return xys
}

func rate(s *rundir.Series) (xys plotter.XYs) {
	for _, p := range s.Points {
		xys = append(xys, plotter.XY{X: float64(p.Step), Y: *p.SamplesPerS})
	}
	return xys
}

func stages(s *rundir.Series) (all []curve) {
	by := map[string]plotter.XYs{}
	for _, p := range s.Points {
		for stage, ms := range p.StageMS {
			by[stage] = append(by[stage], plotter.XY{X: float64(p.Step), Y: ms})
		}
	}
	for _, stage := range slices.Sorted(maps.Keys(by)) {
		all = append(all, curve{name: stage, xys: by[stage]})
	}
	return all
}
