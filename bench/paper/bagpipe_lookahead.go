package paper

import (
	"fmt"
	"strconv"

	"github.com/ecrec/ecrec/bench"
)

// bagPipeLookahead is the time of planning (B, fig. 17), and the losses of the cache modes (B, fig. 13).
func bagPipeLookahead() []Drawing {
	return []Drawing{
		{ID: "B13", Runs: lossRuns, Draw: drawLosses},
		{ID: "B17", Runs: lookaheadRuns, Draw: drawLookahead},
	}
}

func lossRuns(size Size) []Run {
	switch size {
	case Tiny:
		return []Run{{Bench: "losses"}}
	case Quick:
		return []Run{{Bench: "losses", Args: []string{"steps=30"}}}
	}
	return []Run{{Bench: "losses", Args: []string{"model=dim48", "batch=4096", "ranks=4", "processes=1,2,4", "steps=60", "points=60"}}}
}

// drawLosses draws the losses of each mode, and those of a small run of PyTorch beside ours from the same weights and samples.
func drawLosses(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	f.Y = Axis{Name: "loss"}
	worst := Point{N: 1}
	for _, mode := range []string{"none", "planned", "lrpp"} {
		s, err := line(r, "cache.mode = "+mode, "loss", "step", "mode", mode, "processes", "1")
		if err != nil {
			return err
		}
		f.Series = append(f.Series, s)
	}
	for _, x := range r.Figures {
		if x.Name == "largest difference" && x.Case["mode"] != "" {
			worst.Y = max(worst.Y, x.Median)
		}
	}
	worst.Least, worst.Most = worst.Y, worst.Y
	for _, system := range []string{"PyTorch", "ecrec"} {
		s, err := line(r, "small DLRM: "+system, "loss", "step", "golden", system)
		if err != nil {
			return err
		}
		f.Series = append(f.Series, s)
	}
	digests, _, err := point(r, 0, "", "digests")
	if err != nil {
		return err
	}
	jobs, _, err := point(r, 0, "", "jobs")
	if err != nil {
		return err
	}
	golden, _, err := point(r, 0, "", "largest difference", "golden", "ecrec")
	if err != nil {
		return err
	}
	f.Checks = []Check{
		holdsIf("all modes, in any number of processes, end with one digest", digests.Y == 1, "%g digests of %g jobs", digests.Y, jobs.Y),
		atMost("the losses of all modes and processes are equal, bit for bit", worst, 0),
		atMost("from the same weights and samples, the losses differ by at most 1e-5 from PyTorch's", golden, 1e-5),
	}
	f.Params = []Param{
		{"model and data", "DLRM, dim 48, Criteo Kaggle", r.Settings["model"] + " on the synthetic stream"},
		{"batch", "16,384", r.Settings["batch"]}, {"trainers", "8", r.Settings["ranks"] + " ranks in " + r.Settings["processes"] + " processes"},
		{"beside PyTorch", "TorchRec, another random start", "the same start: a DLRM of dim 8, 20 steps of 64 samples, run by PyTorch 1.13 " +
			"and kept as a file"},
	}
	f.Notes = append(f.Notes, "The synthetic labels follow the features only in part, so the curves are flatter than on Criteo.",
		"The run of PyTorch was made before and is part of ecrec; tools/python/golden.py makes others where PyTorch is installed. HET, whose "+
			"rows may be stale, is not drawn here.")
	return nil
}

func lookaheadRuns(size Size) []Run {
	switch size {
	case Tiny:
		return []Run{{Bench: "oracle", Args: []string{"batch=64,128", "features=5,3", "ranks=2", "lookahead=3,1", "threads=1"}},
			{Bench: "losses"}}
	case Quick:
		return []Run{{Bench: "oracle", Args: []string{"batch=16384,2048,65536", "features=26,13,52", "ranks=2", "lookahead=50,10,100",
			"threads=1"}, Repeats: 1},
			{Bench: "losses", Args: []string{"steps=30"}}}
	}
	return []Run{{Bench: "oracle", Args: []string{"batch=16384,2048,4096,8192,32768,65536", "features=26,13,39,52", "ranks=2",
		"lookahead=50,10,100,200", "threads=1"}},
		lossRuns(Full)[0]}
}

