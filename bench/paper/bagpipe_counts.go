package paper

import (
	"fmt"
	"strconv"

	"github.com/ecrec/ecrec/bench"
)

// bagPipeCounts are the figures of BagPipe whose quantities are counted, not timed. config is that of a user's data, or empty.
func bagPipeCounts(config string) []Drawing {
	return []Drawing{
		withData(config, Drawing{ID: "B3", Runs: curveRuns, Draw: drawCurves}),
		withData(config, Drawing{ID: "B4", Runs: curveRuns, Draw: drawStaticCache}),
		fiveNumbers(config),
		{ID: "B-tab1", Runs: sizeRuns, Draw: drawDataSets},
		{ID: "B-tab2", Runs: sizeRuns, Draw: drawModels},
	}
}

// countedStreams are the laws of synthetic ids, by the names on the page.
var countedStreams = []struct{ name, law string }{{"independent draws", "independent"}, {"bursts", "bursts"}}

// countNote is the note of all figures of counts.
const countNote = "The ids are synthetic. Independent draws were fitted to four figures of Criteo Kaggle in the paper, bursts to five. " +
	"The paper's figures cannot all hold at once: 65,000 distinct rows, 90 % of the lookups by 0.1 % of the rows, and at most " +
	"15 % of the distinct rows among these."

// curvesOfStreams is the number of runs of curveRuns.
const curvesOfStreams = 4

// curveRuns count popularity: both laws with the tables of Criteo Kaggle, and bursts with those of the other sets.
func curveRuns(size Size) (runs []Run) {
	for i, args := range [][]string{{"stream=independent"}, {"stream=bursts"}, {"stream=bursts", "tables=avazu"},
		{"stream=bursts", "tables=criteo-terabyte"}} {
		switch {
		case size == Tiny: // the benchmark's tiny sizes
		case size == Quick && i < 2: // of fewer samples the wrong rows are in the cache of fig. 4
			args = append(args, "samples=3276800", "batches=4")
		case size == Quick:
			args = append(args, "samples=655360", "batches=4")
		case size == Full:
			args = append(args, "samples=3276800")
		}
		runs = append(runs, Run{Bench: "popularity", Args: args})
	}
	return runs
}

// drawCurves draws the lookups over the hottest rows (fig. 3).
func drawCurves(f *Figure, reports []*bench.Report) error {
	names := []string{"Criteo Kaggle, independent draws", "Criteo Kaggle, bursts", "Avazu's tables, bursts",
		"Criteo Terabyte's tables, bursts"}
	for i, name := range names {
		s, err := line(reports[i], name, "lookups", "hottest")
		if err != nil {
			return err
		}
		f.Series = append(f.Series, s)
		f.Checks = append(f.Checks, near(name+": the hottest 0.1 % have 90 % of the lookups, within 5 %", f.at(name, 0.1), 90, 0.05))
	}
	if err := f.addDataLines(reports[curvesOfStreams:], "lookups", "hottest"); err != nil {
		return err
	}
	f.Params = []Param{{"data", "Criteo Kaggle, Avazu, Criteo Terabyte", "synthetic ids in tables of their sizes"},
		{"samples", "all", reports[0].Settings["samples"]}}
	f.Notes = append(f.Notes, countNote, "Only the sizes of the tables differ between the sets: the popularity is that fitted to Kaggle. "+
		"The popularity of synthetic ids does not drift from day to day. `ecrec bench report --data CONFIG` counts real files.",
		"Of few samples the hottest rows seem hotter, since rare rows are missing: most so for Terabyte, "+
			"of whose rows these samples use less than 1 %.")
	return nil
}

// addDataLines adds a line of each report of a user's data.
func (f *Figure) addDataLines(reports []*bench.Report, name, key string) error {
	for _, r := range reports {
		s, err := line(r, nameOfData(r), name, key)
		if err != nil {
			return err
		}
		f.Series = append(f.Series, s)
	}
	return nil
}

