package paper

import (
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/bench"
)

// continuousTables is the time to train with checkpoints and to load them (T, tab. 6.1 to 6.12), the costs of a save and of a capture
// (tab. 4.1, 4.4), and
// the work that a kill costs.
func continuousTables() []Drawing {
	all := []Drawing{
		{ID: "T4.1", Runs: bothModels, Draw: drawCapture},
		{ID: "T4.4", Runs: bothModels, Draw: drawSaves},
		{ID: "T-lost", Runs: func(size Size) []Run { return criteoRuns(size, places[0]) }, Draw: drawLost},
	}
	for i, p := range places {
		synthetic, criteo := func(size Size) []Run { return thesisRuns(size, p) }, func(size Size) []Run { return criteoRuns(size, p) }
		all = append(all,
			Drawing{ID: fmt.Sprintf("T6.%d", 2*i+1), Runs: synthetic, Draw: drawThesis},
			Drawing{ID: fmt.Sprintf("T6.%d", 2*i+2), Runs: criteo, Draw: drawCriteo},
			Drawing{ID: fmt.Sprintf("T6.%d", 2*i+7), Runs: synthetic, Draw: drawThesisLoads},
			Drawing{ID: fmt.Sprintf("T6.%d", 2*i+8), Runs: criteo, Draw: drawCriteoLoads})
	}
	return all
}

// places are the settings of one node with one GPU, one node with several, and several nodes.
var places = [][]string{{"ranks=1"}, {"ranks=2", "transport=tcp"}, {"ranks=2", "transport=tcp", "link=10Gb/s,50us"}}

// epochNames are those of the thesis's intervals.
var epochNames = map[string]string{"1": "every epoch", "2": "every 2 epochs", "3": "every 3 epochs"}

// sampleNames are the thesis's numbers of samples. Of ours there are 5 times fewer.
var sampleNames = []string{"10K", "25K", "50K"}

func continuousRun(place []string, repeats int, args ...string) Run {
	return Run{Bench: "continuous", Args: append(args, place...), Repeats: repeats}
}

// intervals are those of saves, in epochs. The places with several ranks have the shortest one alone: the others took half an hour.
func intervals(place []string) string {
	if slices.Equal(place, places[0]) {
		return "every=1,2,3"
	}
	return "every=1"
}

// thesisRuns are those of the synthetic model: one for each number of samples. The slow store is faster than the thesis's 22 MB/s, which
// would take most of a report: four times, and eight times for Quick.
func thesisRuns(size Size, place []string) []Run {
	switch size {
	case Tiny:
		return []Run{continuousRun(place, 0, "samples=64", "epochs=2"), continuousRun(place, 0, "samples=64", "epochs=3", "every=1,2,3")}
	case Quick:
		return []Run{continuousRun(place, 1, "samples=2048", "epochs=2", "every=1", "slow=176")}
	}
	return []Run{continuousRun(place, 2, "samples=2048", "epochs=3", "every=1", "slow=88"),
		continuousRun(place, 2, "samples=5120", "epochs=3", "every=1", "slow=88"),
		continuousRun(place, 2, "samples=10240", "epochs=3", intervals(place), "slow=88")}
}

// criteoRuns are those of Criteo Kaggle's tables. The slow store has the speed of the thesis's there.
func criteoRuns(size Size, place []string) []Run {
	args := []string{"model=dim16", "slow=80"}
	switch size {
	case Tiny:
		return []Run{continuousRun(place, 0, "model=dim16", "samples=64", "epochs=3", "every=1,2,3")}
	case Quick:
		return []Run{continuousRun(place, 1, append(args, "scale=10", "samples=20480", "epochs=2", "every=1")...)}
	}
	return []Run{continuousRun(place, 2, append(args, "scale=4", "samples=102400", "epochs=3", intervals(place))...)}
}

// bothModels are the runs of both models on one node with one GPU.
func bothModels(size Size) []Run {
	return append(thesisRuns(size, places[0]), criteoRuns(size, places[0])...)
}

// byTorch is the system whose checkpoints torch.save writes. Reports of machines without PyTorch do not have it.
const byTorch = "base, torch.save"

// hasTorch reports whether all reports have a figure of byTorch.
func hasTorch(reports []*bench.Report, name string) bool {
	return !slices.ContainsFunc(reports, func(r *bench.Report) bool {
		return !slices.ContainsFunc(r.Figures, func(x bench.Figure) bool { return x.Name == name && x.Case["system"] == "torch" })
	})
}

// systems are the jobs of the thesis, and ours beside them.
var continuousSystems = []struct {
	name      string
	of        []string
	eachEvery bool // its interval is that of the bar
}{
	{"base", []string{"system", "full", "store", "disk"}, true},
	{"base, slow store", []string{"system", "full", "store", "slow"}, true},
	{byTorch, []string{"system", "torch"}, true},
	{"continuous", []string{"system", "stream", "every", "0"}, false},
	{"a commit at each interval", []string{"system", "stream"}, true},
	{"no checkpoints", []string{"system", "none"}, false},
}

