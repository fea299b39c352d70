package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The operations against the same sums written plainly in float64.

func near(t *testing.T, what string, got float32, want, scale float64) {
	t.Helper()
	if !(math.Abs(float64(got)-want) <= 2e-5*max(scale, math.Abs(want))) {
		t.Fatalf("%s = %g, want %g", what, got, want)
	}
}

func ordinary(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = 2*r.Float32() - 1
	}
	return v
}

func TestInteractionAgainstReference(t *testing.T) {
	const b, f, d = 5, 27, 16
	r := rand.New(rand.NewPCG(1, 3))
	x, out := ordinary(r, b*f*d), make([]float32, b*(d+f*(f-1)/2))
	s := newTestStream(t, detectISA(), 2)
	s.DotInteraction(Mat(HostBuffer(out), b, d+f*(f-1)/2), Mat(HostBuffer(x), b, f*d), f, d)
	dout, dx := ordinary(r, len(out)), make([]float32, len(x))
	s.DotInteractionGrad(Mat(HostBuffer(dx), b, f*d), Mat(HostBuffer(dout), b, d+f*(f-1)/2), Mat(HostBuffer(x), b, f*d), f, d)
	for i := range b {
		x, o, g := x[i*f*d:][:f*d], out[i*len(out)/b:], dout[i*len(out)/b:]
		want := make([]float64, f*d)
		for c := range d {
			near(t, "vector 0", o[c], float64(x[c]), 0)
			want[c] = float64(g[c])
		}
		n := d
		for p := 1; p < f; p++ {
			for q := range p {
				dot := 0.0
				for c := range d {
					dot += float64(x[p*d+c]) * float64(x[q*d+c])
					want[p*d+c] += float64(g[n]) * float64(x[q*d+c])
					want[q*d+c] += float64(g[n]) * float64(x[p*d+c])
				}
				near(t, "dot", o[n], dot, 1)
				n++
			}
		}
		for c, w := range want {
			near(t, "gradient", dx[i*f*d+c], w, 1)
		}
	}
	dots, dalone := make([]float32, b*f*(f-1)/2), make([]float32, len(x))
	s.DotInteraction(Mat(HostBuffer(dots), b, f*(f-1)/2), Mat(HostBuffer(x), b, f*d), f, d)
	s.DotInteractionGrad(Mat(HostBuffer(dalone), b, f*d), Mat(HostBuffer(dout), b, d+f*(f-1)/2).Columns(d, f*(f-1)/2), Mat(HostBuffer(x), b, f*d), f, d)
	for i := range b {
		if n := len(dots) / b; !slices.Equal(dots[i*n:][:n], out[i*(d+n)+d:][:n]) {
			t.Fatalf("sample %d: the dots alone are not those after vector 0", i)
		}
		for c := range f * d {
			want := float64(dx[i*f*d+c])
			if c < d {
				want -= float64(dout[i*len(out)/b+c])
			}
			near(t, "gradient of the dots alone", dalone[i*f*d+c], want, 1)
		}
	}
}

func TestLossAgainstReference(t *testing.T) {
	z := []float32{0, 1, -1, 30, -30, 100, -100, 1e-3, 5e8, float32(math.Copysign(0, -1))}
	n := len(z)
	s := newTestStream(t, detectISA(), 1)
	for _, y := range []float32{0, 1} {
		label, loss, grad, p := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
		for i := range label {
			label[i] = y
		}
		s.SigmoidBCE(HostBuffer(loss), HostBuffer(grad), HostBuffer(z), HostBuffer(label), 0.25)
		s.Sigmoid(HostBuffer(p), HostBuffer(z))
		for i, v := range z {
			x := float64(v)
			sig := 1 / (1 + math.Exp(-x))
			near(t, "sigmoid", p[i], sig, 1e-38)
			near(t, "loss", loss[i], math.Log1p(math.Exp(-math.Abs(x)))+math.Max(x, 0)-x*float64(y), 1e-30)
			near(t, "gradient", grad[i], (sig-float64(y))*0.25, 1e-8)
		}
	}
}

// TestWeightedLossAgainstReference compares with the formula of PyTorch's
// binary_cross_entropy_with_logits(weight=w, pos_weight=p): w * ((1-y)*z + (1+(p-1)*y) * log(1+exp(-z))).
func TestWeightedLossAgainstReference(t *testing.T) {
	const p, scale = 2.5, 0.25
	z := []float32{0, 1, -1, 30, -30, 1e-3, -5}
	w := []float32{1, 0.5, 2, 0, 3, 0.1, 7}
	n := len(z)
	s := newTestStream(t, detectISA(), 1)
	for _, y := range []float32{0, 1} {
		label, loss, grad := make([]float32, n), make([]float32, n), make([]float32, n)
		for i := range label {
			label[i] = y
		}
		for _, weighted := range []bool{true, false} {
			weight := Buffer{}
			if weighted {
				weight = HostBuffer(w)
			}
			s.WeightedSigmoidBCE(HostBuffer(loss), HostBuffer(grad), HostBuffer(z), HostBuffer(label), weight, p, scale)
			for i, v := range z {
				x, y, factor := float64(v), float64(y), 1.0
				if weighted {
					factor = float64(w[i])
				}
				class := 1 + (p-1)*y
				near(t, "loss", loss[i], factor*((1-y)*x+class*math.Log1p(math.Exp(-x))), 1e-6)
				sig := 1 / (1 + math.Exp(-x))
				near(t, "gradient", grad[i], factor*((1-y)-class*(1-sig))*scale, 1e-6)
			}
		}
		plain, same, plainGrad, sameGrad := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
		s.SigmoidBCE(HostBuffer(plain), HostBuffer(plainGrad), HostBuffer(z), HostBuffer(label), scale)
		ones := slices.Repeat([]float32{1}, n)
		s.WeightedSigmoidBCE(HostBuffer(same), HostBuffer(sameGrad), HostBuffer(z), HostBuffer(label), HostBuffer(ones), 1, scale)
		if !slices.Equal(plain, same) || !slices.Equal(plainGrad, sameGrad) {
			t.Errorf("label %v: weights of 1 change bits", y)
		}
	}
	wantPanic(t, "with 2 weights", func() {
		b := HostBuffer(make([]float32, 3))
		s.WeightedSigmoidBCE(b, b, b, b, HostBuffer(make([]float32, 2)), 1, 1)
	})
}

