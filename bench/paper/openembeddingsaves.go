package paper

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// openEmbeddingSaves are the figures of OpenEmbedding about checkpoints and recovery.
func openEmbeddingSaves() []Drawing {
	return []Drawing{
		{ID: "O12", Runs: intervalRuns, Draw: drawIntervals},
		{ID: "O13", Runs: rankRuns, Draw: drawRanks},
		{ID: "O14", Runs: restartRuns, Draw: drawRestarts},
	}
}

// stepsOf10Minutes is the interval, in steps, that stands for 10 minutes of the paper.
var stepsOf10Minutes = map[Size]int{Tiny: 4, Quick: 10, Full: 15}

// savesRun is a run of bench increments with a checkpoint every few minutes of the paper.
func savesRun(size Size, minutes, ranks int) Run {
	r := Run{Bench: "increments", Repeats: 1, Args: []string{fmt.Sprint("ranks=", ranks), fmt.Sprint("every=", minutes*stepsOf10Minutes[size]/10)}}
	switch size {
	case Quick:
		r.Args = append(r.Args, "model=dim16", "scale=20")
	case Full:
		r.Args, r.Repeats = append(r.Args, "model=dim16", "scale=10"), 2
	}
	return r
}

// savesMinutes are the intervals of the figure.
var savesMinutes = map[Size][]int{Tiny: {10}, Quick: {10, 40}, Full: {10, 20, 40}}

func intervalRuns(size Size) (runs []Run) {
	for _, m := range savesMinutes[size] {
		runs = append(runs, savesRun(size, m, 1))
	}
	return runs
}

func rankRuns(size Size) (runs []Run) {
	for _, ranks := range map[Size][]int{Tiny: {1, 2}, Quick: {1, 2}, Full: {1, 2, 4}}[size] {
		runs = append(runs, savesRun(size, map[Size]int{Tiny: 10, Quick: 10, Full: 20}[size], ranks))
	}
	return runs
}

// savesSystems are the jobs of bench increments, by their names in the figures.
var savesSystems = []struct{ figure, bench string }{
	{"ecrec, increments beside training", "increments beside training"},
	{"incremental", "increments, training waits"},
	{"ecrec, full checkpoints beside training", "full ones beside training"},
}

// saveCosts draws the time over that without checkpoints, in %, over an x of each report.
func saveCosts(f *Figure, reports []*bench.Report, x func(*bench.Report) float64) error {
	for _, s := range savesSystems {
		series := Series{System: s.figure}
		for _, r := range reports {
			p, kind, err := point(r, x(r), "", "time, of that without checkpoints", "system", s.bench)
			if err != nil {
				return err
			}
			p.Y, p.Least, p.Most = 100*(p.Y-1), 100*(p.Least-1), 100*(p.Most-1)
			if err := series.addPoint(p, kind); err != nil {
				return err
			}
		}
		f.Series = append(f.Series, series)
	}
	r := reports[0]
	f.Params = []Param{
		{"model", "DeepFM, dim 64, 2.1 billion rows", r.Settings["model"] + ", Criteo Kaggle, rows divided by " + r.Settings["scale"] +
			"; all were written before"},
		{"samples of a step", "not in the text", r.Settings["batch"]},
		{"memory of checkpoints", "persistent memory", "the disk of this machine"},
	}
	for _, s := range savesSystems {
		seen, err := savesSeen(reports, s.bench)
		if err != nil {
			return err
		}
		f.Params = append(f.Params, Param{"timed saves: " + s.figure, "not in the text", seen})
	}
	f.Notes = append(f.Notes, "The baseline incremental is ours: training stops, the rows that changed since the last checkpoint "+
		"are copied and written, and training continues. OE writes each batch's rows to persistent memory anyway, so its checkpoints "+
		"are a mark there. Ours beside training copies rows as they are about to change.",
		"OE without its dense part costs nothing; ours always has the dense part in a checkpoint: there is no such bar.",
		"A full checkpoint is saved before the timed part, which has "+r.Settings["intervals"]+" intervals, and the steps until its last "+
			"save has ended. A save that lasts longer than an interval delays the next one, so its job has fewer saves. With rows of 64 floats "+
			"and fewer layers all saves beside training would, as they may take 2 % of a step for their copies: hence dim 16.")
	return nil
}

// savesSeen returns how many checkpoints each report has of a job in its timed part, and how many of them are increments.
func savesSeen(reports []*bench.Report, job string) (string, error) {
	var saves, increments []Point
	for _, r := range reports {
		for _, x := range []struct {
			to   *[]Point
			name string
		}{{&saves, "saves"}, {&increments, "increments"}} {
			p, _, err := point(r, 0, "", x.name, "system", job)
			if err != nil {
				return "", err
			}
			*x.to = append(*x.to, p)
		}
	}
	return seenAll(saves) + "; increments among them: " + seenAll(increments), nil
}

