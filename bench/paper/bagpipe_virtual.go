package paper

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// bagPipeVirtual are figures of BagPipe whose steps run on a simulated clock.
func bagPipeVirtual() []Drawing {
	return []Drawing{
		withCounts(Drawing{ID: "B8", Runs: delayRuns, Draw: drawDelay}, cacheRunsOf, addDelay),
		{ID: "B15", Runs: idealRuns, Draw: drawIdeal},
		{ID: "B16a", Runs: trainersRuns, Draw: drawTrainers},
		{ID: "B16b", Runs: batchRuns, Draw: drawBatches},
		withCounts(Drawing{ID: "B-tab3", Runs: lookaheadStepRuns, Draw: drawLookaheadSteps}, burstCacheRuns, addCacheSizes),
	}
}

// The machines of BagPipe: their links, and its ideal steps of DLRM and DeepFM.
var (
	p3 = []string{"link=10Gb/s,50us", "ideal=30ms", "ideal=236ms"}
	g5 = []string{"link=25Gb/s,50us", "ideal=19ms", "ideal=116ms"}
)

// The dense parameters of DeepFM: as the paper's code has it, with a weight for each row, and with these weights in the rows.
const (
	deepFMDense  = "33851283"
	deepFMInRows = "88706"
)

// virtualRun is a run of bench ideal on the virtual clock.
func virtualRun(size Size, repeats int, args ...string) Run {
	args = append([]string{"clock=virtual"}, args...)
	switch size {
	case Tiny:
		repeats = 1
		for i, a := range args { // the least models and the shortest waits
			if strings.HasPrefix(a, "ideal=") {
				args[i] = "compute=1ms"
			}
		}
	case Quick:
		if !slices.Contains(args, "steps=1") {
			args = append(args, "steps=2")
		}
		args, repeats = append(args, "warmup=1"), 1
	}
	return Run{Bench: "ideal", Args: args, Repeats: repeats}
}

// dlrmRun and deepFMRun are those of B8 and B15. B8 needs p3 alone. DeepFM's gradient of 135 MB makes it slow to run.
func dlrmRun(size Size, m []string) Run {
	args := []string{m[0], m[1], "modes=ideal,planned,lrpp", "delayed=yes", "law=bursts", windowOf(size)}
	if m[0] == p3[0] {
		args[3], args[4] = "delayed=both", "law=both"
	}
	return virtualRun(size, 5, args...)
}

func deepFMRun(size Size, m []string) Run {
	args := []string{m[0], m[2], "modes=ideal,planned,lrpp", "delayed=yes", "law=bursts", "dense=" + deepFMDense + "," + deepFMInRows, windowOf(size)}
	if m[0] == p3[0] {
		args[3] = "delayed=both"
	}
	if size == Tiny {
		args[5] = "dense=50000,500"
	}
	if size == Quick {
		args = append(args, "steps=1")
	}
	return virtualRun(size, 2, args...)
}

func windowOf(size Size) string {
	return "lookahead=" + map[Size]string{Tiny: "3", Quick: "10", Full: "200"}[size]
}

func delayRuns(size Size) []Run { return []Run{dlrmRun(size, p3), deepFMRun(size, p3)} }

func idealRuns(size Size) []Run {
	return []Run{dlrmRun(size, p3), dlrmRun(size, g5), deepFMRun(size, p3), deepFMRun(size, g5)}
}

// virtualNotes are the sentences about the clock of these figures.
var virtualNotes = []string{
	"The step loop is that of a run, on a simulated clock: links of the given bandwidth and latency, one for each rank in each " +
		"direction, and a wait for the forward and backward pass. The work of our own code on CPUs takes no time, which makes ours " +
		"faster than it is.",
	"The wait is fitted, so that the step without an exchange of rows takes as long as the paper's ideal step.",
	"BagPipe is imitated by our cache.mode lrpp, which follows its rule; its rows are at the ranks, as in our other modes, where " +
		"BagPipe has a server for them.",
}

func virtualParams(r *bench.Report, more ...Param) []Param {
	return append([]Param{
		{"links", "p3 10 Gb/s, g5 25 Gb/s", r.Settings["link"]},
		{"forward and backward", "V100 (p3), A10G (g5)", "a wait; ideal step " + r.Settings["ideal"]},
		{"batch", "2,048 a trainer", "2,048 a rank"},
		{"lookahead", "200", r.Settings["lookahead"]},
		{"data", "Criteo Kaggle", "synthetic, tables of Criteo Kaggle"},
	}, more...)
}

