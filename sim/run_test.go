package sim

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	seed   = flag.Uint64("seed", 1, "first seed of TestRuns")
	count  = flag.Uint64("runs", 60, "number of seeds of TestRuns")
	mode   = flag.String("mode", "", "safety or liveness; empty: drawn from each seed")
	topics = flag.Bool("streams", false, "only seeds whose runs send their commits to a topic")
	first  = flag.Bool("first", false, "end TestRuns at the first failure")
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

// drawsStream reports whether the run of a seed sends its commits to a topic.
func (d *Data) drawsStream(seed uint64, mode string) bool {
	set := d.drawSetting(rand.New(rand.NewPCG(seed, purposeConfig)), mode)
	return set.streamSets(seed) != nil
}

// A run with faults has the same result as one without.
func TestRuns(t *testing.T) {
	d := newData(t)
	var sum Sum
	began := time.Now()
	for i := range *count {
		if *topics && !d.drawsStream(*seed+i, *mode) {
			continue
		}
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
	t.Logf("%d runs of %d seeds from %d on, %v each: %v", sum.Runs, *count, *seed, time.Since(began)/time.Duration(max(1, sum.Runs)), &sum)
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
