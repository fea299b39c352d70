package paper

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// goodputDrawings are figures of jobs whose processes are lost.
func goodputDrawings() []Drawing {
	return []Drawing{
		{ID: "G1", Runs: goodputRuns, Draw: drawGoodput},
		{ID: "G2", Runs: lostWorkRuns, Draw: drawLostWork},
		{ID: "G3", Runs: faultKindRuns, Draw: drawFaults},
	}
}

// The names of figures of goodput, lostwork and faultkinds.
const (
	timeOverClean = "time / failure-free time"
	samplesLost   = "samples lost"
	digestEqual   = "digest as without failures"
	stepsRedone   = "steps redone"
	perFailure    = "steps redone for each failure"
	saveOfMTBF    = "checkpoint / mean time between failures"
	withProtect   = "time without a failure / without protection"
	memoryShare   = "memory of the protection, of all rows"
)

// goodputRuns are short runs. Those of a full report are not scaled. Quick ones are, so that they have a failure in a few seconds. A save
// takes as long, so they have no restarts from checkpoints.
func goodputRuns(size Size) []Run {
	switch size {
	case Tiny:
		return []Run{{Bench: "goodput", Args: []string{"system=ours,ckpt-full", "mtbf=60,300"}}}
	case Quick:
		return []Run{{Bench: "goodput", Args: []string{"system=ours,replica", "mtbf=60", "scale=10", "seconds=3"}, Repeats: 1}}
	}
	return []Run{
		{Bench: "goodput", Args: []string{"system=ours,replica,ckpt-full", "mtbf=30,60", "scale=1", "seconds=45", "seed=3"}, Repeats: 2},
		// PyTorch's processes start for many seconds. With these failures most of their runs are stopped, and each takes minutes.
		{Bench: "goodput", Args: []string{"system=restart,torchft", "mtbf=30,60", "scale=1", "seconds=30", "seed=3"}, Repeats: 1},
	}
}

var goodputSystems = []string{"ours", "replica", "ckpt-full", "restart", "torchft"}

func drawGoodput(f *Figure, reports []*bench.Report) error {
	for _, r := range reports {
		if err := f.addGoodput(r); err != nil {
			return err
		}
	}
	for _, r := range reports {
		if err := f.addGoodputTable(r); err != nil {
			return err
		}
	}
	r := reports[0] // with ours
	exact, err := exactCheck(r)
	if err != nil {
		return err
	}
	f.Checks = append(f.Checks, exact)
	if f.series("ckpt-full") != nil {
		var before []Check
		for _, p := range f.points("ours") {
			before = append(before, below("", p, f.at("ckpt-full", p.X)))
		}
		f.Checks = append(f.Checks, all("ours takes less time than restarts from a checkpoint at its best interval, at each rate of failures", before...))
	}
	if p := f.points("ckpt-full"); len(p) > 1 {
		f.Checks = append(f.Checks, above("ckpt-full: frequent failures cost more than rare ones", p[0], p[len(p)-1]))
	}
	if r.Settings["scale"] == "1" {
		f.Checks = append(f.Checks, all("ours with a failure a minute, not scaled: at most 1.05 times the failure-free time, nothing lost",
			atMost("", f.at("ours", 60), 1.05), exact))
	}
	f.describeGoodput(r)
	return nil
}

// addGoodput adds the times of the systems of a report.
func (f *Figure) addGoodput(r *bench.Report) error {
	for _, system := range goodputSystems {
		if !slices.Contains(strings.Split(r.Settings["system"], ","), system) {
			continue
		}
		if why := r.Missing[system]; why != "" {
			f.Notes = append(f.Notes, system+" has no values: "+why+".")
			continue
		}
		s, err := line(r, system, timeOverClean, "mtbf", "system", system)
		if err != nil {
			return err
		}
		f.Series = append(f.Series, s)
		if err := f.noteUnfinished(r, system); err != nil {
			return err
		}
	}
	return nil
}

// describeGoodput adds the parameters, and the notes about the systems.
func (f *Figure) describeGoodput(r *bench.Report) {
	f.Params = []Param{
		{"model", "Llama-4 Scout, 109 billion parameters", "DLRM " + r.Settings["model"] + ", Criteo Kaggle's rows divided by " + r.Settings["scale"]},
		{"processes", "64 H200", r.Settings["ranks"] + " on this machine"},
		{"times between failures", "-", "exponential, divided by " + r.Settings["scale"] + ", seed " + r.Settings["seed"]},
		{"code of ours", "-", "k=" + r.Settings["k"] + " r=" + r.Settings["r"] + ", a commit every " + r.Settings["every"] + " steps"},
	}
	if r.Settings["scale"] != "1" {
		f.Notes = append(f.Notes, "The times between failures and the rows of each table are divided by the scale. The start of a process and "+
			"the limit of silence are not, and a save is hardly shorter: all systems look worse than at the times on the axis, and restarts "+
			"from checkpoints most.")
	}
	f.Notes = append(f.Notes,
		"ours, replica and ckpt-full are one program with other keys. replica has Gemini's idea, a copy of each rank's rows at a peer, "+
			"as a code with k = 1. It sends the changes of a commit in place of all rows, and survivors keep running: stronger than "+
			"Gemini, which restarts from the copies.",
		"ckpt-full saves beside training, at the interval of Young and Daly for the time that training loses to a save, at least 5 % of "+
			"the save, and starts again at once: stronger than a baseline that stops to save, and than a scheduler that waits before it restarts.",
		"restart and torchft train a model with small tables that each process holds in full, because neither shards embeddings. Each "+
			"is compared with its own failure-free run. Small checkpoints make them stronger. In a full report their runs take 30 s without "+
			"failures, and are made once.",
		"A failure that finds its process dead is left out, which favours systems that are slow to start again. The seed is one with which "+
			"short runs have a failure.")
}

