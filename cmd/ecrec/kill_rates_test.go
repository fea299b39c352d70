package main

import (
	"slices"
	"testing"
)

// TestKilledAtEachRate kills a rank in jobs with each kind of ec.rebuild_rate. The results must be those of a run without a loss; only
// the steps that are trained meanwhile differ.
func TestKilledAtEachRate(t *testing.T) {
	r := drawing(t)
	for _, rate := range []string{"auto", "1", "256KiB", "max"} {
		t.Run(rate, func(t *testing.T) {
			j := drawJob(r, 5)
			j.kind, j.every = "dlrm-adagrad", 5
			j.sets = append(slices.Clone(j.sets), "ec.rebuild_rate="+rate)
			j.kill(1+r.IntN(4), 20, "")
			t.Parallel()
			x := j.begin(t)
			j.compare(t, x, x.ends(t, j))
			for _, v := range readSummary(t, x.out).Recoveries {
				if rate == "max" && v.RebuildSteps != 0 || rate == "1" && v.RebuildSteps == 0 {
					t.Errorf("%s: %d steps were trained while rows were rebuilt", j, v.RebuildSteps)
				}
				if v.RebuildRate <= 0 {
					t.Errorf("%s: the rebuild has a rate of %g bytes per second", j, v.RebuildRate)
				}
			}
		})
	}
}
