package train

import (
	"testing"

	"github.com/ecrec/ecrec/kernels"
)

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
