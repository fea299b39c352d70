package bench

import (
	"testing"

	"github.com/google/pprof/profile"
)

// A sample counts once, for a function of a package anywhere on its stack. Packages below it are others.
func TestCPUShare(t *testing.T) {
	sample := func(ns int64, functions ...string) *profile.Sample {
		s := &profile.Sample{Value: []int64{1, ns}}
		for _, name := range functions {
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}})
		}
		return s
	}
	c := cpuShare{packages: []string{"a/stream"}}
	own, all := c.count(&profile.Profile{Sample: []*profile.Sample{
		sample(10, "runtime.memmove", "a/stream.(*Log).Append", "a/stream.send"),
		sample(20, "a/stream/kafka.send"), sample(30, "a/streams.send"), sample(40, "a/train.step"),
	}})
	if own != 10 || all != 100 {
		t.Errorf("%d of %d ns, want 10 of 100", own, all)
	}
}

// Functions of this package take most of the time of a loop here.
func TestCPUShareMeasured(t *testing.T) {
	c := cpuShare{packages: []string{"github.com/ecrec/ecrec/bench"}}
	c.beginBlock()
	if !c.running {
		t.Skip("the process has a profile already")
	}
	until, x := cpuTime()+300e6, 0.0
	for cpuTime() < until {
		for i := range 100_000 {
			x += float64(i) * x
		}
	}
	if err := c.endBlock(true); err != nil {
		t.Fatal(err)
	}
	if len(c.shares) != 1 || c.shares[0] < 50 {
		t.Errorf("shares %v, want one above 50 %% (%v)", c.shares, x)
	}
}
