package paper

import (
	"slices"
	"strings"
	"testing"
)

func TestClockChecks(t *testing.T) {
	reports := runTiny(t, drawing(t, "E-clocks"))
	for i, r := range reports { // on a busy machine the clocks differ
		same := *r
		same.Figures = slices.Clone(r.Figures)
		for k, f := range same.Figures {
			if strings.HasPrefix(f.Name, "virtual over real") {
				same.Figures[k].Median, same.Figures[k].Min, same.Figures[k].Max, same.Figures[k].Interval = 1, 1, 1, nil
			}
		}
		reports[i] = &same
	}
	changedCheck(t, "E-clocks", 0, true, reports...)
	changedCheck(t, "E-clocks", 0, false, changed(t, reports[0], 0.8, "virtual over real", "mode", "lrpp"), reports[1])
	changedCheck(t, "E-clocks", 0, false, reports[0], changed(t, reports[1], 1.2, "virtual over real, without the code"))
}
