package kernels

import "math"

// The plain versions of the rules; see Rules.

func sgdPlain(w, _, _, g []float32, o *Optimizer) {
	for i, x := range g {
		w[i] -= float32(o.LR * x)
	}
}

func momentumPlain(w, s, _, g []float32, o *Optimizer) {
	for i, x := range g {
		m := float32(o.Momentum*s[i]) + x
		s[i] = m
		w[i] -= float32(o.LR * m)
	}
}

func adagradPlain(w, s, _, g []float32, o *Optimizer) {
	for i, x := range g {
		s[i] += float32(x * x)
		w[i] -= float32(float32(o.LR*x) / (sqrt32(s[i]) + o.Eps))
	}
}

func rowwisePlain(w, s, _, g []float32, o *Optimizer) {
	s[0] += meanSquarePlain(g)
	denominator := sqrt32(s[0]) + o.Eps
	for i, x := range g {
		w[i] -= float32(float32(o.LR*x) / denominator)
	}
}

func adamPlain(w, s, v, g []float32, o *Optimizer) {
	for i, x := range g {
		m := float32(o.Beta1*s[i]) + float32(o.C1*x)
		q := float32(o.Beta2*v[i]) + float32(o.C2*float32(x*x))
		s[i], v[i] = m, q
		w[i] -= float32(float32(o.StepSize*m) / (float32(sqrt32(q)/o.BiasSqrt) + o.Eps))
	}
}

// adamWPlain shrinks the weights, and then is adam (Loshchilov and Hutter, "Decoupled Weight
// Decay Regularization", 2019, algorithm 2; torch.optim.AdamW).
func adamWPlain(w, s, v, g []float32, o *Optimizer) {
	shrinkPlain(w, o.Keep)
	adamPlain(w, s, v, g, o)
}

// ftrlPlain keeps z of each weight in s, and n in v.
func ftrlPlain(w, s, v, g []float32, o *Optimizer) {
	for i, x := range g {
		n := v[i] + float32(x*x)
		root := sqrt32(n)
		sigma := float32(root-sqrt32(v[i])) / o.LR
		z := float32(s[i]+x) - float32(sigma*w[i])
		s[i], v[i] = z, n
		switch over := abs32(z) - o.L1; {
		case over <= 0:
			w[i] = 0
		default: // also for a NaN
			w[i] = -float32(copySign32(over, z) / (float32(float32(o.Beta+root)/o.LR) + o.L2))
		}
	}
}

// decayPlain adds the weight decay to gradients: g[i] += by*w[i].
func decayPlain(g, w []float32, by float32) {
	for i, x := range w {
		g[i] += float32(by * x)
	}
}

// shrinkPlain computes w[i] = by*w[i].
func shrinkPlain(w []float32, by float32) {
	for i := range w {
		w[i] *= by
	}
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// copySign32 is x with the sign of y.
func copySign32(x, y float32) float32 {
	return math.Float32frombits(math.Float32bits(x)&^(1<<31) | math.Float32bits(y)&(1<<31))
}

// meanSquarePlain returns the mean of g*g, summed in the 8 lanes of the package doc.
func meanSquarePlain(g []float32) float32 {
	var l [8]float32
	for i, x := range g {
		l[i%8] += float32(x * x)
	}
	return (((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))) / float32(len(g))
}

// sqrt32 is correctly rounded: rounding a square root twice gives the same result.
func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }
