package paper

import (
	"errors"
	"fmt"

	"github.com/ecrec/ecrec/bench"
)

// overTime draws a quantity over time on 8S.
func overTime(f *Figure, r *bench.Report, minutes int, quantity string) error {
	for _, s := range []ecrecSystem{{"no fault tolerance", []string{"system", "noft"}}, oursOf(2, everyOf(r)), oursOf(4, everyOf(r)),
		checkpointsOf(minutes)} {
		x, err := line(r, s.name, quantity, "at", append([]string{"size", "8S"}, s.of...)...)
		if err != nil {
			return err
		}
		f.Series = append(f.Series, x)
	}
	f.Params = shapedParams(r)
	f.Notes = append(f.Notes, saves...)
	f.Notes = append(f.Notes, "Each curve is the blocks of its system end to end. Each block follows one without protection in the same job. "+
		"The checkpoints and the curve without fault tolerance are of the job with k = 2; k = 4 is another job. So checks compare what each "+
		"system keeps of the throughput of the blocks beside its own, and no curve with another one. Blocks of the code have at least 20 steps, "+
		"so curves differ in length. Steps do not shrink with the scale, so a window of ours has fewer of them than one of the paper.")
	return nil
}

func drawOverTime(minutes int) func(*Figure, []*bench.Report) error {
	return func(f *Figure, reports []*bench.Report) error {
		r := reports[0]
		if err := overTime(f, r, minutes, "throughput"); err != nil {
			return err
		}
		system := fmt.Sprintf("Ckpt-%d", minutes)
		if err := addMeans(f, r, minutes); err != nil {
			return err
		}
		stands, err := standsStill(f, r, minutes)
		if err != nil {
			return err
		}
		k, err := keptOn8S(r, minutes)
		if err != nil {
			return err
		}
		f.Checks = []Check{stands, atLeast("k=4 keeps at least 70 % of the throughput of the blocks beside it", k.code, 70)}
		if minutes == 30 {
			f.Checks = append(f.Checks, k.less(system+" keeps less of its throughput than k=4")...)
		} else {
			f.Checks = append(f.Checks, k.close(system+" keeps as much of its throughput as k=4, within 25 %")...)
		}
		return nil
	}
}

// addMeans adds the mean of each curve.
func addMeans(f *Figure, r *bench.Report, minutes int) error {
	for _, s := range []ecrecSystem{{"no fault tolerance", []string{"system", "noft"}}, oursOf(2, everyOf(r)), oursOf(4, everyOf(r)),
		checkpointsOf(minutes)} {
		p, kind, err := point(r, 0, "", "mean throughput", append([]string{"size", "8S"}, s.of...)...)
		if err != nil {
			return err
		}
		points := f.points(s.name)
		end := p
		p.X, end.X = points[0].X, points[len(points)-1].X
		f.Series = append(f.Series, Series{System: s.name + ", mean", Kind: kind, Dashed: true, Points: []Point{p, end}})
	}
	return nil
}

func byValue(a, b Point) int {
	switch {
	case a.Y < b.Y:
		return -1
	case a.Y > b.Y:
		return 1
	}
	return 0
}

func drawDone(minutes int) func(*Figure, []*bench.Report) error {
	return func(f *Figure, reports []*bench.Report) error {
		if err := overTime(f, reports[0], minutes, "samples done"); err != nil {
			return err
		}
		k, err := keptOn8S(reports[0], minutes)
		if err != nil {
			return err
		}
		if minutes == 30 {
			f.Checks = k.less("Ckpt-30 does fewer samples than k=4 in equal time, each over its blocks without protection")
		} else {
			f.Checks = k.close("Ckpt-60 does as many samples as k=4 in equal time, each over its blocks without protection, within 25 %")
		}
		return nil
	}
}

// kept is the throughput of systems, in % of that of the blocks without protection beside them.
type kept struct {
	code, saved Point
	byRate      Point // of checkpoints by the bytes and the rate of the store; N = 0 without a rate
}

// keptOn8S returns what k=4 and checkpoints keep on 8S.
func keptOn8S(r *bench.Report, minutes int) (k kept, err error) {
	of := func(s ecrecSystem) Point {
		p, _, e := point(r, 0, "", "overhead", append([]string{"size", "8S"}, s.of...)...)
		err = errors.Join(err, e)
		return keptOf(p)
	}
	k.code, k.saved = of(oursOf(4, everyOf(r))), of(checkpointsOf(minutes))
	if hasStore(r) {
		p, e := byRate(r, 0, "8S", minutes)
		k.byRate, err = keptOf(p), errors.Join(err, e)
	}
	return k, err
}

// keptOf returns the throughput that an overhead leaves, in % of that without it.
func keptOf(overhead Point) Point {
	of := func(percent float64) float64 { return 100 / (1 + percent/100) }
	p := overhead
	p.Y, p.Least, p.Most = of(overhead.Y), of(overhead.Most), of(overhead.Least)
	return p
}

const byBytes = ", by the bytes of the rows and the rate of the store"

// less checks that checkpoints keep less than the code.
func (k kept) less(text string) []Check {
	return k.compareSaved(text, func(text string, saved Point) Check { return below(text, saved, k.code) })
}

// close checks that checkpoints keep as much as the code, within 25 %.
func (k kept) close(text string) []Check {
	return k.compareSaved(text, func(text string, saved Point) Check { return within(text, over(saved, k.code), 0.75, 1.25) })
}

func (k kept) compareSaved(text string, check func(text string, saved Point) Check) []Check {
	checks := []Check{check(text, k.saved)}
	if k.byRate.N > 0 {
		checks = append(checks, check(text+byBytes, k.byRate))
	}
	return checks
}
