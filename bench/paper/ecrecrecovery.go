package paper

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// ecrecRecovery are the figures of ECRec about failures: real kills of real processes.
func ecrecRecovery() []Drawing {
	return []Drawing{
		{ID: "E10", Runs: faultRuns, Draw: drawFailure(30)},
		{ID: "E11", Runs: faultRuns, Draw: drawFailure(60)},
		{ID: "E12", Runs: faultRuns, Draw: drawRecoveryTimes},
		{ID: "E-locks", Runs: rateRuns, Draw: drawRates},
	}
}

func faultRuns(size Size) []Run {
	r := Run{Bench: "faults", Repeats: 1}
	switch size {
	case Tiny:
		r.Args = []string{"sizes=4S", "k=2,4", "minutes=30,60"}
	case Quick:
		r.Args = []string{"sizes=4S", "scale=16000", "batch=512"}
	case Full:
		r.Args, r.Repeats = []string{"sizes=Original,4S,8S", "scale=3000"}, 2
	}
	return []Run{r}
}

// moments are the moments of a kill between two checkpoints, by their names in the paper.
var moments = []struct{ paper, ours string }{{"best", "after"}, {"average", "half"}, {"worst", "before"}}

// faultNotes are the notes on bench faults.
var faultNotes = []string{
	"Each value is a run of real processes, one for each rank, of which rank 1 is killed by SIGKILL; all rows were touched before. " +
		"The digest is that of a run without a loss.",
	"Ckpt-30 and Ckpt-60 are our ckpt-full, without a code: training waits for each save, the job ends with the loss and is started " +
		"again at once, loads and repeats steps. Best, average and worst are kills just after a save, half-way, and just before one. A " +
		"scheduler's wait is left out: stronger than the paper's.",
	"The start of processes takes the same time at any scale, so it weighs more here than in the paper. Checkpoints need it for all " +
		"ranks, the code for one. Computing is left out (a layer before and after the interaction), so steps are repeated sooner: " +
		"stronger for checkpoints.",
	"The disk is as it is, and files may be in the page cache: stronger for checkpoints.",
}

// faultParams are those of bench faults.
func faultParams(r *bench.Report) []Param {
	return append(scaledParams(r), []Param{
		{"batch", "2,048 a trainer, 15 trainers", r.Settings["batch"] + " in all"},
		{"moment of the failure", "15 min", fmt.Sprintf("%s s, after some first steps; with checkpoints just after a save, half-way, "+
			"just before", number(900/scaleOf(r)))},
		{"bound on the rate of a rebuild", "none", "ec.rebuild_rate = " + r.Settings["rate"]},
		{"steps between commits", "1", r.Settings["every"]},
	}...)
}

// lossOfOurs and lossOfCheckpoints are the cases of a kill.
func lossOfOurs(size string, k int) []string {
	return []string{"size", size, "system", "ours", "k", strconv.Itoa(k), "moment", "step"}
}

func lossOfCheckpoints(size string, minutes int, moment string) []string {
	return []string{"size", size, "system", "ckpt-full", "minutes", strconv.Itoa(minutes), "moment", moment}
}

// drawFailure draws the throughput around a failure on 4S.
func drawFailure(minutes int) func(*Figure, []*bench.Report) error {
	return func(f *Figure, reports []*bench.Report) error {
		r := reports[0]
		systems := []ecrecSystem{{"no fault tolerance", []string{"size", "4S", "system", "noft"}}, {"ecrec k=2", lossOfOurs("4S", 2)},
			{"ecrec k=4", lossOfOurs("4S", 4)}}
		for _, m := range moments {
			systems = append(systems, ecrecSystem{fmt.Sprintf("Ckpt-%d, %s", minutes, m.paper), lossOfCheckpoints("4S", minutes, m.ours)})
		}
		for _, s := range systems {
			x, err := line(r, s.name, "throughput", "at", s.of...)
			if err != nil {
				return err
			}
			f.Series = append(f.Series, x)
		}
		if err := checkFailure(f, r, minutes); err != nil {
			return err
		}
		f.Params = faultParams(r)
		f.Notes = append(f.Notes, faultNotes...)
		return nil
	}
}

