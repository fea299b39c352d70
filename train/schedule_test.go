package train

import (
	"math"
	"testing"

	"github.com/ecrec/ecrec/kernels"
)

// referenceRates are the rates of steps 1, 2, ... by LRPolicyScheduler.get_lr of the reference DLRM, whose step count begins with 1. It has no
// last rate where it needs one without a step of the warm-up: the base rate is used there.
func referenceRates(base float64, warmup, start, decay, steps int64) (rates []float64) {
	last := base
	for step := int64(1); step <= steps; step++ {
		rate := last // frozen: after the decay, or between warm-up and decay
		switch {
		case step < warmup:
			rate = base * (1 - float64(warmup-step)/float64(warmup))
			last = rate
		case start <= step && step < start+decay:
			scale := float64(decay-(step-start)) / float64(decay)
			rate = max(0.0000001, base*scale*scale)
			last = rate
		case decay == 0:
			rate = base
		}
		rates = append(rates, rate)
	}
	return rates
}

func TestRatesOfTheReference(t *testing.T) {
	for _, c := range []struct{ warmup, start, decay int64 }{
		{0, 0, 0}, {1, 0, 0}, {5, 0, 0}, {0, 0, 6}, {0, 7, 6}, {1, 1, 4}, {1, 9, 4}, {2, 9, 4}, {4, 4, 5}, {8, 20, 10}, {8, 20, 1}, {300, 301, 2},
	} {
		s := Schedule{LR: 0.3, Warmup: c.warmup, DecayStart: c.start, DecaySteps: c.decay}
		for i, want := range referenceRates(0.3, c.warmup, c.start, c.decay, 320) {
			if got := float64(s.At(int64(i + 1)).LR); math.Abs(got-want) > 1e-6*want {
				t.Errorf("%+v, step %d: %v, want %v", c, i+1, got, want)
			}
		}
	}
}

// TestWeightDecayOfRules checks which rules add the decay to the gradient, and the rate of the others.
func TestWeightDecayOfRules(t *testing.T) {
	for _, e := range []struct {
		rule        string
		decay, keep float32
	}{{"sgd", 0.5, 1}, {"rowwise_adagrad", 0.5, 1}, {"adam", 0.5, 1}, {"ftrl", 0.5, 1}, {"adamw", 0, 1 - 0.5*0.05}} {
		kind, _ := kernels.FindRule(e.rule)
		s := Schedule{Kind: kind, LR: 0.1, Warmup: 4, Decay: 0.5}
		if o := s.At(2); o.Decay != e.decay || o.Keep != e.keep {
			t.Errorf("%s: the gradient has %v of the weight and the weight is multiplied by %v; want %v, %v", e.rule, o.Decay, o.Keep, e.decay, e.keep)
		}
	}
}
