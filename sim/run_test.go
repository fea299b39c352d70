package sim

import (
	"flag"
	"testing"
	"time"
)

var (
	first = flag.Uint64("seed", 0, "the first seed of TestRuns; 0: the clock's")
	count = flag.Int("runs", 30, "how many seeds TestRuns runs")
)

func TestRuns(t *testing.T) {
	d, err := NewData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seed := *first
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	began := time.Now()
	faults, decisions := 0, int64(0)
	for i := range *count {
		o, err := Run(d, seed+uint64(i))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		faults += o.Faults
		decisions += o.Decisions
		if testing.Verbose() && *count < 40 {
			t.Logf("%+v", *o)
		}
	}
	t.Logf("%d runs in %v, %d faults, %d decisions", *count, time.Since(began), faults, decisions)
}