// noteUnfinished adds a note for each run of a system that was stopped before its last step.
func (f *Figure) noteUnfinished(r *bench.Report, system string) error {
	done, err := line(r, system, "steps done", "mtbf", "system", system)
	if err != nil {
		return err
	}
	for _, p := range done.Points {
		if p.Least < 100 {
			f.Notes = append(f.Notes, fmt.Sprintf("%s at %s s was stopped after %s %% of its steps: its value is a lower bound.", system, number(p.X), number(p.Least)))
		}
	}
	return nil
}

// addGoodputTable adds values that are in the table alone.
func (f *Figure) addGoodputTable(r *bench.Report) error {
	for _, s := range slices.Clone(f.Series) {
		for _, name := range []string{"failures", saveOfMTBF, stepsRedone, samplesLost, "recovery", "recovery, detect",
			"recovery, restart", "recovery, redo"} {
			t, err := line(r, s.System+": "+name, name, "mtbf", "system", s.System)
			if err != nil {
				continue // no failure hit
			}
			unit := strings.Fields(name)[0]
			switch {
			case strings.HasPrefix(name, "recovery"):
				unit = "s"
			case name == saveOfMTBF:
				unit = "%"
			}
			for i := range t.Points {
				t.Points[i].Unit = unit
			}
			f.Series = append(f.Series, t)
		}
	}
	return nil
}

// exactCheck checks that ours lost no sample, and has the digest of a run without failures, in all runs of a report.
func exactCheck(r *bench.Report) (Check, error) {
	const text = "ours loses no sample, and ends with the digest of a run without failures"
	lost, err := line(r, "", samplesLost, "mtbf", "system", "ours")
	if err != nil {
		return Check{}, err
	}
	equal, err := line(r, "", digestEqual, "mtbf", "system", "ours")
	if err != nil {
		return Check{}, err
	}
	hits, err := line(r, "", "failures", "mtbf", "system", "ours")
	if err != nil {
		return Check{}, err
	}
	holds, failures := true, 0.0
	for i := range lost.Points {
		holds = holds && lost.Points[i].Most == 0 && equal.Points[i].Least == 1
		failures += hits.Points[i].Most
	}
	c := holdsIf(text, holds && failures > 0, "%s samples lost, %s of the digests equal, failures %s", seenAll(lost.Points),
		seenAll(equal.Points), seenAll(hits.Points))
	c.Unclear = holds && failures == 0
	return c, nil
}

func lostWorkRuns(size Size) []Run {
	switch size {
	case Tiny:
		return []Run{{Bench: "lostwork"}}
	case Quick:
		return []Run{{Bench: "lostwork", Args: []string{"n=5,20", "steps=30", "kills=1", "batch=512"}, Repeats: 1}}
	}
	return []Run{{Bench: "lostwork", Args: []string{"n=1,10,100", "steps=200", "kills=3"}, Repeats: 1}}
}

var lostWorkSystems = []string{"ours", "replica", "ckpt-full"}

