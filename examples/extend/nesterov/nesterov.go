package nesterov

import "github.com/ecrec/ecrec/kernels"

// Rule is the entry for kernels.Rules.
var Rule = kernels.Rule{
	Name:           "nesterov",
	Doc:            "m = momentum*m + g; w -= lr*(g + momentum*m)",
	Keys:           []string{"momentum"},
	StatePerWeight: 1,
	Update:         update,
}

// update applies a step: m is the state of each weight. Each product is converted before it is
// added to, so that no compiler fuses the two.
func update(w, m, _, g []float32, o *kernels.Optimizer) {
	for i, x := range g {
		m[i] = float32(o.Momentum*m[i]) + x
		ahead := x + float32(o.Momentum*m[i])
		w[i] -= float32(o.LR * ahead)
	}
}
