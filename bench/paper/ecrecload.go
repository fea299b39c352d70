package paper

import "github.com/ecrec/ecrec/bench"

// ecrecLoad is the balance of updates over the servers (E, 5.2).
func ecrecLoad() []Drawing {
	return []Drawing{{ID: "E-load", Runs: loadRuns, Draw: drawLoad}}
}

func loadRuns(size Size) []Run {
	runs := []Run{{Bench: "load", Args: []string{"ranks=5", "k=2"}}, {Bench: "load", Args: []string{"ranks=5", "k=4"}},
		{Bench: "load", Args: []string{"ranks=5", "k=2", "stream=bursts"}}, {Bench: "load", Args: []string{"ranks=5", "k=4", "stream=bursts"}}}
	if size == Full {
		for i := range runs {
			runs[i].Args = append(runs[i].Args, "commits=20")
		}
	}
	return runs
}

// drawLoad draws the load of each way to spread rows: without a code, and with a delta for each update, as published.
func drawLoad(f *Figure, reports []*bench.Report) error {
	const name = "greatest to least"
	for _, x := range []struct {
		system, rows, deltas string
		first                int // report of its stream
	}{
		{"ranges of rows", "ranges", "each update", 0},
		{"rows in turn (ecrec)", "in turn", "each commit", 0},
		{"ranges of rows, ids in bursts", "ranges", "each update", 2},
		{"rows in turn (ecrec), ids in bursts", "in turn", "each commit", 2},
	} {
		s := Series{System: x.system}
		for i, bar := range []struct {
			label, deltas string
			report        int
		}{{"no code", "none", 0}, {"k=2", x.deltas, 0}, {"k=4", x.deltas, 1}} {
			p, kind, err := point(reports[x.first+bar.report], float64(i), bar.label, name, "rows", x.rows, "deltas", bar.deltas)
			if err != nil {
				return err
			}
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		f.Series = append(f.Series, s)
	}
	bare := f.atLabel("ranges of rows", "no code")
	f.Checks = []Check{
		below("ranges: k=4 is better balanced than no code", f.atLabel("ranges of rows", "k=4"), bare),
		below("ranges: k=2 is better balanced than no code", f.atLabel("ranges of rows", "k=2"), bare),
		all("rows in turn: at most 1.05 with and without a code", atMost("", f.atLabel("rows in turn (ecrec)", "no code"), 1.05),
			atMost("", f.atLabel("rows in turn (ecrec)", "k=2"), 1.05), atMost("", f.atLabel("rows in turn (ecrec)", "k=4"), 1.05)),
	}
	bursts := f.atLabel("ranges of rows, ids in bursts", "no code")
	f.Checks = append(f.Checks,
		below("ranges, bursts: k=4 is better balanced than no code", f.atLabel("ranges of rows, ids in bursts", "k=4"), bursts),
		below("ranges, bursts: k=2 is better balanced than no code", f.atLabel("ranges of rows, ids in bursts", "k=2"), bursts))
	f.Params = []Param{
		{"data", "Criteo Terabyte, 1/24", "synthetic Criteo Kaggle, independent draws and bursts"},
		{"servers", "5", "5 ranks"},
		{"batch", "2,048 a worker, 15 workers", "2,048 in all"},
		{"stripes of k=2", "k + r need not divide the servers", "a group of 3 ranks, and a short one of 2"},
	}
	f.Notes = append(f.Notes, "Rows in turn are ecrec's own spread, with the deltas of its commits. The stream is synthetic: its "+
		"skew over the ranges is stronger than the paper's, so only the direction can be compared.")
	return nil
}
