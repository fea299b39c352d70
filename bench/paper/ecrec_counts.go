package paper

import "github.com/ecrec/ecrec/bench"

// ecrecCounts are the counts in the text of ECRec.
func ecrecCounts() []Drawing {
	return []Drawing{{ID: "E-traffic", Runs: sizeRuns, Draw: drawTraffic}}
}

// drawTraffic draws the rows of a batch and the shares of the neural network and of the rows (2.2, 3.3).
func drawTraffic(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	const set, model = "Criteo Terabyte", "E DLRM"
	for _, x := range countedStreams {
		s := Series{System: "DLRM, Terabyte, " + x.name}
		for i, q := range []struct {
			label, name, unit string
			of                []string
			less              bool // the share that is left of 100 %
		}{
			{"rows of a batch of 2,048", "rows of a batch", "rows", []string{"data", set, "stream", x.law}, false},
			{"rows, share of memory", "rows of memory", "%", []string{"model", model, "data", set}, false},
			{"rows, share of update traffic", "dense of the updates", "%", []string{"model", model, "data", set, "stream", x.law}, true},
			{"NN, share of update traffic", "dense of the updates", "%", []string{"model", model, "data", set, "stream", x.law}, false},
			{"NN over rows", "dense over rows", "ratio", []string{"model", model, "data", set, "stream", x.law}, false},
			{"floats of the NN", "dense parameters", "floats", []string{"model", model, "data", set}, false},
		} {
			p, kind, err := point(r, float64(i), q.label, q.name, q.of...)
			if err != nil {
				return err
			}
			if q.less {
				p.Y, p.Least, p.Most = 100-p.Y, 100-p.Most, 100-p.Least
			}
			p.Unit = q.unit
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		f.Series = append(f.Series, s)
		rows := f.atLabel(s.System, "rows of a batch of 2,048")
		f.Checks = append(f.Checks, near(x.name+": rows of a batch within 15 % of the paper's 8,900", rows, 8900, 0.15),
			above(x.name+": the NN is more of the updates than the rows are", f.atLabel(s.System, "NN, share of update traffic"),
				f.atLabel(s.System, "rows, share of update traffic")),
			atLeast(x.name+": rows are at least 99 % of memory", f.atLabel(s.System, "rows, share of memory"), 99))
	}
	return drawAvazu(f, r)
}

// drawAvazu adds the shares of two models with the tables of Avazu.
func drawAvazu(f *Figure, r *bench.Report) error {
	s := Series{System: "Avazu models"}
	for i, model := range []string{"E DLRM", "E DLRM, MLPerf"} {
		for k, x := range countedStreams {
			p, kind, err := point(r, float64(6+2*i+k), "NN, share of update traffic, "+model+", "+x.name, "dense of the updates", "model", model,
				"data", "Avazu", "stream", x.law)
			if err != nil {
				return err
			}
			p.Unit = "%"
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
			f.Checks = append(f.Checks, within("Avazu, "+model+", "+x.name+": the NN is 80 to 90 % of the updates", p, 80, 90))
		}
	}
	f.Series = append(f.Series, s)
	f.Params = append(f.Params, Param{"data", "Criteo Terabyte, 1/24; Avazu",
		"synthetic ids in tables of the sizes of all of Criteo Terabyte, and of Avazu"},
		Param{"batch", "2,048", r.Settings["batch"]}, Param{"Avazu models", "not described", "those for Criteo, with Avazu's features"})
	f.Notes = append(f.Notes, "The layers are those of the paper's public code. Updates are all dense parameters and the distinct rows "+
		"of a batch, 4 bytes a number, without optimizer state. Shares for every model and data set: ecrec bench sizes.")
	return nil
}