// waited is how much longer a step of a mode is than the ideal one.
func waited(r *bench.Report, x float64, label string, of ...string) (Point, bench.Evidence, error) {
	step, kind, err := point(r, x, label, "step", of...)
	if err != nil {
		return step, kind, err
	}
	var same []string // the same job without its mode
	for i := 0; i+1 < len(of); i += 2 {
		if of[i] != "mode" && of[i] != "delayed" {
			same = append(same, of[i], of[i+1])
		}
	}
	ideal, _, err := point(r, x, label, "step", append(same, "mode", "ideal")...)
	step.Y, step.Least, step.Most = step.Y-ideal.Y, step.Least-ideal.Most, step.Most-ideal.Least
	return step, kind, err
}

// denseOf are the numbers of dense parameters of a report of DeepFM: that of the paper's code, and ours.
func denseOf(r *bench.Report) (paper, ours string) {
	paper, ours, _ = strings.Cut(r.Settings["dense"], ",")
	return paper, ours
}

// drawDelay draws how long a step waits for rows and gradients, with and without delay.
func drawDelay(f *Figure, reports []*bench.Report) error {
	paperDense, _ := denseOf(reports[1])
	places := []struct {
		label string
		r     *bench.Report
		of    []string
	}{
		{"DLRM, ids in bursts", reports[0], []string{"law", "bursts"}},
		{"DLRM, independent ids", reports[0], []string{"law", "independent"}},
		{"DeepFM, ids in bursts", reports[1], []string{"law", "bursts", "dense", paperDense}},
	}
	for _, system := range []struct{ name, mode, delayed string }{
		{"BagPipe (lrpp), delayed", "lrpp", "yes"}, {"BagPipe (lrpp), not delayed", "lrpp", "no"},
		{"ecrec (planned), delayed", "planned", "yes"}, {"ecrec (planned), not delayed", "planned", "no"},
	} {
		s := Series{System: system.name}
		for i, at := range places {
			p, kind, err := waited(at.r, float64(i), at.label, append([]string{"mode", system.mode, "delayed", system.delayed}, at.of...)...)
			if err != nil {
				return err
			}
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		f.Series = append(f.Series, s)
	}
	for _, mode := range []string{"BagPipe (lrpp)", "ecrec (planned)"} {
		var checks []Check
		for _, at := range places {
			checks = append(checks, below("", f.atLabel(mode+", delayed", at.label), f.atLabel(mode+", not delayed", at.label)))
		}
		f.Checks = append(f.Checks, all(mode+": a step waits less with delayed synchronisation", checks...))
	}
	f.Params = virtualParams(reports[0])
	f.Notes = append(f.Notes, virtualNotes...)
	f.Notes = append(f.Notes, "Shown is the time of a step beyond the ideal step: what of the synchronisation does not fit beside computing.")
	return nil
}

// drawIdeal draws the iteration of each mode beside the ideal one, on two machines.
func drawIdeal(f *Figure, reports []*bench.Report) error {
	labels, of := []string{"p3, DLRM", "g5, DLRM", "p3, DeepFM", "g5, DeepFM"}, [][]string{{}, {}, {}, {}}
	for i := 2; i < 4; i++ {
		dense, _ := denseOf(reports[i])
		of[i] = []string{"dense", dense}
	}
	reports = append(reports, reports[2], reports[3])
	for i, m := range []string{"p3", "g5"} {
		_, dense := denseOf(reports[2+i])
		labels, of = append(labels, m+", DeepFM, weights in rows"), append(of, []string{"dense", dense})
	}
	for _, x := range []struct{ system, mode string }{{"BagPipe", "lrpp"}, {"ecrec (planned)", "planned"}, {"ideal", "ideal"}} {
		s := Series{System: x.system, Dashed: x.mode == "ideal"}
		for i, label := range labels {
			at := append([]string{"mode", x.mode, "law", "bursts"}, of[i]...)
			if x.mode != "ideal" {
				at = append(at, "delayed", "yes")
			}
			p, kind, err := point(reports[i], float64(i), label, "step", at...)
			if err != nil {
				return err
			}
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		f.Series = append(f.Series, s)
	}
	var slower, nearer []Check
	for i, label := range labels {
		slower = append(slower, above("", f.atLabel("BagPipe", label), f.atLabel("ideal", label)),
			above("", f.atLabel("ecrec (planned)", label), f.atLabel("ideal", label)))
		if i < 2 {
			nearer = append(nearer, below("", over(f.atLabel("BagPipe", labels[i+2]), f.atLabel("ideal", labels[i+2])),
				over(f.atLabel("BagPipe", label), f.atLabel("ideal", label))))
		}
	}
	f.Checks = []Check{
		all("a step that exchanges rows takes longer than the ideal one", slower...),
		all("DeepFM is nearer to its ideal step than DLRM", nearer...),
		above("the faster link brings BagPipe's DLRM nearer to the ideal step in ms",
			minus(f.atLabel("BagPipe", labels[0]), f.atLabel("ideal", labels[0])), minus(f.atLabel("BagPipe", labels[1]), f.atLabel("ideal", labels[1]))),
	}
	f.Params = virtualParams(reports[0], Param{"ranks", "8", "8"}, Param{"dense parameters of DeepFM", "33,851,283", deepFMDense + "; weights in rows: " + deepFMInRows})
	f.Notes = append(f.Notes, virtualNotes...)
	f.Notes = append(f.Notes, "The rows of DeepFM have 48 floats here also where the weights would be in them; they would have 49.",
		"Our ideal step has the dense all-reduce of the paper's model over the same link.")
	return nil
}

func trainersRuns(size Size) []Run {
	ranks := map[Size]string{Tiny: "ranks=2,3,4", Quick: "ranks=4,8,16", Full: "ranks=4,8,16,32,64"}[size]
	ahead := map[Size]string{Tiny: "lookahead=3", Quick: "lookahead=5", Full: "lookahead=10"}[size]
	return []Run{virtualRun(size, 3, p3[0], p3[1], ranks, "modes=ideal,planned,lrpp", "law=bursts", ahead)}
}

// drawTrainers draws the throughput over the number of trainers.
func drawTrainers(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	for _, x := range []struct{ system, mode string }{{"BagPipe", "lrpp"}, {"ecrec (planned)", "planned"}, {"ideal", "ideal"}} {
		s, err := line(r, x.system, "samples", "ranks", "mode", x.mode)
		if err != nil {
			return err
		}
		s.Dashed = x.mode == "ideal"
		f.Series = append(f.Series, s)
	}
	for _, system := range []string{"BagPipe", "ecrec (planned)"} {
		points := f.points(system)
		f.Checks = append(f.Checks, rising(system+": more trainers, more samples per second", points),
			growsLess(system+": the throughput grows by a smaller factor than the trainers", points))
	}
	f.Checks = append(f.Checks, all("planned: at least half of the ideal throughput at each number of trainers", shares(f, "ecrec (planned)", "ideal", 0.5)...))
	f.Params = virtualParams(r, Param{"trainers", "4 to 32", r.Settings["ranks"]})
	f.Notes = append(f.Notes, virtualNotes...)
	f.Notes = append(f.Notes, "Each rank also owns rows: more trainers bring more links to the rows. The paper's server has one: "+
		"ours is stronger. The lookahead is shorter than the paper's; a longer one changes no critical traffic.")
	return nil
}

// shares checks that each point of a system is at least a share of another system's at the same place.
func shares(f *Figure, system, of string, share float64) (checks []Check) {
	for _, p := range f.points(system) {
		checks = append(checks, atLeast("", over(p, f.at(of, p.X)), share))
	}
	return checks
}

// batchSizes are those of B16b.
func batchSizes(size Size) []int {
	switch size {
	case Tiny:
		return []int{64, 128}
	case Quick:
		return []int{16384, 32768}
	}
	return []int{16384, 32768, 65536, 131072}
}

// batchRuns runs each batch with a wait in proportion to it, and all of them with that of the least.
func batchRuns(size Size) (runs []Run) {
	var all []string
	modes := []string{"ranks=8", "modes=ideal,planned,lrpp", "law=bursts", "lookahead=5"}
	for i, b := range batchSizes(size) {
		all = append(all, strconv.Itoa(b))
		if i > 0 {
			ideal := fmt.Sprintf("ideal=%dms", 30*b/batchSizes(size)[0])
			runs = append(runs, virtualRun(size, 2, append([]string{p3[0], ideal, "batch=" + strconv.Itoa(b)}, modes...)...))
		}
	}
	return append(runs, virtualRun(size, 2, append([]string{p3[0], p3[1], "batch=" + strings.Join(all, ",")}, modes...)...))
}

// drawBatches draws the iteration over the batch.
func drawBatches(f *Figure, reports []*bench.Report) error {
	last := reports[len(reports)-1]
	for _, x := range []struct{ system, mode string }{{"BagPipe", "lrpp"}, {"ecrec (planned)", "planned"}, {"ideal", "ideal"}} {
		fixed, err := line(last, x.system+", one wait", "step", "batch", "mode", x.mode)
		if err != nil {
			return err
		}
		grown := Series{System: x.system + ", wait in proportion", Kind: fixed.Kind, Points: fixed.Points[:1:1], Dashed: x.mode == "ideal"}
		for i, r := range reports[:len(reports)-1] {
			p, kind, err := point(r, fixed.Points[i+1].X, "", "step", "mode", x.mode)
			if err != nil {
				return err
			}
			if err := grown.addPoint(p, kind); err != nil {
				return err
			}
		}
		fixed.Dashed = x.mode == "ideal"
		f.Series = append(f.Series, fixed, grown)
	}
	for _, system := range []string{"BagPipe, one wait", "ecrec (planned), one wait", "BagPipe, wait in proportion", "ecrec (planned), wait in proportion"} {
		f.Checks = append(f.Checks, growsLess(system+": the time of an iteration grows by a smaller factor than the batch", f.points(system)))
	}
	f.Params = virtualParams(last, Param{"batches", "16,384 to 131,072", last.Settings["batch"]}, Param{"ranks", "8", last.Settings["ranks"]})
	f.Notes = append(f.Notes, virtualNotes...)
	f.Notes = append(f.Notes, "How the computing of a GPU grows with the batch is not in the paper. One wait for all batches is the "+
		"least, a wait in proportion the most: a GPU is between them.")
	return nil
}

func lookaheadStepRuns(size Size) []Run {
	switch size {
	case Tiny:
		return []Run{{Bench: "cache"}, virtualRun(size, 1, p3[0], p3[1], "modes=ideal,lrpp", "lookahead=2,4")}
	case Quick:
		return []Run{{Bench: "cache", Args: []string{"lookahead=50", "sizes=5,10", "steps=5"}},
			virtualRun(size, 1, p3[0], p3[1], "modes=ideal,lrpp", "law=bursts", "lookahead=5,10,50")}
	}
	return []Run{{Bench: "cache", Args: []string{"lookahead=300", "sizes=5,10,50,100,200", "steps=10"}},
		virtualRun(size, 2, p3[0], p3[1], "modes=ideal,lrpp", "law=bursts", "lookahead=5,10,50,100,200,300", "warmup=20")}
}

// drawLookaheadSteps draws the size of a trainer's cache, and the iteration, over the lookahead.
func drawLookaheadSteps(f *Figure, reports []*bench.Report) error {
	cache, err := line(reports[0], "cache", "cache", "lookahead")
	if err != nil {
		return err
	}
	cache = scaledSeries(cache, 1e-6)
	step, err := line(reports[1], "iteration", "step", "lookahead", "mode", "lrpp")
	if err != nil {
		return err
	}
	for i := range step.Points {
		step.Points[i].Unit = "ms"
	}
	f.Series = append(f.Series, cache, step)
	f.Checks = []Check{
		rising("the cache grows with the lookahead", f.points("cache")),
		growsLess("the cache grows by a smaller factor than the lookahead", f.points("cache")),
		flat("the time of an iteration does not depend on the lookahead: a row is fetched one step early", f.points("iteration"), 0.1),
	}
	f.Params = virtualParams(reports[1], Param{"cache", "of a trainer", "of a trainer: weights, at the peak"})
	f.Notes = append(f.Notes, virtualNotes...)
	f.Notes = append(f.Notes, "BagPipe waits for rows with a short lookahead, since its server needs that time. Ours are fetched "+
		"while the step before computes, with any lookahead.")
	return nil
}
