package train

import (
	"math"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/kernels"
)

// Schedule yields an optimizer for each step: its hyperparameters with the
// learning rate and bias corrections of that step. It is pure.
//
// The learning rate follows the reference DLRM (LRPolicyScheduler): linear
// warm-up over Warmup steps, hold, from step DecayStart on quadratic decay over
// DecaySteps steps to no less than 1e-7, then constant. A rate that decays later is
// held where the last step before Warmup left it, a little below LR. Without such a
// step the reference fails, and LR is held here.
type Schedule struct {
	Kind                           kernels.OptimizerKind
	LR, Momentum, Eps              float64
	Beta1, Beta2                   float64
	Beta, L1, L2                   float64 // of FTRL
	Decay                          float64 // of weights
	AllRows                        bool    // rows without a gradient are updated too
	Warmup, DecayStart, DecaySteps int64
}

const leastLR = 1e-7

func scheduleOf(o config.Optimizer) Schedule {
	kind, _ := kernels.FindRule(o.Kind) // config has checked the name
	return Schedule{
		Kind: kind, LR: o.LR, Momentum: o.Momentum, Eps: o.Eps, Beta1: o.Betas[0], Beta2: o.Betas[1],
		Beta: o.Beta, L1: o.L1, L2: o.L2, Decay: o.WeightDecay, AllRows: o.Dense,
		Warmup: int64(o.WarmupSteps), DecayStart: int64(o.DecayStart), DecaySteps: int64(o.DecaySteps),
	}
}

// Scaled is the schedule with its learning rate multiplied by a factor.
func (s Schedule) Scaled(factor float64) Schedule {
	s.LR = float64(s.LR * factor)
	return s
}

// At is the optimizer of a step, counted from 1.
func (s Schedule) At(step int64) kernels.Optimizer {
	lr := s.rateAt(step)
	o := kernels.Optimizer{
		Kind: s.Kind, LR: float32(lr), Momentum: float32(s.Momentum), Eps: float32(s.Eps),
		Beta: float32(s.Beta), L1: float32(s.L1), L2: float32(s.L2), Keep: 1,
	}
	if s.Kind.Rule().Decouples {
		o.Keep = float32(1 - float64(lr*s.Decay))
	} else {
		o.Decay = float32(s.Decay)
	}
	if s.Kind.Rule().Reads("betas") {
		o.Beta1, o.Beta2 = float32(s.Beta1), float32(s.Beta2)
		o.C1, o.C2 = float32(1-s.Beta1), float32(1-s.Beta2)
		o.StepSize = float32(lr / (1 - power(s.Beta1, step)))
		o.BiasSqrt = float32(math.Sqrt(1 - power(s.Beta2, step)))
	}
	return o
}

func (s Schedule) rateAt(step int64) float64 {
	if held := s.DecaySteps > 0 && step < s.DecayStart; held && s.Warmup > 1 {
		step = min(step, s.Warmup-1)
	}
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
