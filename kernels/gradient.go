package kernels

// changesGradient reports whether the rule scales gradients, or adds weight decay to them.
func (o *Optimizer) changesGradient() bool { return o.scales() || o.Decay != 0 }

// scales reports whether the rule scales gradients.
func (o *Optimizer) scales() bool { return o.Scale != 0 && o.Scale != 1 }

// changeGradient multiplies the gradients g of the weights w by Scale, and adds the weight decay:
// g[i] = Scale*g[i], then g[i] = g[i] + Decay*w[i].
func (s *stream) changeGradient(g, w []float32, o *Optimizer) {
	if o.scales() {
		s.shrink(g, o.Scale)
	}
	if o.Decay != 0 {
		s.decay(g, w, o.Decay)
	}
}

// SumSquares is the sum of x[i]*x[i] in float64. It runs in the 8 lanes of the package doc.
// Each product is exact.
func SumSquares(x []float32) float64 {
	var l [8]float64
	for ; len(x) >= 8; x = x[8:] {
		for k, v := range x[:8] {
			l[k] += float64(v) * float64(v)
		}
	}
	for k, v := range x {
		l[k] += float64(v) * float64(v)
	}
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}
