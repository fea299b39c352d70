package paper

import (
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench"
)

// A check of each figure on the simulated clock fails if the values that it is about are changed: by a factor.
func TestChecksOfVirtualFiguresTurnRed(t *testing.T) {
	for _, x := range []struct {
		id, text string
		report   int
		by       float64
		name     string
		of       []string
	}{
		{"B8", "BagPipe (lrpp): a step waits less", 0, 1e3, "step", []string{"mode", "lrpp", "delayed", "yes"}},
		{"B8", "ecrec (planned): a step waits less", 0, 1e3, "step", []string{"mode", "planned", "delayed", "yes"}},
		{"B15", "a step that exchanges rows", 0, 1e3, "step", []string{"mode", "ideal"}},
		{"B15", "DeepFM is nearer", 2, 1e3, "step", []string{"mode", "lrpp"}},
		{"B15", "the faster link", 1, 1e3, "step", []string{"mode", "lrpp"}},
		{"B16a", "BagPipe: more trainers", 0, 1e-3, "samples", []string{"mode", "lrpp", "ranks", "4"}},
		{"B16a", "ecrec (planned): the throughput grows", 0, 1e3, "samples", []string{"mode", "planned", "ranks", "4"}},
		{"B16a", "planned: at least half", 0, 1e-3, "samples", []string{"mode", "planned"}},
		{"B16b", "BagPipe, one wait", 1, 1e3, "step", []string{"mode", "lrpp", "batch", "128"}},
		{"B16b", "ecrec (planned), wait in proportion", 0, 1e3, "step", []string{"mode", "planned"}},
		{"B-tab3", "the cache grows with", 0, 1e-3, "cache", []string{"lookahead", "4"}},
		{"B-tab3", "the cache grows by a smaller", 0, 1e3, "cache", []string{"lookahead", "4"}},
		{"B-tab3", "the time of an iteration", 1, 2, "step", []string{"mode", "lrpp", "lookahead", "4"}},
	} {
		d := drawing(t, x.id)
		reports := slices.Clone(runTiny(t, d))
		reports[x.report] = changed(t, reports[x.report], x.by, x.name, x.of...)
		found := 0
		for _, c := range drawReports(t, d, reports).Checks {
			if strings.HasPrefix(c.Text, x.text) {
				found++
				if c.Holds {
					t.Errorf("%s: %q still holds if %s of %v changes by %g: %s", x.id, c.Text, x.name, x.of, x.by, c.Seen)
				}
			}
		}
		if found != 1 {
			t.Errorf("%s has %d checks %q", x.id, found, x.text)
		}
	}
}

// All values of these figures but counts are virtual, and say so.
func TestVirtualFiguresSaySo(t *testing.T) {
	for _, d := range bagPipeVirtual() {
		for _, s := range drawTiny(t, d).Series {
			if want := map[bool]bench.Evidence{true: bench.Counted, false: bench.Virtual}[isCount(s.System)]; s.Kind != want {
				t.Errorf("%s: %q is %s, want %s", d.ID, s.System, s.Kind, want)
			}
		}
	}
}

// isCount reports whether a series of these figures is of counts.
func isCount(system string) bool {
	return strings.HasPrefix(system, "cache") || strings.HasPrefix(system, "LRPP and delay")
}
