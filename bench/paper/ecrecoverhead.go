package paper

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// ecrecOverhead are the figures of ECRec about training without a failure, with emulated links, computing and store.
func ecrecOverhead() []Drawing {
	return []Drawing{
		{ID: "E5", Runs: overheadRuns, Draw: drawOverhead},
		{ID: "E6", Runs: overheadRuns, Draw: drawOverTime(30)},
		{ID: "E7", Runs: overheadRuns, Draw: drawDone(30)},
		{ID: "E8", Runs: overheadRuns, Draw: drawOverTime(60)},
		{ID: "E9", Runs: overheadRuns, Draw: drawDone(60)},
		{ID: "E-wide", Runs: wideRuns, Draw: drawWide},
		{ID: "E-ablation", Runs: ablationRuns, Draw: drawAblation},
		{ID: "E-links", Runs: linkRuns, Draw: drawLinks},
		{ID: "E-ranks", Runs: recoveryOverRanks, Draw: drawRecoveryOverRanks},
		{ID: "E13", Runs: overheadRuns, Draw: drawCompression},
	}
}

// protectionRun is a run of bench protection. Tiny ones have its own scale, batch and interval of commits.
func protectionRun(size Size, args ...string) []Run {
	r := Run{Bench: "protection", Args: args, Repeats: 1}
	switch size {
	case Quick:
		r.Args = append(args, "scale=8000", "batch=256")
	case Full:
		r.Args, r.Repeats = append(args, "scale=1000"), 3
	}
	return []Run{r}
}

func overheadRuns(size Size) []Run {
	sizes := "sizes=Original,8S"
	if size == Full {
		sizes = "sizes=Original,2S,4S,8S"
	}
	return protectionRun(size, sizes, "systems=k2,k4,ckpt-30,ckpt-60")
}

func wideRuns(size Size) []Run {
	return protectionRun(size, "sizes=4S,2S-2D", "systems=k4", "timeline=none")
}

func ablationRuns(size Size) []Run {
	every := map[Size]string{Tiny: "every=1,2", Quick: "every=1,10", Full: "every=1,10,50"}[size]
	return protectionRun(size, "sizes=Original", "systems=k4,like,like-nocopies,like-bare", every, "timeline=none")
}

// ecrecSystem is a system of these figures, and its case in reports.
type ecrecSystem struct {
	name string
	of   []string
}

// oursOf is our code.
func oursOf(k int, every string) ecrecSystem {
	return ecrecSystem{fmt.Sprintf("ecrec k=%d", k), []string{"system", "ours", "k", strconv.Itoa(k), "every", every}}
}

// checkpointsOf is ckpt-full.
func checkpointsOf(minutes int) ecrecSystem {
	return ecrecSystem{fmt.Sprintf("Ckpt-%d", minutes), []string{"system", "ckpt-full", "minutes", strconv.Itoa(minutes)}}
}

// saves are the notes on ckpt-full.
var saves = []string{
	"Ckpt-30 and Ckpt-60 are our ckpt-full: training stops, all touched rows, state and the dense part are written to real files, " +
		"and training continues after the longer of that and of the bytes at the rate of the store. The paper's writes to HDFS. Ours " +
		"checks sums as it writes, which costs it nothing here; it waits for no replicas: stronger than the paper's.",
	"Our code commits every few steps beside training, and trainers are synchronous, so each has the dense part: no copies of it " +
		"are sent. ECRec commits each step.",
}

// scaleOf is the scale of a report.
func scaleOf(r *bench.Report) float64 {
	s, _ := strconv.ParseFloat(r.Settings["scale"], 64) // checked by the benchmark
	return s
}

// scaledParams are the parameters of runs with a scale.
func scaledParams(r *bench.Report) []Param {
	s := scaleOf(r)
	return []Param{
		{"scale s, of rows and of each time that belongs to the size", "1", number(s)},
		{"rows of Original", "197,767,405 (public code)", number(197767405 / s)},
		{"interval of checkpoints", "30 and 60 min", fmt.Sprintf("%s and %s s", number(1800/s), number(3600/s))},
		{"servers", "5", r.Settings["ranks"] + " ranks"},
	}
}

// shapedParams are those of bench protection.
func shapedParams(r *bench.Report) []Param {
	return append(scaledParams(r), []Param{
		{"trainers", "15, with a V100, asynchronous", r.Settings["ranks"] + " ranks, each also a server, synchronous"},
		{"batch", "2,048 a trainer", r.Settings["batch"] + " a rank"},
		{"links", "25 Gb/s (servers), 10 Gb/s (trainers)", r.Settings["link"]},
		{"forward and backward", "not in the text", r.Settings["compute"] + ", a wait: BagPipe's ideal step, on the same GPU with the " +
			"same samples"},
		{"store", "1.4 to 1.5 GB/s, computed from the overhead of Ckpt-30", r.Settings["store"] + " MB/s, or the disk if that is slower"},
		{"steps between commits", "1", r.Settings["every"]},
	}...)
}

