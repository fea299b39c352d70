package paper

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench"
)

// Each check of B-torchrec can fail. Without TorchRec the figure has the values of pooled, and the reason.
func TestTorchRecChecks(t *testing.T) {
	const id = "B-torchrec"
	r := runTiny(t, drawing(t, id))[0]
	f := drawReports(t, drawing(t, id), []*bench.Report{r})
	if len(f.Checks) != 1 || len(f.Series) != 2 || !strings.HasPrefix(f.Notes[0], "TorchRec has no values: not run") {
		t.Errorf("%d checks, %d series, notes %q", len(f.Checks), len(f.Series), f.Notes)
	}
	changedCheck(t, id, 0, false, changed(t, r, 2, "vectors", "system", "pooled"))
	both := *r
	both.Missing, both.Figures = nil, slices.Clone(r.Figures)
	for _, x := range r.Figures {
		x.Case = maps.Clone(x.Case)
		x.Case["system"] = "torchrec"
		both.Figures = append(both.Figures, x)
	}
	both.Figures = append(both.Figures, bench.Figure{Name: "step, over pooled", Unit: "ratio", Median: 3, Min: 2, Max: 4,
		N: bench.LeastRepeats, Evidence: bench.Measured, Case: map[string]string{"system": "torchrec"}})
	changedCheck(t, id, 1, true, &both)
	changedCheck(t, id, 1, false, changed(t, &both, 1.1, "vectors", "system", "torchrec"))
	changedCheck(t, id, 2, true, &both)
	changedCheck(t, id, 2, false, changed(t, &both, 0.1, "step, over pooled"))
}