// intervalsOf returns the intervals of a report.
func intervalsOf(r *bench.Report) (all []string) {
	for _, every := range []string{"1", "2", "3"} {
		for _, f := range r.Figures {
			if f.Name == "time" && f.Case["system"] == "full" && f.Case["every"] == every {
				all = append(all, every)
				break
			}
		}
	}
	return all
}

// addTimes adds a bar of each system for each number of samples and interval. The last report has several intervals.
func (f *Figure) addTimes(reports []*bench.Report, name string, label func(report int, every string) string) error {
	for _, system := range continuousSystems {
		if system.name == byTorch && !hasTorch(reports, name) {
			continue
		}
		s := Series{System: system.name}
		for i, r := range reports {
			for _, every := range intervalsOf(r) {
				of := system.of
				if system.eachEvery {
					of = append(of[:len(of):len(of)], "every", every)
				}
				p, kind, err := point(r, float64(len(s.Points)), label(i, every), name, of...)
				if err != nil {
					return err
				}
				if err := s.addPoint(p, kind); err != nil {
					return err
				}
			}
		}
		f.Series = append(f.Series, s)
	}
	return nil
}

// drawThesis draws the time of the synthetic model.
func drawThesis(f *Figure, reports []*bench.Report) error {
	if err := f.addTimes(reports, "time", thesisLabel(reports)); err != nil {
		return err
	}
	describeContinuous(f, reports)
	f.noteSharedRuns(reports)
	return f.checkTimes(reports)
}

// noteSharedRuns adds a note if bars of several intervals are of one run.
func (f *Figure) noteSharedRuns(reports []*bench.Report) {
	if len(intervalsOf(reports[len(reports)-1])) > 1 {
		f.Notes = append(f.Notes, "continuous and no checkpoints do not depend on the interval: each is one job, and its bar is repeated "+
			"at each interval.")
	}
}

// thesisLabel names the bars of the synthetic model. A small report has the first numbers of samples only; a tiny one has the first and
// the last.
func thesisLabel(reports []*bench.Report) func(int, string) string {
	return func(i int, every string) string {
		if i > 0 && i == len(reports)-1 {
			i = len(sampleNames) - 1
		}
		return sampleNames[i] + ", " + epochNames[every]
	}
}

// drawCriteo draws the time of Criteo Kaggle.
func drawCriteo(f *Figure, reports []*bench.Report) error {
	if err := f.addTimes(reports, "time", func(_ int, every string) string { return epochNames[every] }); err != nil {
		return err
	}
	describeContinuous(f, reports)
	f.noteSharedRuns(reports)
	return f.checkTimes(reports)
}

// checkTimes checks the shape of the times.
func (f *Figure) checkTimes(reports []*bench.Report) error {
	r := reports[len(reports)-1]
	stream, _, err := point(r, 0, "", "of full", "system", "stream", "every", "1")
	if err != nil {
		return err
	}
	none, _, err := point(r, 0, "", "of none", "system", "stream", "every", "0")
	if err != nil {
		return err
	}
	slow, base := f.points("base, slow store"), f.points("base")
	f.Checks = append(f.Checks,
		sameTrainers(fmt.Sprintf("base takes longer with a slow store (%s MB/s) than with our disk", r.Settings["slow"]), base, slow, below),
		sameTrainers("continuous is faster than base with the slow store", f.points("continuous"), slow, below),
		atMost("a commit an epoch in the stream takes no longer than base on our own disk", stream, 1),
		above("no bar is free: continuous takes longer than no checkpoints", none, Point{Y: 1, Least: 1, Most: 1, N: 1}),
	)
	if torch := f.points(byTorch); len(torch) > 0 {
		f.Checks = append(f.Checks, sameTrainers("continuous is faster than torch.save to our own disk", f.points("continuous"), torch, below))
	}
	if len(intervalsOf(r)) > 1 {
		last := slow[len(slow)-len(intervalsOf(r)):]
		f.Checks = append(f.Checks, falling("base with the slow store gets faster with fewer checkpoints", last))
	}
	return nil
}

