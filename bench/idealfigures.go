package bench

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/internal/probe"
)

// caseOf is the case of the figures of a mode.
func (r *idealRun) caseOf(c idealCase, j emulatedJob, mode string) map[string]string {
	m := map[string]string{"model": c.shape.name, "batch": strconv.Itoa(c.batch), "ranks": strconv.Itoa(c.ranks), "clock": r.clock, "mode": mode,
		"law": c.law}
	if r.link != nil {
		m["link"] = r.link.String()
	}
	if j.compute > 0 {
		m["compute"] = j.compute.String()
	}
	if mode != measure.Ideal {
		m["delayed"] = map[bool]string{true: "yes", false: "no"}[c.delayed]
	}
	if mode == "lrpp" {
		m["lookahead"] = strconv.Itoa(c.lookahead)
	}
	if c.dense > 0 {
		m["dense"] = strconv.Itoa(c.dense)
	}
	return m
}

// titleOf names a case for people.
func (r *idealRun) titleOf(c idealCase, j emulatedJob) string {
	name := fmt.Sprintf("%s batch %d ranks %d, ids %s", c.shape.name, c.batch, c.ranks, c.law)
	if r.link != nil {
		name += " link " + r.link.String()
	}
	if j.compute > 0 {
		name += fmt.Sprintf(" compute %v", j.compute)
	}
	if slices.Contains(r.modes, "lrpp") {
		name += fmt.Sprintf(" lookahead %d", c.lookahead)
	}
	if c.dense > 0 {
		name += fmt.Sprintf(" dense parameters %d", c.dense)
	}
	if !c.delayed {
		name += ", nothing delayed"
	}
	return name
}

// addFigures compares modes repeat by repeat.
func (r *idealRun) addFigures(c idealCase, j emulatedJob, kind Evidence, samples [][]measure.Sample) {
	fmt.Fprintf(r.out, "\n%s\n", r.titleOf(c, j))
	t := table(r.out)
	fmt.Fprintln(t, "mode\tms per step\tleast\tgreatest\tof ideal\tinterval\tspeed of none's\tinterval\tcritical rows\tKiB\tdelayed "+
		"rows\tKiB\t")
	was := r.report.evidence
	r.report.evidence = kind
	for i, mode := range r.modes {
		first := len(r.report.Figures)
		var ms, critical, delayed, criticalRows, delayedRows []float64
		for _, s := range samples[i] {
			ms = append(ms, 1e3*s.Step.Seconds())
			critical, delayed = append(critical, float64(s.Moved.Critical.Bytes)), append(delayed, float64(s.Moved.Delayed.Bytes))
			criticalRows, delayedRows = append(criticalRows, float64(s.Moved.Critical.Rows)), append(delayedRows, float64(s.Moved.Delayed.Rows))
		}
		step := r.report.addFigure("step", "ms", ms...)
		r.report.addFigure("samples", "samples/s", each(ms, func(x float64) float64 { return 1e3 * float64(c.batch) / x })...)
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%s%s", mode, step.Median, step.Min, step.Max,
			r.addOver("time over ideal", measure.Ideal, samples, i, false), r.addOver("speed over none", "none", samples, i, true))
		for _, f := range []Figure{
			r.report.addAs(Counted, "rows, critical", "rows", criticalRows...), r.report.addAs(Counted, "bytes, critical", "B", critical...),
			r.report.addAs(Counted, "rows, delayed", "rows", delayedRows...), r.report.addAs(Counted, "bytes, delayed", "B", delayed...),
		} {
			if f.Unit == "B" {
				f.Median /= 1024
			}
			fmt.Fprintf(t, "%.0f\t", f.Median)
		}
		fmt.Fprintln(t)
		r.report.setCase(first, r.caseOf(c, j, mode))
	}
	t.Flush()
	r.addStages(c, j, samples)
	r.report.evidence = was
}

// addOver adds the ratio of the steps of mode i to those of another mode, or the other way round, and returns it for the table.
func (r *idealRun) addOver(name, other string, samples [][]measure.Sample, i int, inverse bool) string {
	k := slices.Index(r.modes, other)
	if k < 0 {
		return "\t\t"
	}
	var a, b []float64
	for n := range samples[i] {
		a, b = append(a, samples[i][n].Step.Seconds()), append(b, samples[k][n].Step.Seconds())
	}
	if inverse {
		a, b = b, a
	}
	f := r.report.addRatio(name, a, b)
	return fmt.Sprintf("%.3f\t%s\t", f.Median, f.betweenText(3))
}

func (r *idealRun) addStages(c idealCase, j emulatedJob, samples [][]measure.Sample) {
	t := table(r.out)
	for i, mode := range r.modes {
		first := len(r.report.Figures)
		fmt.Fprintf(t, "%s\t", mode)
		for st := probe.Stage(0); st < probe.Stages; st++ {
			var stage []float64
			for _, s := range samples[i] {
				stage = append(stage, 1e3*s.Stages[st].Seconds())
			}
			fmt.Fprintf(t, "%s %.2f\t", st, r.report.addFigure("stage "+st.String(), "ms", stage...).Median)
		}
		fmt.Fprintln(t)
		r.report.setCase(first, r.caseOf(c, j, mode))
	}
	t.Flush()
}

// each returns f of each value.
func each(v []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = f(x)
	}
	return out
}