func sizesOf(r *bench.Report) []string { return strings.Split(r.Settings["sizes"], ",") }
func everyOf(r *bench.Report) string   { return strings.Split(r.Settings["every"], ",")[0] }

func drawOverhead(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	sizes := sizesOf(r)
	for _, s := range []ecrecSystem{oursOf(2, everyOf(r)), oursOf(4, everyOf(r)), checkpointsOf(30), checkpointsOf(60)} {
		x, err := bars(r, s.name, "overhead", "size", sizes, s.of...)
		if err != nil {
			return err
		}
		f.Series = append(f.Series, x)
	}
	parts, err := bars(r, "ecrec k=4, sum of its parts", "overhead by parts", "size", sizes, oursOf(4, everyOf(r)).of...)
	if err != nil {
		return err
	}
	f.Series = append(f.Series, parts)
	if err := addByRate(f, r, sizes); err != nil {
		return err
	}
	last := sizes[len(sizes)-1]
	of := func(system, size string) Point { return f.atLabel(system, size) }
	f.Checks = []Check{
		rising("the overhead of Ckpt-30 grows with the size", f.points("Ckpt-30")),
		rising("the overhead of Ckpt-60 grows with the size", f.points("Ckpt-60")),
		above("from Original to 8S, that of Ckpt-30 grows by more than that of the code", minus(of("Ckpt-30", last), of("Ckpt-30", sizes[0])),
			minus(of("ecrec k=4", last), of("ecrec k=4", sizes[0]))),
		below("8S: the code costs less than Ckpt-30", of("ecrec k=4", last), of("Ckpt-30", last)),
		below("Original: Ckpt-30 costs less than the code, as in the paper", of("Ckpt-30", sizes[0]), of("ecrec k=4", sizes[0])),
		within("8S: k=2 and k=4 differ by at most 5 points", minus(of("ecrec k=2", last), of("ecrec k=4", last)), -5, 5),
	}
	f.Params = shapedParams(r)
	f.Notes = append(f.Notes, saves...)
	f.Notes = append(f.Notes, "The sum of the parts is the time of rank 0's training goroutine for protection, of a step without: "+
		"it has no noise of the machine, and leaves out the cost of traffic in the background.")
	return nil
}

// addByRate adds the overhead of checkpoints by their bytes at the rate of the store.
func addByRate(f *Figure, r *bench.Report, sizes []string) error {
	store, _ := strconv.ParseFloat(r.Settings["store"], 64) // checked by the benchmark
	if store == 0 {
		return nil
	}
	for _, minutes := range []int{30, 60} {
		s, err := bars(r, fmt.Sprintf("Ckpt-%d, by bytes and rate", minutes), "bytes of a checkpoint", "size", sizes,
			checkpointsOf(minutes).of...)
		if err != nil {
			return err
		}
		s = scaledSeries(s, 100/(store*1e6)/(60*float64(minutes)/scaleOf(r)))
		s.Kind, s.Dashed = bench.Modelled, true
		f.Series = append(f.Series, s)
	}
	return nil
}

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
	f.Notes = append(f.Notes, "Each curve is the blocks of its system end to end: they were measured by turns, so that changes of "+
		"the machine affect all of them. Blocks of the code have at least 20 steps, so curves differ in length. Steps do not shrink "+
		"with the scale, so a window of ours has fewer of them than one of the paper.")
	return nil
}

func drawOverTime(minutes int) func(*Figure, []*bench.Report) error {
	return func(f *Figure, reports []*bench.Report) error {
		r := reports[0]
		if err := overTime(f, r, minutes, "throughput"); err != nil {
			return err
		}
		system := fmt.Sprintf("Ckpt-%d", minutes)
		means, err := addMeans(f, r, minutes)
		if err != nil {
			return err
		}
		stands, err := standsStill(f, r, minutes)
		if err != nil {
			return err
		}
		f.Checks = []Check{stands,
			atLeast("the mean with k=4 is at least 70 % of that without fault tolerance", over(means["ecrec k=4"], means["no fault tolerance"]), 0.7)}
		if minutes == 30 {
			f.Checks = append(f.Checks, below("the mean of Ckpt-30 is below that of k=4", means[system], means["ecrec k=4"]))
		} else {
			f.Checks = append(f.Checks, near("the mean of Ckpt-60 is within 25 % of that of k=4", means[system], means["ecrec k=4"].Y, 0.25))
		}
		return nil
	}
}