func checkFailure(f *Figure, r *bench.Report, minutes int) error {
	resume, _, err := point(r, 0, "", "resume", lossOfOurs("4S", 4)...)
	if err != nil {
		return err
	}
	stands, _, err := point(r, 0, "", "resume", lossOfCheckpoints("4S", minutes, "half")...)
	if err != nil {
		return err
	}
	f.Checks = append(f.Checks, below("training continues sooner with the code than from a checkpoint", resume, stands),
		atMost("training continues within 30 s with the code", scaled(resume, 1e-3), 30))
	kept, _, err := point(r, 0, "", "throughput while recovering, of normal", lossOfOurs("4S", 4)...)
	if err != nil { // the rebuild ended with the first step
		kept = Point{}
	}
	f.Checks = append(f.Checks, atLeast("k=4 keeps at least 87 % of its throughput while it rebuilds", kept, 87))
	net, _, err := point(r, 0, "", "net samples until recovered, of normal", lossOfOurs("4S", 4)...)
	if err != nil {
		return err
	}
	f.Checks = append(f.Checks, above("until all is rebuilt, k=4 trains samples that were not trained before; checkpoints train none",
		net, Point{N: 1}))
	done, _ := line(r, "", "samples done", "at", lossOfOurs("4S", 4)...)
	redone, _ := line(r, "", "samples done", "at", lossOfCheckpoints("4S", minutes, "before")...)
	coded, saved := atSameTime(done.Points, redone.Points)
	f.Checks = append(f.Checks, above(fmt.Sprintf("k=4 has done more samples than Ckpt-%d at its worst, at the end of the shorter curve",
		minutes), coded, saved))
	return nil
}

// drawRecoveryTimes draws the times to recover, in seconds.
func drawRecoveryTimes(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	sizes := sizesOf(r)
	for _, k := range []int{2, 4} {
		for _, x := range []struct{ name, quantity string }{{"ecrec k=%d", "recovered"}, {"ecrec k=%d, training continues", "resume"}} {
			s := Series{System: fmt.Sprintf(x.name, k)}
			for i, size := range sizes {
				p, kind, err := point(r, float64(i), size, x.quantity, lossOfOurs(size, k)...)
				if err != nil {
					return err
				}
				if err := s.addPoint(scaled(p, 1e-3), kind); err != nil {
					return err
				}
			}
			f.Series = append(f.Series, s)
		}
	}
	for _, minutes := range []int{30, 60} {
		s := Series{System: fmt.Sprintf("Ckpt-%d", minutes)}
		for i, size := range sizes {
			var of [3]Point
			for n, m := range moments {
				p, kind, err := point(r, float64(i), size, "recovered", lossOfCheckpoints(size, minutes, m.ours)...)
				if err != nil {
					return err
				}
				of[n], s.Kind = scaled(p, 1e-3), kind
			}
			p := of[1]
			p.Least, p.Most = min(of[0].Y, p.Y, of[2].Y), max(of[0].Y, p.Y, of[2].Y)
			s.Points = append(s.Points, p)
		}
		f.Series = append(f.Series, s)
	}
	checkRecoveryTimes(f, sizes)
	f.Params = faultParams(r)
	f.Notes = append(f.Notes, faultNotes...)
	f.Notes = append(f.Notes, "The bars of Ckpt-30 and Ckpt-60 are the average moment; their spread is from the best to the worst moment.")
	return nil
}

