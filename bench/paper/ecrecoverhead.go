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
		{ID: "E-clocks", Runs: clockRuns, Draw: drawClocks},
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
	"Ckpt-30 and Ckpt-60 are our ckpt-full: training stops, all rows, state and the dense part are written to real files, " +
		"and training continues after the longer of that and of the bytes of the rows at the rate of the store. The paper's writes to HDFS. " +
		"It waits for no replicas: stronger than the paper's. While the disk is slower than the store, it is weaker: so checks that need its cost " +
		"are also made by the bytes of the rows at the rate of the store, the least that it can cost.",
	"The dense part has its full size at any scale. It is written, but takes no time at the rate of the store.",
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
	checkOverhead(f, sizes)
	if err := addGrowth(f, r, sizes); err != nil {
		return err
	}
	f.Params = shapedParams(r)
	f.Notes = append(f.Notes, saves...)
	f.Notes = append(f.Notes, "The sum of the parts is the time of rank 0's training goroutine for protection, of a step without: "+
		"it has no noise of the machine, and leaves out the cost of traffic in the background.")
	return nil
}

// checkOverhead checks the overheads of the sizes.
func checkOverhead(f *Figure, sizes []string) {
	last := sizes[len(sizes)-1]
	of := func(system, size string) Point { return f.atLabel(system, size) }
	var less []Check
	for _, size := range sizes {
		less = append(less, below("", of("Ckpt-60", size), of("Ckpt-30", size)))
	}
	f.Checks = []Check{
		rising("the overhead of Ckpt-30 grows with the size", f.points("Ckpt-30")),
		rising("the overhead of Ckpt-60 grows with the size", f.points("Ckpt-60")),
		all("on each size Ckpt-60 costs less than Ckpt-30", less...),
		below("8S: the code costs less than Ckpt-30", of("ecrec k=4", last), of("Ckpt-30", last)),
		below("Original: Ckpt-30 costs less than the code, as in the paper", of("Ckpt-30", sizes[0]), of("ecrec k=4", sizes[0])),
		within("8S: k=2 and k=4 differ by at most 5 points", minus(of("ecrec k=2", last), of("ecrec k=4", last)), -5, 5),
	}
	if f.series(nameByRate(30)) != nil {
		f.Checks = append(f.Checks,
			below("8S: the code costs less than Ckpt-30"+byBytes, of("ecrec k=4", last), of(nameByRate(30), last)),
			below("Original: Ckpt-30 costs less than the code"+byBytes, of(nameByRate(30), sizes[0]), of("ecrec k=4", sizes[0])))
	}
}

// addGrowth adds the factors by which the overheads grow from the first size to the last one, and checks them against the paper's. It also
// checks that the rows of a checkpoint grow as those of the model do.
func addGrowth(f *Figure, r *bench.Report, sizes []string) error {
	first, last := sizes[0], sizes[len(sizes)-1]
	label := last + " over " + first
	grows := func(system, paper string) Point {
		p := overPositive(f.atLabel(system, last), f.atLabel(system, first))
		p.X, p.Label = float64(len(sizes)), label
		if p.N > 0 {
			s := f.series(system)
			s.Points = append(s.Points, p)
		}
		if want, ok := f.paperAt(paper, 0, label); ok {
			f.Checks = append(f.Checks, nearIfKnown(fmt.Sprintf("from %s to %s the overhead of %s grows %s times as in the paper, within 25 %%", first,
				last, system, number(want)), p, want, 0.25))
		}
		return p
	}
	code, saved := grows("ecrec k=4", "ECRec k=4"), grows("Ckpt-30", "Ckpt-30")
	grows("Ckpt-60", "Ckpt-60")
	f.Checks = append(f.Checks, aboveIfKnown("from "+first+" to "+last+
		" the overhead of Ckpt-30 grows by a greater factor than that of the code", saved, code))
	of := append([]string{"size", first}, checkpointsOf(30).of...)
	written, all := Point{}, Point{}
	for _, x := range []struct {
		to   *Point
		name string
	}{{&written, "bytes of its rows"}, {&all, "rows and state"}} {
		a, _, err := point(r, 0, "", x.name, of...)
		if err != nil {
			return err
		}
		b, _, err := point(r, 0, "", x.name, append([]string{"size", last}, checkpointsOf(30).of...)...)
		if err != nil {
			return err
		}
		*x.to = over(b, a)
	}
	f.Checks = append(f.Checks, near(fmt.Sprintf("the rows of a checkpoint grow %s times, as those of the model, within 10 %%", number(all.Y)),
		written, all.Y, 0.1))
	return nil
}

func nameByRate(minutes int) string {
	return fmt.Sprintf("%s, by bytes and rate", checkpointsOf(minutes).name)
}

// byRate is the overhead of checkpoints of a size if a save took the bytes of its rows at the rate of the store. The setting store is not 0.
func byRate(r *bench.Report, x float64, size string, minutes int) (Point, error) {
	store, _ := strconv.ParseFloat(r.Settings["store"], 64) // checked by the benchmark
	p, _, err := point(r, x, size, "bytes of its rows", append([]string{"size", size}, checkpointsOf(minutes).of...)...)
	return scaled(p, 100/(store*1e6)/(60*float64(minutes)/scaleOf(r))), err
}

func hasStore(r *bench.Report) bool { return r.Settings["store"] != "0" }

// addByRate adds the overhead of checkpoints by their bytes at the rate of the store.
func addByRate(f *Figure, r *bench.Report, sizes []string) error {
	if !hasStore(r) {
		return nil
	}
	for _, minutes := range []int{30, 60} {
		s := Series{System: nameByRate(minutes), Kind: bench.Modelled, Dashed: true}
		for i, size := range sizes {
			p, err := byRate(r, float64(i), size, minutes)
			if err != nil {
				return err
			}
			s.Points = append(s.Points, p)
		}
		f.Series = append(f.Series, s)
	}
	return nil
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
	f.Notes = append(f.Notes, saves[len(saves)-1])
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
