package sim

import (
	"flag"
	"testing"
	"time"
)

var (
	seed  = flag.Uint64("seed", 1, "first seed of TestRuns")
	count = flag.Uint64("runs", 60, "number of seeds of TestRuns")
	mode  = flag.String("mode", "", "safety or liveness; empty: drawn from each seed")
	first = flag.Bool("first", false, "end TestRuns at the first failure")
)

// newData returns the training data of a test's runs.
func newData(t *testing.T) *Data {
	t.Helper()
	d, err := NewData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A run with faults has the same result as one without.
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
func TestRunDependsOnlyOnSeed(t *testing.T) {
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
