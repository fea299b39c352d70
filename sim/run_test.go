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
	ranks  = flag.Int("ranks", 0, "number of ranks; 0: drawn from each seed")
	focus  = flag.String("focus", "", "a kind of fault, or restores; empty: the seed draws each fault")
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
func (d *Data) drawsStream(seed uint64, o Options) bool {
	set := d.drawSetting(rand.New(rand.NewPCG(seed, purposeConfig)), o)
	return set.streamSets(seed) != nil
}

// A run with faults has the same result as one without.
func TestRuns(t *testing.T) {
	d := newData(t)
	var sum Sum
	if *focus != "" && *focus != Restores && kindNamed(*focus) == nil {
		t.Fatalf("no fault has the focus %q", *focus)
	}
	began, opts := time.Now(), Options{*mode, *ranks, *focus}
	for i := range *count {
		if *topics && !d.drawsStream(*seed+i, opts) {
			continue
		}
		o, err := Run(d, *seed+i, opts)
		if err != nil {
			t.Error(err)
			if *first {
				return
			}
			continue
		}
		sum.Add(o)
	}
	isDefault := *seed == 1 && *count >= 60 && *mode == "" && *focus == "" && *ranks == 0
	if isDefault && (sum.Bases == 0 || sum.LostFolders == 0) {
		t.Errorf("followers wrote %d bases and lost %d folders", sum.Bases, sum.LostFolders)
	}
	t.Logf("%d runs of %d seeds from %d on, %v each: %v", sum.Runs, *count, *seed, time.Since(began)/time.Duration(max(1, sum.Runs)), &sum)
}

// A run is a function of its seed.
func TestRunDependsOnlyOnSeed(t *testing.T) {
	d := newData(t)
	for seed := range uint64(12) {
		want, err := Run(d, seed, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Run(d, seed, Options{}); err != nil || *got != *want {
			t.Errorf("seed %d: %+v, %v; before %+v", seed, got, err, want)
		}
	}
}

// Jobs of many ranks survive faults too. More ranks: -run TestRuns -ranks 256.
func TestManyRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	d := newData(t)
	const first = 1
	for seed := range uint64(2) {
		o, err := Run(d, first+seed, Options{Mode: Liveness, Ranks: 20})
		if err != nil {
			t.Fatal(err)
		}
		if o.Checks == 0 {
			t.Errorf("seed %d: no parity was checked", first+seed)
		}
	}
}