// TestOptimizersAgainstReference runs a few steps of each rule on rows whose
// gradients are sums, and on dense weights.
func TestOptimizersAgainstReference(t *testing.T) {
	for name, kind := range kinds {
		for _, decay := range []float64{0, 0.3} {
			t.Run(fmt.Sprintf("%s, decay %v", name, decay), func(t *testing.T) { testAgainstReference(t, kind, decay) })
		}
	}
}

func testAgainstReference(t *testing.T, kind OptimizerKind, decay float64) {
	const n, d, steps = 40, 13, 5
	s, name := newTestStream(t, detectISA(), 2), kind.String()
	r := rand.New(rand.NewPCG(2, 9))
	width := d + kind.RowState(d)
	rows := make([]float32, n*width)
	weights, state := make([]float64, n*d), make([]float64, 2*n*d)
	for u := range n {
		for j, x := range ordinary(r, d) {
			rows[u*width+j], weights[u*d+j] = x, float64(x)
		}
	}
	dense, denseState := make([]float32, n*d), make([]float32, n*width)
	for i, w := range weights {
		dense[i] = float32(w)
	}
	slots, start, pos := make([]int32, n), make([]int32, n+1), make([]int32, 2*n)
	for u := range n {
		slots[u], start[u+1] = int32((u*7)%n), int32(2*u+2)
		pos[2*u], pos[2*u+1] = int32(slots[u]), int32(slots[u])+n
	}
	for step := 1; step <= steps; step++ {
		o := Optimizer{Kind: kind, LR: 0.1, Momentum: 0.9, Eps: 1e-8, Beta1: 0.9, Beta2: 0.999, C1: 0.1, C2: 1 - 0.999,
			StepSize: float32(0.1 / (1 - math.Pow(0.9, float64(step)))), BiasSqrt: float32(math.Sqrt(1 - math.Pow(0.999, float64(step)))),
			Beta: 1, L1: 0.5, L2: 0.25, Decay: float32(decay), Keep: 1}
		if kind.Rule().Decouples {
			o.Decay, o.Keep = 0, float32(1-0.1*decay)
		}
		grads := ordinary(r, 2*n*d)
		s.UpdateRows(WholeRow(o), Mat(HostBuffer(rows), n, width), HostBuffer(slots), Mat(HostBuffer(grads), 2*n, d), HostBuffer(start), HostBuffer(pos))
		sums := make([]float32, n*d)
		for i := range sums {
			sums[i] = grads[i] + grads[n*d+i]
		}
		if kind != RowwiseAdagrad {
			s.UpdateDense(o, HostBuffer(dense), HostBuffer(denseState[:kind.DenseState(n*d)]), HostBuffer(sums))
		}
		for u := range n {
			updateReference(kind, step, decay, weights[u*d:][:d], state[u*d:][:d], state[(n+u)*d:][:d], sums[u*d:][:d])
		}
	}
	for i, w := range weights {
		near(t, name+" row weight", rows[i/d*width+i%d], w, 1)
		if kind != RowwiseAdagrad {
			near(t, name+" dense weight", dense[i], w, 1)
		}
	}
}

// updateReference computes PyTorch's rules with learning rate 0.1 and a weight decay in float64,
// and algorithm 1 of FTRL's paper.
func updateReference(kind OptimizerKind, step int, decay float64, w, s, v []float64, g []float32) {
	mean := 0.0
	for i, x := range g {
		x := float64(x) + decay*w[i]
		mean += x * x / float64(len(g))
	}
	for i, x32 := range g {
		x := float64(x32) + decay*w[i]
		switch kind {
		case SGD:
			w[i] -= 0.1 * x
		case Momentum:
			s[i] = 0.9*s[i] + x
			w[i] -= 0.1 * s[i]
		case Adagrad:
			s[i] += x * x
			w[i] -= 0.1 * x / (math.Sqrt(s[i]) + 1e-8)
		case RowwiseAdagrad:
			s[i] += mean
			w[i] -= 0.1 * x / (math.Sqrt(s[i]) + 1e-8)
		case FTRL:
			const alpha, beta, l1, l2 = 0.1, 1, 0.5, 0.25
			sigma := (math.Sqrt(v[i]+x*x) - math.Sqrt(v[i])) / alpha
			s[i] += x - sigma*w[i]
			v[i] += x * x
			if w[i] = 0; math.Abs(s[i]) > l1 {
				w[i] = -(s[i] - math.Copysign(l1, s[i])) / ((beta+math.Sqrt(v[i]))/alpha + l2)
			}
		case AdamW:
			x = float64(x32)
			w[i] -= 0.1 * decay * w[i]
			fallthrough
		case Adam:
			s[i] = 0.9*s[i] + 0.1*x
			v[i] = 0.999*v[i] + 0.001*x*x
			m, q := s[i]/(1-math.Pow(0.9, float64(step))), v[i]/(1-math.Pow(0.999, float64(step)))
			w[i] -= 0.1 * m / (math.Sqrt(q) + 1e-8)
		}
	}
}
