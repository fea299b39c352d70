package bench

import (
	"fmt"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/bench/paired"
)

// compareClocks runs a case on the machine's clock, over emulated links, and on the virtual one. The work of this machine's CPU takes
// time on the first only, so that the ratio also shows how much that is.
func (r *idealRun) compareClocks(j emulatedJob, c idealCase) error {
	real, info, err := j.measure(r.options(c, r.o.repeats(), r.modes...))
	if err != nil {
		return err
	}
	virtual, _, err := r.measureSeeds(j, c, 1)
	if err != nil {
		return err
	}
	r.beginReport(info)
	fmt.Fprintf(r.out, "\n%s, on both clocks\n", r.titleOf(c, j))
	t := table(r.out)
	fmt.Fprintln(t, "mode\tms per step\tleast\tgreatest\tvirtual\tvirtual / real\tinterval\t")
	for i, mode := range r.modes {
		first := len(r.report.Figures)
		wall, ticked := stepTimes(real[i]), stepTimes(virtual[i])
		for len(ticked) < len(wall) {
			ticked = append(ticked, ticked[0])
		}
		a := r.report.addAs(Simulated, "step", "ms", wall...)
		b := r.report.addAs(Virtual, "step, virtual", "ms", ticked[0])
		r.report.evidence = Simulated
		f := r.report.addPaired("virtual over real", ratioUnit, paired.Ratios(ticked, wall)...)
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.3f\t%s\t\n", mode, a.Median, a.Min, a.Max, b.Median, f.Median, f.betweenText(3))
		r.report.setCase(first, r.caseOf(c, j, mode))
	}
	t.Flush()
	return nil
}

// stepTimes are the times of the steps in ms.
func stepTimes(samples []measure.Sample) (ms []float64) {
	for _, s := range samples {
		ms = append(ms, 1e3*s.Step.Seconds())
	}
	return ms
}
