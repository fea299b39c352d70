package paper

import "github.com/ecrec/ecrec/bench"

// openEmbeddingCounts are the popularities of OpenEmbedding's rows.
func openEmbeddingCounts() []Drawing {
	return []Drawing{
		{ID: "O-tab2", Runs: sharedRuns("table-2"), Draw: drawShares},
		{ID: "O10", Runs: sharedRuns("table-2", "table-2-more", "table-2-less"), Draw: drawPopularity},
	}
}

// sharedRuns count streams in equal tables: the paper's 2.1 billion rows divided by 200.
func sharedRuns(streams ...string) func(Size) []Run {
	return func(size Size) (runs []Run) {
		for _, s := range streams {
			args := []string{"stream=" + s, "tables=equal"}
			switch size {
			case Tiny: // the benchmark's tiny sizes
			case Quick:
				args = append(args, "batch=4096", "samples=819200", "batches=4")
			case Full:
				args = append(args, "batch=4096")
			}
			runs = append(runs, Run{Bench: "popularity", Args: args})
		}
		return runs
	}
}

// drawShares draws the lookups of the hottest rows (tab. II).
func drawShares(f *Figure, reports []*bench.Report) error {
	s, err := line(reports[0], "synthetic stream", "lookups", "hottest")
	if err != nil {
		return err
	}
	f.Series = []Series{s}
	describeShares(f, reports[0])
	return nil
}

// drawPopularity draws the three popularities of fig. 10.
func drawPopularity(f *Figure, reports []*bench.Report) error {
	names := []string{"fitted", "more skewed", "less skewed"}
	for i, name := range names {
		s, err := line(reports[i], name, "lookups", "hottest")
		if err != nil {
			return err
		}
		f.Series = append(f.Series, s)
	}
	f.Notes = append(f.Notes, "The paper's exponents are only in its picture. The shares of the two others are chosen here: "+
		"88, 91.5 and 97 %, and 83, 87.3 and 94.5 %, for the hottest 0.05, 0.1 and 1 %.")
	describeShares(f, reports[0])
	return nil
}

func describeShares(f *Figure, r *bench.Report) {
	f.Params = append(f.Params, Param{"rows", "2.1 billion", "10.5 million, in 26 tables of the same size"},
		Param{"samples", "private", r.Settings["samples"]})
	f.Notes = append(f.Notes, "The stream is made with these shares, so they agree by construction: the figure has no check. "+
		"Between the three points popularity is in proportion to 1/rank, which is an assumption. "+
		"Of few samples rare rows are missing: the shares of many rows are too high.")
}
