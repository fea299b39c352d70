package paper

import "github.com/ecrec/ecrec/bench"

// drawCompression computes the overhead of compressed checkpoints, as the paper does.
func drawCompression(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	ours, _, err := point(r, 0, "", "overhead", append([]string{"size", "8S"}, oursOf(4, everyOf(r)).of...)...)
	if err != nil {
		return err
	}
	var meets Point
	for _, minutes := range []int{30, 60} {
		s := checkpointsOf(minutes)
		p, _, err := point(r, 0, "", "overhead", append([]string{"size", "8S"}, s.of...)...)
		if err != nil {
			return err
		}
		x := Series{System: s.name, Kind: bench.Modelled}
		for percent := 0; percent <= 100; percent += 10 {
			q := scaled(p, 1-float64(percent)/100)
			q.X = float64(percent)
			x.Points = append(x.Points, q)
		}
		f.Series = append(f.Series, x)
		if minutes == 30 {
			meets = meetAt(ours, p)
		}
	}
	flat := Series{System: "ecrec k=4", Kind: bench.Modelled}
	for _, x := range []float64{0, 100} {
		ours.X = x
		flat.Points = append(flat.Points, ours)
	}
	f.Series = append(f.Series, flat)
	const text = "Ckpt-30 costs as much as the code only if it is compressed by more than 60 %"
	f.Checks = []Check{atLeast(text, meets, 60)}
	if hasStore(r) {
		p, err := byRate(r, 0, "8S", 30)
		if err != nil {
			return err
		}
		f.Checks = append(f.Checks, atLeast(text+byBytes, meetAt(ours, p), 60))
	}
	f.Params = shapedParams(r)
	f.Notes = append(f.Notes, "Computed, as in the paper: the overhead of fig. 5 on 8S less the compressed share. Compressing is "+
		"free here, and no loss of precision is counted: both favour checkpoints. No checkpoint of ecrec is compressed, so no point of "+
		"this figure is measured.")
	return nil
}

// meetAt is the compression, in %, at which a checkpoint costs as much as the code.
func meetAt(code, saved Point) Point {
	if saved.Least <= 0 || code.N == 0 {
		return Point{}
	}
	p := over(code, saved)
	return Point{Y: 100 * (1 - p.Y), Least: 100 * (1 - p.Most), Most: 100 * (1 - p.Least), N: p.N, Single: p.Single, Few: p.Few, Unit: "%"}
}
