package kernels_test

import (
	"math"
	"testing"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/kernels/optimizertest"
)

// references are the rules as formulas, each operation rounded by itself.
var references = map[string]optimizertest.Reference{
	"sgd": func(o *kernels.Optimizer, w, _, g []float32) {
		for i := range w {
			step := o.LR * g[i]
			w[i] -= float32(step)
		}
	},
	"momentum": func(o *kernels.Optimizer, w, m, g []float32) {
		for i := range w {
			m[i] = float32(o.Momentum*m[i]) + g[i]
			w[i] -= float32(o.LR * m[i])
		}
	},
	"adagrad": func(o *kernels.Optimizer, w, s, g []float32) {
		for i := range w {
			s[i] += float32(g[i] * g[i])
			w[i] -= float32(o.LR*g[i]) / (root(s[i]) + o.Eps)
		}
	},
	"rowwise_adagrad": func(o *kernels.Optimizer, w, s, g []float32) {
		var lanes [8]float32 // the order of the sum that the package doc defines
		for i, x := range g {
			lanes[i%8] += float32(x * x)
		}
		left := (lanes[0] + lanes[4]) + (lanes[2] + lanes[6])
		right := (lanes[1] + lanes[5]) + (lanes[3] + lanes[7])
		s[0] += (left + right) / float32(len(g))
		for i := range w {
			w[i] -= float32(o.LR*g[i]) / (root(s[0]) + o.Eps)
		}
	},
	"adamw": func(o *kernels.Optimizer, w, state, g []float32) {
		m, v := state[:len(w)], state[len(w):]
		for i := range w {
			m[i] = float32(o.Beta1*m[i]) + float32(o.C1*g[i])
			v[i] = float32(o.Beta2*v[i]) + float32(o.C2*float32(g[i]*g[i]))
			kept := float32(o.Keep * w[i])
			w[i] = kept - float32(o.StepSize*m[i])/(root(v[i])/o.BiasSqrt+o.Eps)
		}
	},
	"ftrl": func(o *kernels.Optimizer, w, state, g []float32) {
		z, n := state[:len(w)], state[len(w):]
		for i := range w {
			next := n[i] + float32(g[i]*g[i])
			sigma := (root(next) - root(n[i])) / o.LR
			z[i] = (z[i] + g[i]) - float32(sigma*w[i])
			n[i] = next
			below := (o.Beta+root(n[i]))/o.LR + o.L2
			switch {
			case z[i] > o.L1 || z[i] != z[i]:
				w[i] = -((z[i] - o.L1) / below)
			case z[i] < -o.L1:
				w[i] = -((z[i] + o.L1) / below)
			default:
				w[i] = 0
			}
		}
	},
	"adam": func(o *kernels.Optimizer, w, state, g []float32) {
		m, v := state[:len(w)], state[len(w):]
		for i := range w {
			m[i] = float32(o.Beta1*m[i]) + float32(o.C1*g[i])
			v[i] = float32(o.Beta2*v[i]) + float32(o.C2*float32(g[i]*g[i]))
			w[i] -= float32(o.StepSize*m[i]) / (root(v[i])/o.BiasSqrt + o.Eps)
		}
	},
}

// root is the square root, correctly rounded.
func root(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func TestRules(t *testing.T) {
	for _, r := range kernels.Rules {
		t.Run(r.Name, func(t *testing.T) {
			ref, ok := references[r.Name]
			if !ok {
				t.Fatalf("add the formula of %s to references", r.Name)
			}
			optimizertest.Run(t, r.Name, ref)
		})
	}
}
