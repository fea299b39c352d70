package sim

import (
	"flag"
	"testing"
	"time"
)

var (
	seed  = flag.Uint64("seed", 1, "the first seed of TestRuns")
	count = flag.Uint64("runs", 60, "how many seeds TestRuns runs")
	mode  = flag.String("mode", "", "safety, liveness, or what each seed draws")
	first = flag.Bool("first", false, "TestRuns ends at the first that goes wrong")
)

// newData is what the runs of a test train on.
func newData(t *testing.T) *Data {
	t.Helper()
	d, err := NewData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Whatever goes wrong, a run gives what it gives when nothing does.
func TestRuns(t *testing.T) {
	d := newData(t)
	var sum Sum
	began := time.Now()
	for i := range *count {
		o, err := Run(d, *seed+i, *mode)
		if err != nil {
			t.Error(err)
			if *first {
				return
			}
			continue
		}
		sum.Add(o)
	}
	t.Logf("%d seeds from %d on, %v each: %v", *count, *seed, time.Since(began)/time.Duration(*count), &sum)
}

// A run is a function of its seed.
func TestRunIsTheSeeds(t *testing.T) {
	d := newData(t)
	for seed := range uint64(12) {
		want, err := Run(d, seed, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Run(d, seed, ""); err != nil || *got != *want {
			t.Errorf("seed %d: %+v, %v; before %+v", seed, got, err, want)
		}
	}
}
