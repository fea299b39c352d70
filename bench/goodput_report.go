package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// addSystems adds the figures of all systems.
func (b *goodputRun) addSystems(names []string, turns [][]goodputTimes) {
	r, first := b.report, len(b.report.Figures)
	t := table(b.out)
	defer t.Flush()
	fmt.Fprintln(t, "system\tmtbf s\ttime / failure-free\tinterval\tdone %\tfailures\trestarts\tsteps redone\tsamples "+
		"lost\tdigest\trecovery s\tdetect\trestart\tredo\t")
	clean := make([]float64, len(turns))
	for i, turn := range turns {
		clean[i] = turn[0].seconds
	}
	r.addAs(Measured, figClean, "s", clean...)
	r.setCase(first, map[string]string{"system": sysClean})
	for n, name := range names[1:] {
		system, mtbf, _ := strings.Cut(name, " ")
		var all []goodputTimes
		var calm []float64
		at := slices.Index(names, sysCalm+" "+mtbf)
		for _, turn := range turns {
			if all = append(all, turn[n+1]); at > 0 && system == sysOurs {
				calm = append(calm, turn[at].seconds)
			}
		}
		seconds, _ := strconv.Atoi(mtbf)
		b.addSystem(t, system, seconds, all, clean, calm)
	}
	for _, system := range b.systems {
		if why := b.python.missing(system); why != "" && b.python.isFor(system) {
			fmt.Fprintf(t, "%s\t\t\t\t\t\t\t\t\t\t\t\t\t\t%s\n", system, why)
			r.addMissing(system, why)
		}
	}
}

// addSystem adds the figures of a system at a mean time between failures, and its line. Clean are the times without protection and failures
// of the turns; calm those with the same protection, nil if they were not measured.
func (b *goodputRun) addSystem(t io.Writer, system string, mtbf int, turns []goodputTimes, clean, calm []float64) {
	r, first := b.report, len(b.report.Figures)
	var seconds, own []float64
	var parts []split
	for i, x := range turns {
		seconds, own = append(seconds, x.seconds), append(own, cmp.Or(x.clean, clean[i]))
		parts = append(parts, x.splits...)
	}
	count := func(name, unit string, value func(goodputTimes) float64) Figure {
		var values []float64
		for _, x := range turns {
			values = append(values, value(x))
		}
		return r.addAs(Counted, name, unit, values...)
	}
	ratio := r.addRatio(figTime, seconds, own)
	if calm != nil {
		r.addRatio(figLosses, seconds, calm)
	}
	done := count(figDone, "%", func(x goodputTimes) float64 { return x.done })
	hits := count(figFailures, "failures", func(x goodputTimes) float64 { return float64(x.hits) })
	count(figMissed, "failures", func(x goodputTimes) float64 { return float64(x.missed) })
	restarts := count(figRestarts, "restarts", func(x goodputTimes) float64 { return float64(x.restarts) })
	redone := count(figRedone, "steps", func(x goodputTimes) float64 { return float64(x.redone) })
	lost := count(figLost, "samples", func(x goodputTimes) float64 { return float64(x.lost) })
	equal := count(figDigest, "1 if equal", func(x goodputTimes) float64 { return map[bool]float64{true: 1}[x.equal] })
	interval := "-"
	if !b.python.isFor(system) {
		n := b.interval(system, b.mtbf(mtbf))
		r.addAs(Modelled, figInterval, "steps", float64(n))
		r.addAs(Modelled, figSave, "%", 100*b.saveShare(mtbf))
		if interval = strconv.Itoa(n); n >= b.steps {
			interval = "none"
		}
	}
	bound := ""
	if done.Min < 100 { // a run was stopped
		bound = "> "
	}
	between := ""
	if ratio.Interval != nil {
		between = fmt.Sprintf(" (%.3f to %.3f)", ratio.Interval[0], ratio.Interval[1])
	}
	fmt.Fprintf(t, "%s\t%d\t%s%.3f%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t", system, mtbf, bound, ratio.Median, between,
		interval, done.Median, hits.Median,
		restarts.Median, redone.Median, lost.Median, equalText(equal))
	for _, p := range []struct {
		name string
		of   func(split) float64
	}{{figRecovery, split.total}, {figDetect, func(s split) float64 { return s.detect }},
		{figRestart, func(s split) float64 { return s.restart }}, {figRedo, func(s split) float64 { return s.redo }}} {
		if len(parts) == 0 {
			fmt.Fprint(t, "-\t")
			continue
		}
		var values []float64
		for _, s := range parts {
			values = append(values, p.of(s))
		}
		fmt.Fprintf(t, "%.3f\t", r.addAs(Measured, p.name, "s", values...).Median)
	}
	fmt.Fprintln(t)
	r.setCase(first, map[string]string{"system": system, "mtbf": strconv.Itoa(mtbf)})
}
