package bench

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// faultOutcome is the course of a run with a loss, or of one without.
type faultOutcome struct {
	of    map[string]string // the case, without the size
	lines []stepLine        // in the order of time; replayed steps twice
	hit   int               // the first line after the loss; -1: there was none

	// From the loss, in ms: to the end of the first step after it, of the step that repeats the last one before it, and to the moment
	// at which all lost rows and parities are there again.
	resume, regain, recovered float64
	redone                    float64 // steps
	net                       float64 // steps gained until recovered, of the steps of a normal run, in %; with checkpoints 0
	kept                      float64 // throughput from the first step until recovered, of normal, in %; 0: too few steps
	rebuilt                   float64 // MB of rows and parities, of all ranks; 0: none by a code
	saved                     float64 // bytes of the rows of the checkpoint that was loaded; 0: none was
}

// faultTime is the time of a loss in a run.
type faultTime struct {
	lost  int64 // the moment, in milliseconds since 1970
	calm  int   // the first steps, which are not normal
	every int   // training waits for a checkpoint after each of so many steps; 0: after none
}

// lossAt returns when the first loss of a run happened, in milliseconds since 1970, by its events.
func lossAt(out string) (int64, error) {
	events, err := readEvents(out)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(events, func(e jobEvent) bool { return e.Event == "loss" })
	if i < 0 {
		return 0, errors.New("bench: the events of the run have no loss")
	}
	return events[i].Time.UnixMilli(), nil
}

// outcomeOfCode is that of a run with a code.
func outcomeOfCode(of map[string]string, r *jobRun, at faultTime) faultOutcome {
	loss := &r.Recoveries[0]
	x := faultOutcome{of: of, lines: r.steps, hit: max(1, r.lossOf(loss)), recovered: loss.WholeMS, redone: float64(loss.StepsRedone)}
	x.rebuilt = loss.RebuildRate * max(0, loss.WholeMS-loss.SurveyMS) / 1e9 * float64(len(loss.Ranks))
	x.setTimes(at)
	x.setShares(r, at)
	return x
}

// outcomeOfCheckpoint is that of a run that ended with a loss, and of a run that resumed from its checkpoint.
func outcomeOfCheckpoint(of map[string]string, before, after *jobRun, at faultTime) (faultOutcome, error) {
	if len(before.steps) == 0 {
		return faultOutcome{}, errors.New("bench: the job ended before its first step")
	}
	last := before.steps[len(before.steps)-1]
	all := jobRun{batch: after.batch, steps: slices.Clone(before.steps)}
	for _, s := range after.steps {
		if s.UnixMS > last.UnixMS { // the file of the first run continues in the second one
			all.steps = append(all.steps, s)
		}
	}
	x := faultOutcome{of: of, lines: all.steps, hit: len(before.steps)}
	if x.hit >= len(x.lines) {
		return x, fmt.Errorf("bench: the job trained no step after its loss, which was after step %d, and step %d", last.Step,
			after.steps[0].Step)
	}
	x.redone = float64(last.Step - x.lines[x.hit].Step + 1)
	x.setTimes(at)
	x.recovered = x.regain
	x.setShares(&all, at)
	return x, nil
}

// highest is the greatest step of the lines before one: that of a lost step counts.
func (x *faultOutcome) highest(before int) (step int64) {
	for _, s := range x.lines[:before] {
		step = max(step, s.Step)
	}
	return step
}

// setTimes sets the times that follow from the lines.
func (x *faultOutcome) setTimes(at faultTime) {
	x.resume = float64(x.lines[x.hit].UnixMS - at.lost)
	for _, s := range x.lines[x.hit:] {
		if s.Step >= x.highest(x.hit) {
			x.regain = float64(s.UnixMS - at.lost)
			return
		}
	}
}

// setShares sets the shares of normal, which is the throughput of the steps before the loss, without the pauses for checkpoints.
func (x *faultOutcome) setShares(r *jobRun, at faultTime) {
	normal := r.throughputBesidePauses(min(at.calm, max(0, x.hit-2)), x.hit, at.every)
	if normal == 0 || x.recovered <= 0 {
		return
	}
	until := at.lost + int64(x.recovered)
	end := x.hit
	for end < len(x.lines) && x.lines[end].UnixMS <= until {
		end++
	}
	gained := float64(max(x.highest(end), x.highest(x.hit)) - x.highest(x.hit))
	x.net = 100 * gained * float64(r.batch) / (normal * x.recovered / 1e3)
	x.kept = 100 * r.throughputBesidePauses(x.hit, end, at.every) / normal
}

// throughputBesidePauses returns the samples per second from line i to the one before j. It leaves out the time from each step after which
// training waits for a checkpoint to the step after it.
func (r *jobRun) throughputBesidePauses(i, j, every int) float64 {
	steps, ms := 0, int64(0)
	for n := i + 1; n < j; n++ {
		if every > 0 && r.steps[n-1].Step%int64(every) == 0 {
			continue
		}
		steps, ms = steps+1, ms+r.steps[n].UnixMS-r.steps[n-1].UnixMS
	}
	if ms == 0 {
		return 0
	}
	return 1e3 * float64(steps*r.batch) / float64(ms)
}

