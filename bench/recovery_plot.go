package bench

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// plotThroughput draws the samples per second of each step over the time of a run, replayed steps
// included, with a line at each loss and at the end of each rebuild.
func plotThroughput(path, title string, r jobRun) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "seconds", "samples per second"
	begin := r.steps[0].UnixMS
	var points plotter.XYs
	var rates []float64
	for i, s := range r.steps[1:] {
		if y := r.throughput(i, i+2); y > 0 { // two steps of one millisecond are drawn as one
			points = append(points, plotter.XY{X: float64(r.steps[i].UnixMS-begin) / 1e3, Y: y}, plotter.XY{X: float64(s.UnixMS-begin) / 1e3, Y: y})
			rates = append(rates, y)
		}
	}
	top := 2 * figure("", "", rates).Median
	rate, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	p.Add(rate)
	p.Y.Min, p.Y.Max, p.Legend.Top = 0, top, true
	for i := range r.Recoveries {
		x := &r.Recoveries[i]
		lost := float64(r.steps[max(0, r.lossOf(x)-1)].UnixMS-begin) / 1e3
		for _, at := range []struct {
			name    string
			seconds float64
			color   color.RGBA
		}{{"loss", lost, color.RGBA{R: 200, A: 255}}, {"rebuilt", lost + x.WholeMS/1e3, color.RGBA{G: 150, A: 255}}} {
			line, err := plotter.NewLine(plotter.XYs{{X: at.seconds}, {X: at.seconds, Y: top}})
			if err != nil {
				return err
			}
			line.Color = at.color
			p.Add(line)
			if i == 0 {
				p.Legend.Add(at.name, line)
			}
		}
	}
	return p.Save(24*vg.Centimeter, 10*vg.Centimeter, path)
}