// drawStaticCache draws the share of a batch's rows that are hot (fig. 4).
func drawStaticCache(f *Figure, reports []*bench.Report) error {
	for i, x := range countedStreams {
		s, err := line(reports[i], x.name, "in the cache", "batch")
		if err != nil {
			return err
		}
		f.Series = append(f.Series, s)
		f.Checks = append(f.Checks, falling(x.name+": the share falls with the batch", f.points(x.name)),
			within(x.name+": 10 to 15 % at a batch of 16,384", f.at(x.name, 16384), 10, 15))
	}
	if err := f.addDataLines(reports[curvesOfStreams:], "in the cache", "batch"); err != nil {
		return err
	}
	f.Params = []Param{{"data", "Criteo Kaggle", "synthetic ids in tables of its sizes"},
		{"samples whose lookups make rows hot", "all", reports[0].Settings["samples"]}}
	f.Notes = append(f.Notes, countNote)
	return nil
}

// cacheRunsOf count the rows, bytes and caches of all modes for both laws.
func cacheRunsOf(size Size) (runs []Run) {
	for _, x := range countedStreams {
		args := []string{"stream=" + x.law}
		switch size {
		case Tiny: // the benchmark's tiny sizes
		case Quick:
			args = append(args, "steps=2", "sizes=5,50") // with less than 200 batches of lookahead fewer rows are shared
		case Full:
			args = append(args, "sizes=5,10,50,100,300")
		}
		runs = append(runs, Run{Bench: "cache", Args: args})
	}
	return runs
}

const (
	lrppMode       = "lrpp, through owners"
	replicatedMode = "replicated"
)

// withCounts returns a drawing of times with counts beside them. Each size has as many runs that count.
func withCounts(times Drawing, runs func(Size) []Run, add func(*Figure, []*bench.Report) error) Drawing {
	return Drawing{ID: times.ID,
		Runs: func(size Size) []Run { return append(times.Runs(size), runs(size)...) },
		Draw: func(f *Figure, reports []*bench.Report) error {
			n := len(reports) - len(runs(Full))
			if err := times.Draw(f, reports[:n]); err != nil {
				return err
			}
			return add(f, reports[n:])
		}}
}

// addDelay adds the rows synchronised, and those of them that ranks wait for (fig. 8).
func addDelay(f *Figure, reports []*bench.Report) error {
	for i, x := range countedStreams {
		r := reports[i]
		s := Series{System: "LRPP and delay, " + x.name}
		all, kind, err := point(r, 0, "rows synchronised", "rows", "mode", lrppMode)
		if err != nil {
			return err
		}
		now, _, err := point(r, 1, "critical rows", "rows, critical", "mode", lrppMode)
		if err != nil {
			return err
		}
		everything, _, err := point(r, 0, "", "bytes, critical", "mode", replicatedMode, "optimizer", "rowwise_adagrad")
		if err != nil {
			return err
		}
		delayed, _, err := point(r, 0, "", "bytes, critical", "mode", "lrpp, all-reduced", "optimizer", "rowwise_adagrad")
		if err != nil {
			return err
		}
		share, fewer := scaled(over(now, all), 100), over(delayed, everything)
		share.X, share.Label, share.Unit = 2, "critical share", "%"
		fewer.X, fewer.Label, fewer.Unit = 3, "fewer bytes on the critical path", "%"
		fewer.Y, fewer.Least, fewer.Most = 100*(1-fewer.Y), 100*(1-fewer.Most), 100*(1-fewer.Least)
		all.Unit, now.Unit = "rows", "rows"
		s.Kind, s.Points = kind, []Point{all, now, share, fewer}
		f.Series = append(f.Series, s)
		replicated, _, err := point(r, 0, "", "rows", "mode", replicatedMode)
		if err != nil {
			return err
		}
		f.Checks = append(f.Checks, below(x.name+": LRPP synchronises fewer rows than replicated caches", all, replicated),
			atMost(x.name+": at most half of the rows of LRPP are critical", share, 50),
			near(x.name+": critical rows within 10 % of the paper's 22,700", now, 22_700, 0.1))
	}
	f.Params = append(f.Params, cacheParams(reports[0])...)
	f.Notes = append(f.Notes, countNote,
		"Rows and bytes are counted. The bytes are those of all-reduced rows, as in the paper, against replicated caches.",
		"The critical rows follow from the data: the rule is the paper's own. Independent draws have few, which flatters the method.")
	return nil
}