func drawIntervals(f *Figure, reports []*bench.Report) error {
	every := func(r *bench.Report) float64 {
		n, _ := strconv.Atoi(r.Settings["every"]) // checked by the benchmark
		return float64(n)
	}
	minutes := func(r *bench.Report) float64 { return 10 * every(r) / every(reports[0]) }
	if err := saveCosts(f, reports, minutes); err != nil {
		return err
	}
	ours, waits := f.points(savesSystems[0].figure), f.points(savesSystems[1].figure)
	f.Checks = []Check{
		below("at the shortest interval, increments beside training cost less than those that training waits for", ours[0], waits[0]),
	}
	if n := len(waits); n > 1 {
		f.Checks = append(f.Checks, below("longer intervals cost less: incremental", waits[n-1], waits[0]))
	}
	f.Params = append(f.Params, Param{"interval", "10 to 40 min", "every " + saveIntervals(reports) + " steps"})
	return nil
}

func saveIntervals(reports []*bench.Report) string {
	var all []string
	for _, r := range reports {
		all = append(all, r.Settings["every"])
	}
	return strings.Join(all, ", ")
}

func drawRanks(f *Figure, reports []*bench.Report) error {
	ranks := func(r *bench.Report) float64 {
		n, _ := strconv.Atoi(r.Settings["ranks"]) // checked by the benchmark
		return float64(n)
	}
	if err := saveCosts(f, reports, ranks); err != nil {
		return err
	}
	for i, p := range f.points(savesSystems[0].figure) {
		f.Checks = append(f.Checks, below(fmt.Sprintf("%s ranks: increments beside training cost less than those that training waits for",
			number(p.X)), p,
			f.points(savesSystems[1].figure)[i]))
	}
	f.X.Name = "ranks"
	f.Params = append(f.Params, Param{"trainers", "4, 8, 16 GPUs", "ranks of one process"},
		Param{"interval", "20 min", "every " + saveIntervals(reports[:1]) + " steps"})
	return nil
}

func restartRuns(size Size) []Run {
	runs := []Run{{Bench: "restart", Repeats: 1}, {Bench: "restart", Args: []string{"dir=/dev/shm"}, Repeats: 1}}
	for i := range runs {
		switch size {
		case Quick:
			runs[i].Args = append(runs[i].Args, "steps=10", "scale=20")
		case Full:
			runs[i].Args, runs[i].Repeats = append(runs[i].Args, "steps=40", "scale=4"), 3
		}
	}
	return append(runs, faultRuns(size)...)
}

func drawRestarts(f *Figure, reports []*bench.Report) error {
	disk, memory, faults := reports[0], reports[1], reports[2]
	for i, x := range []struct {
		system, quantity string
		r                *bench.Report
	}{
		{"checkpoint on the disk", "start to the first step, from a checkpoint", disk},
		{"checkpoint in memory", "start to the first step, from a checkpoint", memory},
		{"logs on the disk, rows in memory", "start to the first step, from the logs", disk},
		{"logs on the disk, rows stay there", "start to the first step, rows on the disk", disk},
	} {
		p, kind, err := point(x.r, float64(i), "recovery", x.quantity)
		if err != nil {
			return err
		}
		f.Series = append(f.Series, Series{System: x.system, Kind: kind, Points: []Point{p}})
	}
	size := sizesOf(faults)[0]
	for i, x := range []struct{ system, quantity string }{{"decode from peers, training continues", "resume"}, {"decode from peers, " +
		"all rows", "recovered"}} {
		p, kind, err := point(faults, float64(4+i), "recovery", x.quantity, lossOfOurs(size, 4)...)
		if err != nil {
			return err
		}
		f.Series = append(f.Series, Series{System: x.system, Kind: kind, Points: []Point{scaled(p, 1e-3)}})
	}
	at := func(i int) Point { return f.Series[i].Points[0] }
	f.Checks = []Check{
		below("a restart whose rows stay on the disk is faster than one from a checkpoint on the disk", at(3), at(0)),
		below("a checkpoint in memory loads faster than one on the disk", at(1), at(0)),
	}
	tables := ", Criteo Kaggle"
	if by := disk.Settings["scale"]; by != "1" {
		tables += ", rows divided by " + by
	}
	f.Params = []Param{
		{"model", "DeepFM, dim 64, 2.1 billion rows: 538 GB", disk.Settings["model"] + tables + "; decode: ECRec's " + size + " / " + faults.Settings["scale"]},
		{"persistent memory", "Optane", "files in memory (/dev/shm)"},
	}
	f.Notes = append(f.Notes, "DRAM-PS from SSD is a checkpoint on the disk, from PMem one in memory. PMem-OE scans its rows, which "+
		"stay where they are: here a restart from the logs of store.path with store.tier = \"file\". Files on the disk may be in the "+
		"page cache, which makes the first bar stronger.",
		"Decoding from peers is another model, and only one rank is lost: it is shown beside the others, not compared with them.")
	return nil
}
