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
		r.Args = []string{"sizes=4S", "k=2,4", "minutes=30,60", "rate=auto,max"}
	case Quick:
		r.Args = []string{"sizes=4S", "scale=16000", "batch=512", "rate=auto,max", "moments=step"}
	case Full:
		r.Args, r.Repeats = []string{"sizes=Original,4S,8S", "scale=3000", "rate=auto,max", "moments=step"}, 2
	}
	return []Run{r}
}

// moments are the moments of a kill between two checkpoints, by their names in the paper.
var moments = []struct{ paper, ours string }{{"best", "after"}, {"average", "half"}, {"worst", "before"}}

// faultNotes are the notes on bench faults.
var faultNotes = []string{
	"Each value is a run of real processes, one for each rank, of which rank 1 is killed by SIGKILL; all rows were written before. " +
		"The digest is that of a run without a loss. Times are from the loss, as the launcher recorded it. A pause for a checkpoint before " +
		"the loss is neither in them nor in the normal throughput.",
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
		{"bound on the rate of a rebuild", "none", "ec.rebuild_rate = " + r.Settings["rate"] + "; max: none"},
		{"steps between commits", "1", r.Settings["every"]},
	}...)
}

// lossOfOurs and lossOfCheckpoints are the cases of a kill. Ours is with the default of ec.rebuild_rate; lossAtRate has the rate.
func lossOfOurs(size string, k int) []string { return lossAtRate(size, k, "auto") }

func lossAtRate(size string, k int, rate string) []string {
	return []string{"size", size, "system", "ours", "k", strconv.Itoa(k), "rate", rate, "moment", "step"}
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
	resume, kind, err := point(r, 0, "training again, at most", "resume", lossOfOurs("4S", 4)...)
	if err != nil {
		return err
	}
	stands, _, err := point(r, 0, "", "resume", lossOfCheckpoints("4S", minutes, "half")...)
	if err != nil {
		return err
	}
	f.Checks = append(f.Checks, below("training continues sooner with the code than from a checkpoint", resume, stands))
	beside := Series{System: "ecrec k=4, since the loss", Kind: kind, Points: []Point{scaled(resume, 1e-3)}}
	beside.Points[0].Unit = "s"
	f.Series = append(f.Series, beside)
	kept, _, err := point(r, 0, "", "throughput while recovering, of normal", lossOfOurs("4S", 4)...)
	if err != nil { // the rebuild ended with the first step
		kept = Point{}
	}
	f.Checks = append(f.Checks, atLeast("k=4 keeps at least 87 % of its throughput while it rebuilds", kept, 87))
	net, _, err := point(r, 0, "", "net samples until recovered, of normal", lossOfOurs("4S", 4)...)
	if err != nil {
		return err
	}
	netSaved, _, err := point(r, 0, "", "net samples until recovered, of normal", lossOfCheckpoints("4S", minutes, "half")...)
	if err != nil {
		return err
	}
	f.Checks = append(f.Checks, above(fmt.Sprintf("until all is rebuilt, k=4 trains more samples that were not trained before, of normal, than "+
		"Ckpt-%d until the lost steps are repeated", minutes), net, netSaved))
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
		for _, x := range []struct{ name, quantity, rate string }{{"ecrec k=%d, rate=max", "recovered", "max"},
			{"ecrec k=%d, rate=auto", "recovered", "auto"}, {"ecrec k=%d, training continues", "resume", "auto"}} {
			s := Series{System: fmt.Sprintf(x.name, k)}
			for i, size := range sizes {
				p, kind, err := point(r, float64(i), size, x.quantity, lossAtRate(size, k, x.rate)...)
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
	average := map[int][]Point{} // with the spread of its repeats, by minutes
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
			average[minutes] = append(average[minutes], p)
			p.Least, p.Most = min(of[0].Y, p.Y, of[2].Y), max(of[0].Y, p.Y, of[2].Y)
			s.Points = append(s.Points, p)
		}
		f.Series = append(f.Series, s)
	}
	checkRecoveryTimes(f, sizes, average)
	if err := checkSavedRows(f, r, sizes); err != nil {
		return err
	}
	f.Params = faultParams(r)
	f.Notes = append(f.Notes, faultNotes...)
	f.Notes = append(f.Notes, "The bars of Ckpt-30 and Ckpt-60 are the average moment; their spread is from the best to the worst moment. Checks "+
		"take the spread of the repeats of the average moment.", "The paper bounds no rebuild, so checks compare rate=max. "+
		"The default rate=auto rebuilds slower beside faster training."+rateText(r, sizes[len(sizes)-1]))
	return nil
}

// rateText is a sentence with the throughput that each rate leaves while it rebuilds, empty if a rebuild shows none.
func rateText(r *bench.Report, size string) string {
	var texts []string
	for _, rate := range []string{"auto", "max"} {
		p, _, err := point(r, 0, "", "throughput while recovering, of normal", lossAtRate(size, 4, rate)...)
		if err != nil { // the rebuild ended with the first step
			return ""
		}
		texts = append(texts, fmt.Sprintf("%s keeps %s %%", rate, seen(p)))
	}
	return fmt.Sprintf(" On %s with k=4, %s of the throughput meanwhile.", size, strings.Join(texts, ", "))
}

// checkRecoveryTimes checks the times without a bound on the rate. average has those of checkpoints, by minutes and size.
func checkRecoveryTimes(f *Figure, sizes []string, average map[int][]Point) {
	end := len(sizes) - 1
	last := sizes[end]
	of := func(k int, size string) Point { return f.atLabel(fmt.Sprintf("ecrec k=%d, rate=max", k), size) }
	f.Checks = []Check{above("a higher k is slower, on "+last, of(4, last), of(2, last))}
	for _, minutes := range []int{30, 60} {
		f.Checks = append(f.Checks, below(fmt.Sprintf("k=4 is faster than the average of Ckpt-%d on %s", minutes, last), of(4, last),
			average[minutes][end]))
	}
	if first := sizes[0]; first != last {
		f.Checks = append(f.Checks, above("the time of the code grows faster with the size than that of checkpoints",
			over(of(4, last), of(4, first)), over(average[30][end], average[30][0])))
	}
}

// checkSavedRows checks that the rows of the checkpoints that are loaded grow as those of the model do.
func checkSavedRows(f *Figure, r *bench.Report, sizes []string) error {
	first, last := sizes[0], sizes[len(sizes)-1]
	if first == last {
		return nil
	}
	var saved, all [2]Point
	for i, size := range []string{first, last} {
		var err error
		if saved[i], _, err = point(r, 0, "", "rows of the checkpoint", lossOfCheckpoints(size, 30, "half")...); err != nil {
			return err
		}
		if all[i], _, err = point(r, 0, "", "rows and state", "size", size, "system", "noft"); err != nil {
			return err
		}
	}
	times := all[1].Y / all[0].Y
	f.Checks = append(f.Checks, near(fmt.Sprintf("the rows of a checkpoint grow %s times, as those of the model, within 10 %%", number(times)),
		over(saved[1], saved[0]), times, 0.1))
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