// addSynchronised adds the rows that the designs of fig. 7 synchronise in a step, for each law of ids.
func addSynchronised(f *Figure, reports []*bench.Report) error {
	for i, x := range countedStreams {
		s := Series{System: "counted, " + x.name}
		for k, design := range []struct{ label, mode string }{{"replicated", replicatedMode}, {"partitioned", "partitioned"},
			{"LRPP", lrppMode}} {
			p, kind, err := point(reports[i], float64(3+k), "rows synchronised, "+design.label, "rows", "mode", design.mode)
			if err != nil {
				return err
			}
			p.Unit = "rows"
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		f.Series = append(f.Series, s)
		at := func(design string) Point { return f.atLabel(s.System, "rows synchronised, "+design) }
		f.Checks = append(f.Checks, below(x.name+": LRPP synchronises fewer rows than replicated caches", at("LRPP"), at("replicated")),
			below(x.name+": partitioned ones fewer than LRPP", at("partitioned"), at("LRPP")))
		for _, design := range []string{"replicated", "LRPP"} {
			if v, ok := f.paperAt(design, 0, "rows synchronised"); ok {
				text := fmt.Sprintf("%s, %s: rows synchronised within 10 %% of the paper's %s", x.name, design, number(v))
				f.Checks = append(f.Checks, near(text, at(design), v, 0.1))
			}
		}
	}
	f.Notes = append(f.Notes, countNote, "The rows are counted by bench cache. There the samples of partitioned caches are not placed "+
		"on trainers: this baseline synchronises more rows than the paper's 21,000.")
	return nil
}

// cacheParams are the parameters of counts.
func cacheParams(r *bench.Report) []Param {
	s := r.Settings
	return []Param{{"counts: data", "Criteo Kaggle", "synthetic ids in tables of its sizes"},
		{"counts: trainers, batch, lookahead", "8, 16,384, 200", s["trainers"] + ", " + s["batch"] + ", " + s["lookahead"]},
		{"counts: owners of rows", "one server", "the trainers"}}
}

// burstCacheRuns are those of cacheRunsOf with bursts.
func burstCacheRuns(size Size) []Run { return cacheRunsOf(size)[1:] }

// addCacheSizes adds the cache of a trainer over the lookahead with bursts to tab. 3.
func addCacheSizes(f *Figure, reports []*bench.Report) error {
	const system = "cache, bursts"
	s, err := line(reports[0], system, "cache", "lookahead")
	if err != nil {
		return err
	}
	f.Series = append(f.Series, scaledSeries(s, 1e-6))
	f.Checks = append(f.Checks, rising("bursts: the cache grows with the lookahead", f.points(system)),
		growsLess("bursts: it grows by a smaller factor than the lookahead", f.points(system)))
	f.Params = append(append(f.Params, cacheParams(reports[0])...), Param{"row", "48 floats", "48 floats, without optimizer state"})
	f.Notes = append(f.Notes, countNote, "The series without a name of ids is of independent draws. "+
		"The size is that of one trainer's cache of mode lrpp. "+
		"The paper's cache also holds rows that were fetched a lookahead early, ours fetches one step early: "+
		"it is not the same quantity, and ours is smaller.")
	return nil
}

func sizeRuns(Size) []Run { return []Run{{Bench: "sizes"}} }

// paperSets are the data sets of tab. 1 with the dimension of their bytes there.
var paperSets = []struct{ name, dim string }{{"Criteo Kaggle", "48"}, {"Avazu", "48"}, {"Criteo Terabyte", "16"}}

// drawDataSets draws the rows and bytes of the data sets (tab. 1).
func drawDataSets(f *Figure, reports []*bench.Report) error {
	for _, set := range paperSets {
		rows, kind, err := point(reports[0], 0, "rows", "rows", "data", set.name)
		if err != nil {
			return err
		}
		label := "bytes of rows, dim " + set.dim
		bytes, _, err := point(reports[0], 1, label, "bytes of rows", "data", set.name, "dim", set.dim)
		if err != nil {
			return err
		}
		bytes = scaled(bytes, 1e-9)
		bytes.Unit = "GB"
		f.Series = append(f.Series, Series{System: set.name, Kind: kind, Points: []Point{rows, bytes}})
		for _, p := range []Point{rows, bytes} {
			if v, ok := f.paperAt(set.name, 0, p.Label); ok {
				f.Checks = append(f.Checks, near(fmt.Sprintf("%s, %s: within 10 %% of the paper's %s", set.name, p.Label, number(v)), p, v, 0.1))
			}
		}
	}
	f.Notes = append(f.Notes, "The rows are those of the sets' public loaders. The samples are not here, so they are not counted. "+
		"157 GB of Criteo Terabyte are 157.9 GiB at dim 48, not at the printed dim 16: that check stays red.")
	return nil
}

// paperModels are the models of tab. 2, by their names in bench sizes.
var paperModels = []struct{ label, model string }{{"DLRM", "B DLRM"}, {"W&D", "B W&D"}, {"D&C", "B D&C"}, {"DeepFM", "B DeepFM"}}

// drawModels draws the dense parameters of the models (tab. 2).
func drawModels(f *Figure, reports []*bench.Report) error {
	s := Series{System: "ecrec"}
	for i, m := range paperModels {
		p, kind, err := point(reports[0], float64(i), m.label, "dense parameters", "model", m.model, "data", "Criteo Kaggle")
		if err != nil {
			return err
		}
		if err := s.addPoint(p, kind); err != nil {
			return err
		}
		if v, ok := f.paperAt("BagPipe", 0, m.label); ok {
			f.Checks = append(f.Checks, holdsIf(m.label+": the number of the paper, exactly", p.Y == v, "%.0f and %.0f", p.Y, v))
		}
	}
	f.Series = []Series{s}
	f.Notes = append(f.Notes, "DeepFM is counted with the linear weight of each row as a dense parameter, as in the paper's code. "+
		"ecrec keeps it in the row: its DeepFM all-reduces 33,762,577 floats less in each step.")
	return nil
}

// mixtureRuns count the mixture of fig. 18.
func mixtureRuns(size Size) []Run {
	args := []string{"law=mixture"}
	switch size {
	case Tiny: // the benchmark's tiny sizes
	case Quick:
		args = append(args, "lookahead=10", "steps=4")
	case Full:
		args = append(args, "lookahead=50", "steps=10")
	}
	return []Run{{Bench: "skew", Args: args}}
}

// addMixture adds rows and bytes over the skew to fig. 18.
func addMixture(f *Figure, r *bench.Report) error {
	for _, x := range []struct {
		system, name, mode, unit string
		by                       float64
	}{
		{"distinct rows of a batch", "distinct rows", "", "rows/step", 1},
		{"rows that LRPP synchronises", "rows", lrppMode, "rows/step", 1},
		{"critical rows of LRPP", "rows, critical", lrppMode, "rows/step", 1},
		{"bytes of LRPP", "bytes", lrppMode, "MB/step", 1e-6},
		{"bytes of planned", "bytes", "planned", "MB/step", 1e-6},
		{"bytes without a cache", "bytes", "none", "MB/step", 1e-6},
	} {
		var of []string
		if x.mode != "" {
			of = []string{"mode", x.mode}
		}
		s, err := line(r, x.system, x.name, "hot", of...)
		if err != nil {
			return err
		}
		s = scaledSeries(s, x.by)
		for i := range s.Points {
			s.Points[i].Unit = x.unit
		}
		f.Series = append(f.Series, s)
	}
	for _, system := range []string{"distinct rows of a batch", "critical rows of LRPP", "bytes of planned"} {
		f.Checks = append(f.Checks, falling(system+": fewer, the more skew there is", f.points(system)))
	}
	for _, x := range []struct{ hot, rows float64 }{{90, 93_800}, {1, 166_000}} {
		text := fmt.Sprintf("distinct rows of a batch at %s %%: the expected %s, within 1 %%", strconv.Itoa(int(x.hot)), number(x.rows))
		f.Checks = append(f.Checks, near(text, f.at("distinct rows of a batch", x.hot), x.rows, 0.01))
	}
	f.Params = append(f.Params, Param{"counted rows and bytes: batch, lookahead", "16,384, 200",
		r.Settings["batch"] + ", " + r.Settings["lookahead"]})
	f.Notes = append(f.Notes, "Rows and bytes are counted by bench skew. "+
		"The expected distinct rows follow from the probabilities of the mixture.")
	return nil
}