// addMeans adds the mean of each curve.
func addMeans(f *Figure, r *bench.Report, minutes int) (map[string]Point, error) {
	means := map[string]Point{}
	for _, s := range []ecrecSystem{{"no fault tolerance", []string{"system", "noft"}}, oursOf(2, everyOf(r)), oursOf(4, everyOf(r)),
		checkpointsOf(minutes)} {
		p, kind, err := point(r, 0, "", "mean throughput", append([]string{"size", "8S"}, s.of...)...)
		if err != nil {
			return nil, err
		}
		means[s.name] = p
		points := f.points(s.name)
		end := p
		p.X, end.X = points[0].X, points[len(points)-1].X
		f.Series = append(f.Series, Series{System: s.name + ", mean", Kind: kind, Dashed: true, Points: []Point{p, end}})
	}
	return means, nil
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
		saved, coded, err := doneInOneTime(f, reports[0], minutes)
		if err != nil {
			return err
		}
		if minutes == 30 {
			f.Checks = []Check{below("Ckpt-30 has done fewer samples than k=4 until the shorter curve ends", saved, coded)}
			return nil
		}
		f.Checks = []Check{near("Ckpt-60 has done as many samples as k=4 until the shorter curve ends, within 25 %", saved, coded.Y, 0.25)}
		return nil
	}
}

// doneInOneTime returns the samples that checkpoints and the code do until the shorter of their curves ends, by the mean throughput of
// each block. A curve itself has no spread: it is all blocks end to end.
func doneInOneTime(f *Figure, r *bench.Report, minutes int) (saved, coded Point, err error) {
	var end float64
	mean := func(s ecrecSystem) Point {
		points := f.points(s.name)
		if len(points) == 0 || err != nil {
			return Point{}
		}
		if last := points[len(points)-1].X; end == 0 || last < end {
			end = last
		}
		var p Point
		p, _, err = point(r, 0, "", "mean throughput", append([]string{"size", "8S"}, s.of...)...)
		return p
	}
	saved, coded = mean(checkpointsOf(minutes)), mean(oursOf(4, everyOf(r)))
	return scaled(saved, end), scaled(coded, end), err
}

func drawWide(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	for _, s := range []struct{ name, quantity string }{{"ecrec k=4", "overhead"}, {"ecrec k=4, sum of its parts", "overhead by parts"}} {
		x, err := bars(r, s.name, s.quantity, "size", sizesOf(r), oursOf(4, everyOf(r)).of...)
		if err != nil {
			return err
		}
		f.Series = append(f.Series, x)
	}
	f.Checks = []Check{above("2S-2D costs more than 4S, which has as many bytes", f.atLabel("ecrec k=4", "2S-2D"), f.atLabel("ecrec k=4",
		"4S"))}
	f.Params = shapedParams(r)
	f.Notes = append(f.Notes, saves[1])
	return nil
}

func drawAblation(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	like := Series{System: "ecrec-like k=4"}
	for i, x := range []struct{ label, copies, phases string }{{"all", "true", "true"}, {"without copies of the NN", "false", "true"},
		{"also without two-phase commit", "false", "false"}} {
		p, kind, err := point(r, float64(i), x.label, "overhead", "size", "Original", "system", "ecrec-like", "copies", x.copies,
			"two_phase", x.phases)
		if err != nil {
			return err
		}
		if err := like.addPoint(p, kind); err != nil {
			return err
		}
	}
	ours := Series{System: "ecrec k=4"}
	for i, every := range strings.Split(r.Settings["every"], ",") {
		p, kind, err := point(r, float64(3+i), "a commit every "+every, "overhead", append([]string{"size", "Original"}, oursOf(4,
			every).of...)...)
		if err != nil {
			return err
		}
		if err := ours.addPoint(p, kind); err != nil {
			return err
		}
	}
	f.Series = []Series{like, ours}
	f.Checks = []Check{
		falling("each part of ECRec costs time", like.Points),
		falling("fewer commits cost less", ours.Points),
		below("our commits every step cost less than ECRec's, with all its parts", ours.Points[0], like.Points[0]),
	}
	f.Params = shapedParams(r)
	f.Notes = append(f.Notes, "ecrec-like is ECRec's commit on our kernels, data order and links: differences of rows, as floats, "+
		"to the holder of a float-sum parity, two round trips in the foreground, and the dense gradient to a second server. All ranks "+
		"wait for it, where ECRec's trainers are asynchronous and overlap: weaker. No optimizer updates the copy of the dense part: stronger.",
		"Our code has no such copies: trainers are synchronous, so all of them have the dense part.")
	return nil
}

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
	f.Checks = []Check{
		atLeast("Ckpt-30 costs as much as the code only if it is compressed by more than 60 %", meets, 60),
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
	return Point{Y: 100 * (1 - p.Y), Least: 100 * (1 - p.Most), Most: 100 * (1 - p.Least), N: p.N, Single: p.Single, Unit: "%"}
}
