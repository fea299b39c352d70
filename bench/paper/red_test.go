package paper

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench"
)

// A check of each kind fails if the values that it is about are changed: by a factor.
func TestChecksOfStoresAndStreamsTurnRed(t *testing.T) {
	_, err := exec.LookPath("python3")
	hasPython := err == nil // some checks compare with it
	for _, x := range []struct {
		id, text string
		report   int
		by       float64
		name     string
		of       []string
	}{
		{"O-tab1", "DRAM is faster", 0, 1e9, "latency", []string{"medium", "DRAM"}},
		{"O2", "requested in more", 0, 1e-9, "time with rows", []string{"mode", "planned"}},
		{"O2", "updated in more", 0, 1e-9, "time with rows", []string{"mode", "planned"}},
		{"O3", "less than PMem-Hash's", 0, 1e9, "of dram-ps", []string{"store", "inline-lru"}},
		{"O3", "Ori-Cache's gap grows", 0, 1e-9, "of dram-ps", []string{"store", "inline-lru", "trainers", "2"}},
		{"O3", "PMem-Hash's gap grows", 0, 1e-9, "of dram-ps", []string{"store", "pmem-hash", "trainers", "2"}},
		{"O6", "faster than Ori-Cache", 0, 1e9, "of dram-ps", []string{"store", "tier"}},
		{"O6", "faster than DRAM-PS", 0, 1e9, "of dram-ps", []string{"store", "tier"}},
		{"O-tab5", "cheaper than one of DRAM-PS", 0, 1e9, "epoch", []string{"store", "tier"}},
		{"O-tab5", "cheaper than one of Ori-Cache", 0, 1e9, "epoch", []string{"store", "tier"}},
		{"O7", "PMem-OE is faster", 0, 1e9, "of dram-ps", []string{"store", "tier"}},
		{"O7", "Ori-Cache is faster", 0, 1e9, "of dram-ps", []string{"store", "inline-lru"}},
		{"O7", "falls behind more", 0, 1e-9, "of dram-ps", []string{"store", "inline-lru", "trainers", "2"}},
		{"O7", "at most 1.1", 0, 1e9, "of dram-ps", []string{"store", "tier"}},
		{"O7", "end an epoch sooner", 0, 1e9, "epoch", []string{"store", "dram-ps", "trainers", "2"}},
		{"O8", "PMem-OE: fewer rows", 0, 1e9, "misses", []string{"store", "tier", "cache_kib", "98"}},
		{"O8", "Ori-Cache: fewer rows", 0, 1e9, "misses", []string{"store", "inline-lru", "cache_kib", "98"}},
		{"O8", "PMem-OE is faster", 0, 1e9, "epoch", []string{"store", "tier", "cache_kib", "98"}},
		{"O9", "than the cache alone", 0, 1e9, "epoch", []string{"store", "tier"}},
		{"O9", "the cache alone is faster", 0, 1e9, "epoch", []string{"store", "no-pipeline"}},
		{"O9", "both are faster", 0, 1e9, "epoch", []string{"store", "tier"}},
		{"O11", "fitted: PMem-OE is closer", 0, 1e9, "of dram-ps", []string{"store", "tier"}},
		{"B13", "one digest", 0, 2, "digests", nil},
		{"B13", "differ by at most 1e-5", 0, 1e9, "largest difference", []string{"golden", "ecrec"}},
		{"B17", "less than its samples", 0, 1e9, "batch", []string{"batch", "128"}},
		{"B17", "less than its features", 0, 1e-9, "batch", []string{"features", "3"}},
		{"B17", "not depend on the lookahead", 0, 1e9, "batch", []string{"lookahead", "1"}},
		{"B17", "than a step takes", 1, 1e-12, "step", nil},
		{"T4.1", "Criteo: updates and capture", 2, 1e9, "capture", []string{"system", "stream"}},
		{"T4.2", "a put of ours", 0, 1e9, "time", []string{"system", "hand-over", "op", "put"}},
		{"T4.3", "serialise: frames take less", 0, 1e9, "time", []string{"system", "frames", "op", "serialise"}},
		{"T4.4", "less time than the model", 1, 1e9, "dense part", nil},
		{"T4.4", "slow store makes", 1, 1e-12, "saving", []string{"store", "slow"}},
		{"T4.6", "waits less", 0, 1e-12, "topic", nil},
		{"T4.7", "waits less for its rows", 0, 1e9, "fetch", []string{"copies", "beside"}},
		{"T4.8", "serialise: larger", 0, 1e-12, "time", []string{"system", "frames", "op", "serialise", "set", "1.2 MB"}},
		{"T4.8", "faster than by Pickle", 0, 1e9, "time", []string{"system", "frames", "op", "serialise"}},
		{"T6.1", "base takes longer", 1, 1e9, "time", []string{"system", "full", "store", "disk"}},
		{"T6.1", "continuous is faster than base", 1, 1e9, "time", []string{"system", "stream", "every", "0"}},
		{"T6.1", "no longer than base", 1, 1e9, "of full", []string{"system", "stream", "every", "1"}},
		{"T6.2", "no bar is free", 0, 1e-9, "of none", []string{"system", "stream", "every", "0"}},
		{"T6.6", "gets faster with fewer", 0, 1e9, "time", []string{"store", "slow", "every", "3"}},
		{"T6.7", "slower to load", 1, 1e9, "load", []string{"system", "full"}},
		{"T6.12", "slower to load", 0, 1e9, "load", []string{"system", "full"}},
		{"T-lost", "than no checkpoints", 0, 1e9, "lost", []string{"system", "stream", "every", "0"}},
		{"T-lost", "than base", 0, 1e9, "lost", []string{"system", "stream", "every", "0"}},
	} {
		d := drawing(t, x.id)
		reports := append([]*bench.Report(nil), runTiny(t, d)...)
		whole := drawReports(t, d, reports)
		found := 0
		reports[x.report] = changed(t, reports[x.report], x.by, x.name, x.of...)
		for i, c := range drawReports(t, d, reports).Checks {
			if strings.HasPrefix(c.Text, x.text) || strings.Contains(c.Text, " "+x.text) {
				found++
				if c.Holds {
					t.Errorf("%s: %q still holds if %s of %v changes by %g: %s; before: %+v", x.id, c.Text, x.name, x.of, x.by, c.Seen, whole.Checks[i])
				}
			}
		}
		needsPython := x.id == "T4.3" || strings.HasPrefix(x.text, "faster than by")
		if found != 1 && !(found == 0 && needsPython && !hasPython) {
			t.Errorf("%s: %d checks have the text %q: %+v", x.id, found, x.text, whole.Checks)
		}
	}
}

// The losses of one mode that differ from the others' are seen.
func TestOtherLossesTurnRed(t *testing.T) {
	d := drawing(t, "B13")
	r := *runTiny(t, d)[0]
	r.Figures = append([]bench.Figure(nil), r.Figures...)
	for i, f := range r.Figures {
		if f.Name == "largest difference" && f.Case["mode"] == "lrpp" {
			r.Figures[i].Median = 1e-9
		}
	}
	for _, c := range drawReports(t, d, []*bench.Report{&r}).Checks {
		if strings.Contains(c.Text, "bit for bit") && c.Holds {
			t.Errorf("%+v", c)
		}
	}
}
