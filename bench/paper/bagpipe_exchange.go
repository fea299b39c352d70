package paper

import (
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/bench"
)

// bagPipeExchange are the figures of BagPipe that compare times of an iteration with those of other systems (B, 5.2 and 5.3).
func bagPipeExchange() []Drawing {
	return []Drawing{
		{ID: "B2", Runs: runsOf(dlrmP3, deepfmP3), Draw: drawB2},
		{ID: "B7", Runs: func(size Size) []Run { return append(runsOf(dlrmP3, placedP3)(size), cacheRunsOf(size)...) }, Draw: drawB7},
		{ID: "B9", Runs: runsOf(dlrmP3, wdlP3), Draw: drawB9},
		{ID: "B10", Runs: runsOf(dlrmP3, wdlP3, dcnP3, deepfmP3, deepfmRowP3), Draw: drawB10},
		{ID: "B11", Runs: runsOf(dlrmP3, dlrmG5, deepfmP3, deepfmG5), Draw: drawB11},
		{ID: "B12", Runs: runsOf(avazuP3, terabyteP3), Draw: drawB12},
		{ID: "B-torchrec", Runs: torchRecRuns, Draw: drawTorchRec},
	}
}

// The runs that the figures share: a model on a machine, and the systems of all figures that have it.
var (
	dlrmP3      = []string{"model=dlrm", "system=pooled,fb-dlrm,fae,het,replicated,partitioned,ideal,none,planned,lrpp"}
	placedP3    = []string{"model=dlrm", "system=partitioned-placed"} // the only one with a time by the clock on the wall: that of placing samples
	wdlP3       = []string{"model=wdl", "system=pooled,fb-dlrm,fae,het,ideal,planned,lrpp"}
	dcnP3       = []string{"model=dcn", "system=pooled,ideal,planned,lrpp"}
	deepfmP3    = []string{"model=deepfm", "system=pooled,ideal,planned,lrpp"}
	deepfmRowP3 = []string{"model=deepfm-row", "system=pooled,ideal,planned,lrpp"}
	dlrmG5      = []string{"model=dlrm", "system=pooled,ideal,planned,lrpp", "link=25Gb/s,50us", "compute=19ms"}
	deepfmG5    = []string{"model=deepfm", "system=pooled,ideal,planned,lrpp", "link=25Gb/s,50us", "compute=40ms"}
	avazuP3     = []string{"tables=avazu", "system=pooled,ideal,planned,lrpp"}
	terabyteP3  = []string{"tables=criteo-terabyte", "system=pooled,ideal,planned,lrpp"}
)

// runsOf returns the function that returns some runs of bench exchange, in the sizes of reports.
func runsOf(args ...[]string) func(Size) []Run {
	return func(size Size) (runs []Run) {
		for _, a := range args {
			r := Run{Bench: "exchange", Args: slices.Clone(a), Repeats: 1}
			switch size {
			case Tiny:
				r.Args = append(r.Args, "compute=1ms") // the first of two settings counts
			case Quick:
				r.Args = append(r.Args, "steps=2", "warmup=1", "lookahead=8", "history=50")
			case Full:
				r.Args, r.Repeats = append(r.Args, "steps=8", "warmup=2", "lookahead=25", "history=150"), 3
			}
			runs = append(runs, r)
		}
		return runs
	}
}

// imitated are the systems of bench exchange, by the names of the papers.
var imitated = map[string]string{
	"TorchRec": "pooled", "FB DLRM": "fb-dlrm", "FAE": "fae", "HET": "het", "BagPipe": "lrpp", "ecrec (planned)": "planned", "ideal": "ideal",
	"replicated": "replicated", "partitioned": "partitioned-placed", "partitioned, samples in order": "partitioned", "LRPP": "lrpp",
}

// overBagPipe is the label of the ratio of a system's time and BagPipe's.
const overBagPipe = ", over BagPipe"