// describeContinuous adds parameters and the three things that are easily overlooked.
func describeContinuous(f *Figure, reports []*bench.Report) {
	r := reports[len(reports)-1]
	isThesis, slowReason := r.Settings["model"] == "thesis", "That is within the thesis's range for Criteo."
	if isThesis {
		slowReason = "A store of 22 MB/s would take most of the time of a report."
		f.Params = append(f.Params, Param{"model", "8 tables of 80,000 rows of 64 floats, 100 ids each: 164 MB", "the same, as it is"},
			Param{"samples of an epoch", "10K, 25K, 50K", "here " + samplesOf(reports) + ": 10K, 25K and 50K are divided by 5"})
	} else {
		tables := "tables of Criteo Kaggle"
		if by := r.Settings["scale"]; by != "1" {
			tables += ", their rows divided by " + by
		}
		f.Params = append(f.Params, Param{"model", "Criteo Kaggle; the thesis does not give its dim and layers", tables +
			", dim 16, synthetic stream"},
			Param{"samples of an epoch", "39 M", r.Settings["samples"]})
	}
	f.Params = append(f.Params, Param{"epochs", "100 synthetic, 5 Criteo", r.Settings["epochs"]}, Param{"batch", "2,048", r.Settings["batch"]},
		Param{"nodes", "A6000 and A100 servers", nodesOf(r)}, Param{"store of base", "22 MB/s for the synthetic model, 57 to 107 MB/s " +
			"for Criteo (computed)",
			"this disk, and a wait as of a store of " + r.Settings["slow"] + " MB/s: a faster one makes base stronger"},
		Param{"stream", "Kafka", "a topic in a folder; bench continuous to=kafka://... takes a broker"})
	for _, x := range r.Figures {
		if x.Name != "bytes" || x.Case["system"] != "stream" || x.Case["every"] != "0" {
			continue
		}
		if saved, _, err := point(r, 0, "", "bytes", "system", "full", "every", "1", "store", "disk"); err == nil {
			f.Notes = append(f.Notes, fmt.Sprintf("(a) A batch of 2,048 samples with 100 ids each touches about 92 %% of the rows of each "+
				"synthetic table, so the changed rows of a step are nearly all of the model. Here the stream took %s MB in all, and the full "+
				"checkpoints of each epoch %s MB.",
				number(x.Median), number(saved.Y)))
		}
	}
	f.Notes = append(f.Notes,
		"(b) The thesis's base saves 174 MB in 8.0 s, which is 22 MB/s: the gain depends on that slow path. So base is shown on our "+
			"disk as it is and with a slow store of "+r.Settings["slow"]+" MB/s (a wait). "+slowReason,
		"(c) The thesis has no bar without checkpoints. By its tables that would take 1,591 - 803 = 788 s, so continuous (979 s) costs "+
			"24 % of training there, and 1 % on Criteo. Ours is \"no checkpoints\".",
		"base stops training, writes all touched rows with sums and waits for the disk. "+noteOfTorch(reports)+" continuous "+
			"sends the changed rows of each step, the dense part and a digest: it is more than the thesis's, which sends the dense part at an epoch's end.")
}

// noteOfTorch states what torch.save does, or why it was not measured.
func noteOfTorch(reports []*bench.Report) string {
	text := "torch.save writes all rows, without sums, and does not wait for the disk"
	for _, r := range reports {
		if why := r.Missing["torch"]; why != "" {
			return text + "; it has no values here: " + why + "."
		}
	}
	return text + ": PyTorch's own saves tensors of these sizes, in a process of its own, while our training waits."
}

// samplesOf lists the samples of each report.
func samplesOf(reports []*bench.Report) (text string) {
	for i, r := range reports {
		if i > 0 {
			text += ", "
		}
		text += r.Settings["samples"]
	}
	return text
}

// nodesOf describes the ranks of a report.
func nodesOf(r *bench.Report) string {
	text := r.Settings["ranks"] + " ranks of one process"
	switch {
	case r.Settings["ranks"] == "1":
		return "one rank on all cores"
	case r.Settings["link"] != "":
		return text + ", over TCP and emulated links of " + r.Settings["link"]
	}
	return text + ", over TCP"
}

func drawThesisLoads(f *Figure, reports []*bench.Report) error {
	last := len(reports) - 1
	return f.drawLoads(reports, func(i int) string {
		if i > 0 && i == last {
			i = len(sampleNames) - 1
		}
		return sampleNames[i]
	})
}

func drawCriteoLoads(f *Figure, reports []*bench.Report) error {
	return f.drawLoads(reports, func(int) string { return "Criteo" })
}

// drawLoads draws the time until the last model is in memory.
func (f *Figure) drawLoads(reports []*bench.Report, label func(int) string) error {
	for _, x := range []struct{ name, system string }{{"base", "full"}, {byTorch, "torch"}, {"continuous", "stream"}} {
		if x.name == byTorch && !hasTorch(reports, "load") {
			continue
		}
		s := Series{System: x.name}
		for i, r := range reports {
			p, kind, err := point(r, float64(i), label(i), "load", "system", x.system)
			if err != nil {
				return err
			}
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		f.Series = append(f.Series, s)
	}
	describeContinuous(f, reports)
	f.Notes = append(f.Notes, "base is loaded from one checkpoint; continuous is rebuilt from all steps of the topic, with every "+
		"sum and the digest compared. A follower that saves bases needs only the steps since the last one. torch.load "+
		"reads the file from the page cache, and starts no job.")
	f.Checks = []Check{sameTrainers("continuous is slower to load", f.points("base"), f.points("continuous"), below)}
	return nil
}