// faultFigures are the outcomes of one kind of run, by turn.
type faultFigures struct {
	of       map[string]string
	outcomes []faultOutcome
}

// addFigures adds the figures of a size to the report.
func (b *faultsRun) addFigures(found []faultFigures) error {
	t := table(b.out)
	fmt.Fprintln(t, "killed\tresume ms\tregain ms\trecovered ms\tsteps redone\tnet until then, %\tthroughput meanwhile, %\trebuilt MB\tsaved MB\t")
	for _, f := range found {
		first := len(b.report.Figures)
		f.of["size"] = b.size.name
		if f.outcomes[0].hit < 0 {
			b.report.addFigure("throughput of a run", "samples/s", b.rates...)
			b.report.addFigure("start", "ms", b.start)
			b.report.addAs(Counted, "rows and state", "B", b.rowBytes)
			b.report.addAs(Counted, "steps of 30 minutes / scale", "steps", float64(b.steps))
			b.report.setCase(first, f.of)
			b.addFaultWindows(f.outcomes)
			continue
		}
		fmt.Fprintf(t, "%s\t", b.nameOf(f.of))
		for _, q := range []struct {
			name, unit string
			evidence   Evidence
			of         func(*faultOutcome) float64
		}{
			{"resume", "ms", Measured, func(x *faultOutcome) float64 { return x.resume }},
			{"regain", "ms", Measured, func(x *faultOutcome) float64 { return x.regain }},
			{"recovered", "ms", Measured, func(x *faultOutcome) float64 { return x.recovered }},
			{"steps redone", "steps", Counted, func(x *faultOutcome) float64 { return x.redone }},
			{"net samples until recovered, of normal", "%", Measured, func(x *faultOutcome) float64 { return x.net }},
			{"throughput while recovering, of normal", "%", Measured, func(x *faultOutcome) float64 { return x.kept }},
			{"rebuilt", "MB", Counted, func(x *faultOutcome) float64 { return x.rebuilt }},
			{"rows of the checkpoint", "MB", Counted, func(x *faultOutcome) float64 { return x.saved / 1e6 }},
		} {
			var values []float64
			for i := range f.outcomes {
				if v := q.of(&f.outcomes[i]); v > 0 || q.evidence == Counted || q.name == "net samples until recovered, of normal" {
					values = append(values, v)
				}
			}
			if len(values) == 0 { // a rebuild that ends with the first step shows nothing of its throughput
				fmt.Fprint(t, "-\t")
				continue
			}
			line := b.report.addAs(q.evidence, q.name, q.unit, values...)
			fmt.Fprintf(t, "%.1f\t", line.Median)
		}
		fmt.Fprintln(t)
		b.report.setCase(first, f.of)
		b.addFaultWindows(f.outcomes)
	}
	return t.Flush()
}

// addFaultWindows adds the throughput over time: of steps that are done for the first time or again, and the samples done, less those of
// lost steps. Time is that since calm steps have passed. Each window has the values of all turns, up to the end of the shortest one.
func (b *faultsRun) addFaultWindows(outcomes []faultOutcome) {
	if b.size.name != b.o.text("timeline") && !b.o.Tiny {
		return
	}
	window := max(30*time.Minute/time.Duration(b.scale)/18, 3*b.stepTime)
	windows := maxWindows
	rates, done := make([][]float64, len(outcomes)), make([][]float64, len(outcomes))
	for turn := range outcomes {
		rates[turn], done[turn] = windowsOf(outcomes[turn].lines, b.calm, b.batch(), window)
		windows = min(windows, len(done[turn]))
	}
	for i := range windows {
		of := maps.Clone(outcomes[0].of)
		of["at"] = strconv.FormatFloat((window * time.Duration(i+1)).Seconds(), 'f', 3, 64)
		first := len(b.report.Figures)
		b.report.addFigure("throughput", "samples/s", column(rates, i)...)
		b.report.addFigure("samples done", "samples", column(done, i)...)
		b.report.setCase(first, of)
	}
}

// windowsOf returns the throughput in each whole window after the first calm steps of a run, in samples/s, and the samples done at its end.
func windowsOf(lines []stepLine, calm, batch int, window time.Duration) (rates, done []float64) {
	calm = min(calm, len(lines)-1)
	start, base := lines[calm].UnixMS, lines[calm].Step
	at, next := base, calm+1
	end := lines[len(lines)-1].UnixMS - start
	for i := range int(float64(end) * 1e6 / float64(window)) {
		until, steps := start+int64(window*time.Duration(i+1)/time.Millisecond), 0
		for next < len(lines) && lines[next].UnixMS <= until {
			at, steps, next = lines[next].Step, steps+1, next+1
		}
		rates = append(rates, float64(steps*batch)/window.Seconds())
		done = append(done, float64(at-base)*float64(batch))
	}
	return rates, done
}

// column is the values of all turns in a window.
func column(of [][]float64, window int) []float64 {
	values := make([]float64, len(of))
	for turn := range of {
		values[turn] = of[turn][window]
	}
	return values
}

// maxWindows bounds the windows of a run.
const maxWindows = 200