// addTimes adds the times of an iteration of some systems. Each label has a report.
func addTimes(f *Figure, systems, labels []string, reports []*bench.Report) error {
	for _, system := range systems {
		s := Series{System: system, Dashed: system == "ideal"}
		for i, label := range labels {
			p, kind, err := point(reports[i], float64(i), label, "step", "system", imitated[system])
			if err != nil {
				return err
			}
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		f.Series = append(f.Series, s)
	}
	return nil
}

// addRatios adds the times of all systems over that of BagPipe's.
func addRatios(f *Figure, labels []string) {
	for i := range f.Series {
		s := &f.Series[i]
		if s.System == "BagPipe" || s.Dashed {
			continue
		}
		for k, label := range labels {
			p := over(f.atLabel(s.System, label), f.atLabel("BagPipe", label))
			p.X, p.Label = float64(len(labels)+k), label+overBagPipe
			s.Points = append(s.Points, p)
		}
	}
}

// slower checks that a system takes longer than another one, for each label.
func slower(f *Figure, a, b string, labels ...string) Check {
	var checks []Check
	for _, label := range labels {
		checks = append(checks, above("", f.atLabel(a, label), f.atLabel(b, label)))
	}
	return all(fmt.Sprintf("%s takes longer than %s", a, b), checks...)
}

// likePaper checks that the ratio of a system and BagPipe is at least half of the paper's.
func likePaper(f *Figure, system, label string) (c Check, ok bool) {
	v, ok := f.paperAt(system, 0, label+overBagPipe)
	if !ok {
		return c, false
	}
	return near(fmt.Sprintf("%s, %s: time over BagPipe's within 25 %% of the paper's %s", system, label, number(v)),
		f.atLabel(system, label+overBagPipe), v, 0.25), true
}

// addLikePaper adds the checks of all ratios that the paper has.
func addLikePaper(f *Figure, systems, labels []string) {
	for _, system := range systems {
		for _, label := range labels {
			if c, ok := likePaper(f, system, label); ok {
				f.Checks = append(f.Checks, c)
			}
		}
	}
}

// exchangeParams are the parameters of the paper's set-up and of a run.
func exchangeParams(f *Figure, r *bench.Report) {
	s := r.Settings
	f.Params = append(f.Params,
		Param{"ranks, batch", "8 trainers and 1 server, 16,384", fmt.Sprintf("%s ranks that train and own rows, %s", s["ranks"], s["batch"])},
		Param{"network", "p3: 10 Gb/s", s["link"]},
		Param{"forward and backward", "V100", "a wait with which a step without exchange takes the time of the paper's ideal step (fig. 15)"},
		Param{"data", "Criteo Kaggle", "synthetic ids, in tables of the same sizes"},
		Param{"lookahead", "200", s["lookahead"]},
		Param{"clock", "", s["clock"]},
	)
}

// exchangeNotes are sentences about the baselines of a figure.
func exchangeNotes(f *Figure, systems ...string) {
	notes := map[string]string{
		"TorchRec": "TorchRec is imitated by the exchange of pooled vectors alone, on our collectives: the time of its own code, of " +
			"its kernels and of Python is left out, which makes it stronger than the paper's. B-torchrec has both side by side.",
		"FB DLRM": "FB DLRM is TorchRec's exchange with ids sent, and samples read and parsed, while nothing computes; parsing is a " +
			"wait of 2 us a sample, about that of our own reader. PyTorch's is slower, so this one is stronger.",
		"FAE": "FAE all-reduces those hot rows that a batch uses rather than all hot ones, and does not move them between CPU and GPU: " +
			"stronger. Its hot rows are 0.1 % of all.",
		"HET": "HET is not exact: rows may be 100 updates behind. Its caches have no limit, which makes it stronger. The steps of history " +
			"filled them, fewer than a long run has, which makes it weaker.",
		"ecrec": "All systems run in ecrec's step loop. Its ranks own the rows, as FB DLRM's and TorchRec's do; BagPipe has a server " +
			"for them, which is one link instead of eight: ours is stronger.",
		"clock": "On the virtual clock our work on CPUs takes no time: only links and the wait count.",
	}
	for _, name := range append(systems, "ecrec", "clock") {
		f.Notes = append(f.Notes, notes[name])
	}
}