func checkRecoveryTimes(f *Figure, sizes []string) {
	last := sizes[len(sizes)-1]
	of := func(system, size string) Point { return f.atLabel(system, size) }
	average := func(minutes int, size string) Point { // without the spread of the moments
		p := of(fmt.Sprintf("Ckpt-%d", minutes), size)
		p.Least, p.Most = p.Y, p.Y
		return p
	}
	f.Checks = []Check{
		above("a higher k is slower, on "+last, of("ecrec k=4", last), of("ecrec k=2", last)),
		below("k=4 is faster than the average of Ckpt-30 on "+last, of("ecrec k=4", last), average(30, last)),
		below("k=4 is faster than the average of Ckpt-60 on "+last, of("ecrec k=4", last), average(60, last)),
		atMost("training continues within 30 s, on "+last, of("ecrec k=4, training continues", last), 30),
	}
	if first := sizes[0]; first != last {
		f.Checks = append(f.Checks, above("the time of the code grows faster with the size than that of checkpoints",
			over(of("ecrec k=4", last), of("ecrec k=4", first)), over(average(30, last), average(30, first))))
	}
}

func rateRuns(size Size) []Run {
	r := Run{Bench: "rebuild", Repeats: 1, Args: []string{"part=jobs", "rates=8MiB,32MiB,128MiB,auto,max"}}
	switch size {
	case Tiny:
		r.Args[1] = "rates=auto,max"
	case Quick:
		r.Args = []string{r.Args[0], "rates=auto,max", "kills=1", "first=40", "gap=40"}
	}
	return []Run{r}
}

// drawRates draws the throughput while a rank is rebuilt over the bound on the rate of the rebuild.
func drawRates(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	kept, took := Series{System: "ecrec k=4, of normal"}, Series{System: "ecrec k=4, time to rebuild"}
	for i, rate := range strings.Split(r.Settings["rates"], ",") {
		label := "ec.rebuild_rate = " + rate
		p, kind, err := point(r, float64(i), label, "throughput meanwhile, of normal", "rate", rate)
		if err == nil { // a rebuild that ends with the first step shows nothing of its throughput
			p.Unit = "%"
			if err := kept.addPoint(p, kind); err != nil {
				return err
			}
		}
		if p, kind, err = point(r, float64(i), label, "from loss to rebuilt", "rate", rate); err != nil {
			return err
		}
		p = scaled(p, 1e-3)
		p.Unit = "s"
		if err := took.addPoint(p, kind); err != nil {
			return err
		}
	}
	f.Series = []Series{took}
	if len(kept.Points) > 0 {
		f.Series = []Series{kept, took}
	}
	f.Checks = []Check{
		atLeast("with the default rate, at least 87 % of the throughput is kept", f.atLabel(kept.System, "ec.rebuild_rate = auto"), 87),
		below("without a bound, a rank is rebuilt sooner than at the least rate", took.Points[len(took.Points)-1], took.Points[0]),
	}
	f.Params = []Param{{"knob", "10 locks in place of 1", "ec.rebuild_rate, the bound on the rate of a rebuild"}, {"model", "E-DLRM",
		r.Settings["model"] + ", Criteo Kaggle"},
		{"rows lost", "all of a server", "the rows that a short run has touched"}}
	f.Notes = append(f.Notes, "Ours has no locks: all ranks rebuild in rounds between their steps, at a commit that all of them "+
		"hold, so no row is locked while it is decoded. ECRec's locks trade throughput for the time of a rebuild; the bound on its "+
		"rate does so here. The values are no gains over one lock, so they can't be compared with the paper's.")
	return nil
}

// atSameTime returns the last points of two curves before the shorter one ends. They have N = 0 if there are none.
func atSameTime(a, b []Point) (x, y Point) {
	if len(a) == 0 || len(b) == 0 {
		return x, y
	}
	end := min(a[len(a)-1].X, b[len(b)-1].X)
	last := func(points []Point) (p Point) {
		for _, q := range points {
			if q.X <= end {
				p = q
			}
		}
		return p
	}
	return last(a), last(b)
}