// drawLookahead draws the ms of a batch over its samples, features and lookahead, beside a step.
func drawLookahead(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	base := r.Figures[0].Case // the first case is the base
	of := func(key, value string) []string {
		var all []string
		for _, k := range []string{"features", "lookahead", "ranks"} {
			v := base[k]
			if k == key {
				v = value
			}
			all = append(all, k, v)
		}
		return all
	}
	name := fmt.Sprintf("%s features, lookahead %s", base["features"], base["lookahead"])
	batches, err := line(r, name, "batch", "batch", of("", "")...)
	if err != nil {
		return err
	}
	f.Series = append(f.Series, batches)
	windows, err := f.addOthers(r, "lookahead", of)
	if err != nil {
		return err
	}
	features, err := f.addOthers(r, "features", of)
	if err != nil {
		return err
	}
	batch, err := strconv.ParseFloat(reports[1].Settings["batch"], 64)
	if err != nil {
		return err
	}
	step, kind, err := point(reports[1], batch, "", "step", "mode", "planned", "processes", "1")
	if err != nil {
		return err
	}
	f.Series = append(f.Series, Series{System: "step of " + reports[1].Settings["model"], Kind: kind, Points: []Point{step}})
	rate, kind, err := point(r, 0, "rate, 1 thread", "rate", of("", "")...)
	if err != nil {
		return err
	}
	rate.Unit = "samples/s"
	f.Series = append(f.Series, Series{System: "rate of " + name, Kind: kind, Points: []Point{rate}})
	f.Checks = append(f.Checks,
		growsLess("the time of a batch grows less than its samples", batches.Points),
		growsLess("the time of a batch grows less than its features", features),
		flat("the time does not depend on the lookahead, within 20 %", windows, 0.2))
	if p := f.at(name, batch); p.N > 0 {
		f.Checks = append(f.Checks, below("a batch is planned in less time than a step takes", p, step))
	}
	f.Params = []Param{{"processors", "72 vCPUs", "one thread; plans of the ranks run on all cores in a job"}, {"trainers", "8",
		base["ranks"] + " ranks"},
		{"data", "Criteo Kaggle", "synthetic Criteo Kaggle; tables are repeated beyond 26 features"},
		{"step", "GPUs", "all ranks on the cores of this machine, which compute the layers"}}
	f.Notes = append(f.Notes, "Our plan has no cache of rows that are fetched long before: in mode planned it marks rows that neighbouring "+
		"steps share, which is less work than BagPipe's lookahead. So the rates are not compared.")
	return nil
}

// addOthers adds the values of other cases than the base, and returns the values over that setting, in its order.
func (f *Figure) addOthers(r *bench.Report, key string, of func(key, value string) []string) (points []Point, err error) {
	batch := r.Figures[0].Case["batch"]
	x, err := strconv.ParseFloat(batch, 64)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, v := range r.Figures {
		value := v.Case[key]
		if seen[value] || v.Name != "batch" || v.Case["batch"] != batch {
			continue
		}
		seen[value] = true
		p, kind, err := point(r, x, "", "batch", append(of(key, value), "batch", batch)...)
		if err != nil {
			return nil, err
		}
		if value != r.Figures[0].Case[key] {
			f.Series = append(f.Series, Series{System: fmt.Sprintf("%s %s", key, value), Kind: kind, Points: []Point{p}})
		}
		if p.X, err = strconv.ParseFloat(value, 64); err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	s := Series{System: key, Points: points}
	ordered := Figure{Series: []Series{s}}
	return ordered.points(key), nil
}