func drawLostWork(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	ns := strings.Split(r.Settings["n"], ",")
	for _, system := range lostWorkSystems {
		s := Series{System: system}
		for _, n := range ns {
			lost, _, err := point(r, 0, "", perFailure, "system", system, "n", n)
			if err != nil { // the job was done before its failures
				f.Notes = append(f.Notes, system+", n = "+n+": no failure hit a process, so there is no point.")
				continue
			}
			p, kind, err := point(r, lost.Y, "", withProtect, "system", system, "n", n)
			if err != nil {
				return err
			}
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		if len(s.Points) > 0 {
			f.Series = append(f.Series, s)
		}
	}
	exact := true
	for _, system := range lostWorkSystems {
		for _, x := range []struct{ name, unit string }{{perFailure, "steps"}, {memoryShare, "%"}, {"a checkpoint on the disk, of all rows", "% of the disk"}} {
			t, err := line(r, system+": "+x.name+", n at the left", x.name, "n", "system", system)
			if err != nil && x.name == perFailure {
				continue
			}
			if err != nil {
				return err
			}
			for i := range t.Points {
				t.Points[i].Unit, t.Points[i].Label = x.unit, "n = "+number(t.Points[i].X)
			}
			f.Series = append(f.Series, t)
		}
		equal, err := line(r, "", digestEqual, "n", "system", system)
		if err != nil {
			return err
		}
		for _, p := range equal.Points {
			exact = exact && p.Least == 1
		}
	}
	f.Checks = []Check{holdsIf("all runs, also those with failures, end with one digest", exact, "%t", exact)}
	f.addLostWorkChecks(r, ns[0], ns[len(ns)-1])
	f.Params = []Param{{"code of ours", "-", "k=" + r.Settings["k"] + " r=" + r.Settings["r"]}, {"n", "-", r.Settings["n"]},
		{"steps, losses of a run", "-", r.Settings["steps"] + ", " + r.Settings["kills"]}}
	f.Notes = append(f.Notes, "Memory is counted by the processes themselves: parities or copies, pre-images, deltas and snapshots. "+
		"A checkpoint takes the disk, and while it is written at most a quarter of the rows in memory, which is not counted.",
		"replica is a code with k = 1; see G1. Checkpoints are written beside training. The tables show n, the line connects the "+
			"values in the order of lost work.")
	return nil
}

// addLostWorkChecks compares the systems at the least and the greatest n.
func (f *Figure) addLostWorkChecks(r *bench.Report, least, most string) {
	value := func(system, name, n string) Point {
		p, _, err := point(r, 0, "", name, "system", system, "n", n)
		if err != nil {
			return Point{} // its check fails
		}
		return p
	}
	f.Checks = append(f.Checks,
		below("ours takes less memory than a copy of each row, at the least n", value("ours", memoryShare, least),
			value("replica", memoryShare, least)),
		below("ours costs less than a checkpoint at the least n", value("ours", withProtect, least), value("ckpt-full", withProtect, least)),
		below("checkpoints cost less at the greatest n than at the least", value("ckpt-full", withProtect, most),
			value("ckpt-full", withProtect, least)))
}

func faultKindRuns(size Size) []Run {
	switch size {
	case Tiny:
		return []Run{{Bench: "faultkinds"}}
	case Quick:
		return []Run{{Bench: "faultkinds", Args: []string{"kinds=kill,silent-node,full-disk", "steps=60"}, Repeats: 1}}
	}
	return []Run{{Bench: "faultkinds", Args: []string{"steps=150"}, Repeats: 2}}
}

// faultKinds lists the kinds in the order of the figure.
var faultKinds = []string{"kill", "stop", "stall", "node", "silent-node", "silent-supervisor", "full-disk"}

// faultParts lists the parts of a recovery, in their order.
var faultParts = []string{"detect", "start", "join", "agree", "roll back", "first step", "redo"}

func drawFaults(f *Figure, reports []*bench.Report) error {
	r := reports[0]
	var ran []string
	for _, k := range faultKinds {
		if why := r.Missing[k]; why != "" {
			f.Notes = append(f.Notes, k+" has no values: "+why+".")
		} else if slices.Contains(strings.Split(r.Settings["kinds"], ","), k) {
			ran = append(ran, k)
		}
	}
	first, err := bars(r, "fault to first step", "fault to first step", "fault", ran)
	if err != nil {
		return err
	}
	f.Series = append(f.Series, first)
	for _, part := range faultParts {
		s := Series{System: part}
		for i, k := range ran {
			p, kind, err := point(r, float64(i), k, part, "fault", k)
			if err != nil {
				continue // no rank was lost
			}
			if err := s.addPoint(p, kind); err != nil {
				return err
			}
		}
		if len(s.Points) > 0 {
			f.Series = append(f.Series, s)
		}
	}
	equal, err := bars(r, "", digestEqual, "fault", ran)
	if err != nil {
		return err
	}
	holds := !slices.ContainsFunc(equal.Points, func(p Point) bool { return p.Least != 1 })
	f.Checks = []Check{
		holdsIf("no kind of fault changes the digest", holds, "%s equal", seenAll(equal.Points)),
		below("a process that dies is noticed before one that is silent", f.atLabel("detect", "kill"), f.atLabel("detect", "silent-node")),
		atMost("a silent machine is replaced within 3 s", f.atLabel("fault to first step", "silent-node"), 3000),
	}
	f.Params = []Param{{"code", "-", fmt.Sprintf("k=%s r=%s, a commit every %s steps", r.Settings["k"], r.Settings["r"],
		r.Settings["every"])},
		{"steps of a run", "-", r.Settings["steps"]}}
	f.Notes = append(f.Notes, "A process is silent after five heartbeats, 1 s.",
		"silent-node stops a worker and its supervisor: their connections stay open and carry nothing, as those to a machine that "+
			"hangs. Packets that a network drops need the rights of root, and are not shown; a peer sees the same silence.",
		"full-disk is the first step after a checkpoint that fails; no rank is lost.")
	return nil
}
