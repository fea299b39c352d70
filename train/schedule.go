package train

import (
	"math"

	"github.com/ecrec/ecrec/kernels"
)

// Schedule yields an optimizer for each step: its hyperparameters with the
// learning rate and bias corrections of that step. It is pure.
//
// The learning rate follows the reference DLRM (LRPolicyScheduler): linear
// warm-up over Warmup steps, hold, from step DecayStart on quadratic decay over
// DecaySteps steps to no less than 1e-7, then constant.
type Schedule struct {
	Kind                           kernels.OptimizerKind
	LR, Momentum, Eps              float64
	Beta1, Beta2                   float64
	Warmup, DecayStart, DecaySteps int64
}

const leastLR = 1e-7

// At is the optimizer of a step, counted from 1.
func (s Schedule) At(step int64) kernels.Optimizer {
	lr := s.rate(step)
	o := kernels.Optimizer{
		Kind: s.Kind, LR: float32(lr), Momentum: float32(s.Momentum), Eps: float32(s.Eps),
	}
	if s.Kind == kernels.Adam {
		o.Beta1, o.Beta2 = float32(s.Beta1), float32(s.Beta2)
		o.C1, o.C2 = float32(1-s.Beta1), float32(1-s.Beta2)
		o.StepSize = float32(lr / (1 - power(s.Beta1, step)))
		o.BiasSqrt = float32(math.Sqrt(1 - power(s.Beta2, step)))
	}
	return o
}

func (s Schedule) rate(step int64) float64 {
	if step < s.Warmup {
		return s.LR * (float64(step) / float64(s.Warmup))
	}
	if s.DecaySteps <= 0 || step < s.DecayStart {
		return s.LR
	}
	// After the decay the rate stays where its last step left it.
	done := min(step-s.DecayStart, s.DecaySteps-1)
	left := float64(s.DecaySteps-done) / float64(s.DecaySteps)
	return max(leastLR, s.LR*float64(left*left))
}

// power is b to the n by repeated squaring: the same bits on every machine.
func power(b float64, n int64) float64 {
	r := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			r = float64(r * b)
		}
		b = float64(b * b)
	}
	return r
}
