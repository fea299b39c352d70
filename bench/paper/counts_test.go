package paper

import (
	"slices"
	"strings"
	"testing"
)

// Each check of the counted figures turns red when the values behind it are changed.
func TestChecksOfCountsCanFail(t *testing.T) {
	for _, x := range []struct {
		id, check string // a part of its text
		report    int    // of a negative number: from the end
		by        float64
		name      string
		of        []string
	}{
		{"B3", "Kaggle, bursts: the hottest 0.1 %", 1, 0, "lookups", []string{"hottest", "0.1"}},
		{"B4", "independent draws: the share falls", 0, 1000, "in the cache", []string{"batch", "64"}},
		{"B7", "independent draws: LRPP syn", -2, 0, "rows", []string{"mode", "replicated"}},
		{"B7", "bursts: partitioned ones", -1, 1000, "rows", []string{"mode", "partitioned"}},
		{"B8", "independent draws: LRPP synchronises fewer", -2, 0, "rows", []string{"mode", "replicated"}},
		{"B8", "bursts: at most half", -1, 1000, "rows, critical", []string{"mode", lrppMode}},
		{"B-tab1", "Avazu, rows", 0, 2, "rows", []string{"data", "Avazu"}},
		{"B-tab2", "D&C", 0, 1.001, "dense parameters", []string{"model", "B D&C"}},
		{"B-tab3", "bursts: the cache grows", -1, 1000, "cache", []string{"lookahead", "2"}},
		{"B-tab3", "bursts: it grows by a smaller", -1, 1000, "cache", []string{"lookahead", "4"}},
		{"B18", "critical rows of LRPP", -1, 1000, "rows, critical", []string{"hot", "90"}},
		{"E-traffic", "bursts: the NN is more", 0, 0, "dense of the updates",
			[]string{"model", "E DLRM", "data", "Criteo Terabyte", "stream", "bursts"}},
		{"E-traffic", "bursts: rows are at least 99 %", 0, 0.9, "rows of memory", []string{"model", "E DLRM"}},
	} {
		d := drawing(t, x.id)
		reports := runTiny(t, d)
		bad, n := slices.Clone(reports), (x.report+len(reports))%len(reports)
		bad[n] = changed(t, reports[n], x.by, x.name, x.of...)
		c := checkOf(t, drawReports(t, d, bad), x.check)
		if c.Holds {
			t.Errorf("%s: %q holds: %s", x.id, c.Text, c.Seen)
		}
	}
}

// Checks that do not depend on the size of a run hold in tiny runs too.
func TestChecksOfCountsHold(t *testing.T) {
	for _, x := range []struct{ id, check string }{
		{"B-tab1", "Criteo Kaggle, rows"}, {"B-tab1", "Avazu, bytes"}, {"B-tab2", "DLRM"},
		{"B-tab2", "W&D"}, {"B-tab2", "D&C"}, {"B-tab2", "DeepFM"},
		{"B-tab3", "bursts: the cache grows"}, {"E-traffic", "bursts: rows are at least 99 %"},
	} {
		d := drawing(t, x.id)
		if c := checkOf(t, drawReports(t, d, runTiny(t, d)), x.check); !c.Holds {
			t.Errorf("%s: %q fails: %s", x.id, c.Text, c.Seen)
		}
	}
}

func checkOf(t *testing.T, f *Figure, text string) Check {
	t.Helper()
	i := slices.IndexFunc(f.Checks, func(c Check) bool { return strings.Contains(c.Text, text) })
	if i < 0 {
		t.Fatalf("%s has no check %q", f.ID, text)
	}
	return f.Checks[i]
}
