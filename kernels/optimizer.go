package kernels

import (
	"fmt"
	"slices"
)

// Rules is the registry of update rules. Config validation, memory planning,
// schedules, benchmarks and the config reference read it.
//
// To add a rule, write its Update in a file of its own, append a Rule here and a
// constant below: its place in the list is its OptimizerKind. For GPUs, add the rule to
// cuda/optimizer.cuh; until then a step on a GPU panics with the rule's number. A
// vector version goes into loops_amd64.go and must give the same bits. Run
// optimizertest.Run on the rule in a test.
var Rules = []Rule{
	SGD: {Name: "sgd", Update: sgdPlain,
		Doc: "w -= lr*g"},
	Momentum: {Name: "momentum", Update: momentumPlain, StatePerWeight: 1, Keys: []string{"momentum"},
		Doc: "m = momentum*m + g; w -= lr*m"},
	Adagrad: {Name: "adagrad", Update: adagradPlain, StatePerWeight: 1, Keys: []string{"eps"}, Eps: 1e-10,
		Doc: "s = s + g*g; w -= lr*g / (sqrt(s) + eps)"},
	RowwiseAdagrad: {Name: "rowwise_adagrad", Update: rowwisePlain, StatePerRow: 1, Keys: []string{"eps"}, Eps: 1e-10,
		Doc: "adagrad with one s per row: s = s + mean of g*g over the row"},
	Adam: {Name: "adam", Update: adamPlain, StatePerWeight: 2, Keys: []string{"betas", "eps"}, Eps: 1e-8,
		Doc: "m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g*g; w -= step*m / (sqrt(v)/bias + eps)"},
	AdamW: {Name: "adamw", Update: adamWPlain, StatePerWeight: 2, Keys: []string{"betas", "eps"}, Eps: 1e-8, Decouples: true,
		Doc: "w = w - lr*weight_decay*w; then adam, whose gradient has no weight decay"},
	FTRL: {Name: "ftrl", Update: ftrlPlain, StatePerWeight: 2, Keys: []string{"beta", "l1", "l2"},
		Doc: "z = z + g - (sqrt(n+g*g) - sqrt(n))/lr*w; n = n + g*g; w = 0 if |z| <= l1, else -(z - sign(z)*l1) / ((beta + sqrt(n))/lr + l2)"},
}

// OptimizerKind is the place of an update rule in Rules.
type OptimizerKind int

// The rules that code names.
const (
	SGD OptimizerKind = iota
	Momentum
	Adagrad
	RowwiseAdagrad
	Adam
	AdamW
	FTRL
)

// Rule is an update rule.
type Rule struct {
	// Name is the value of optimizer.dense.kind and optimizer.sparse.kind.
	Name string
	// Doc is the rule as a formula.
	Doc string
	// Keys are the keys of [optimizer.*] that only some rules read and this one does:
	// "momentum", "eps", "betas", "beta", "l1", "l2". Set for another rule, a key has no
	// effect.
	Keys []string
	// Eps is the default of eps for a rule that reads it.
	Eps float64
	// Decouples: weight decay shrinks the weights, by Optimizer.Keep, which Update applies.
	// Otherwise weight_decay*w is added to the gradients before Update.
	Decouples bool
	// StatePerWeight is the floats of state of each weight, at most 2. StatePerRow is
	// the floats of state of a row beside those; such a rule has no dense form, and no
	// state per weight.
	StatePerWeight, StatePerRow int
	// Update is the plain version: it applies one step to the weights w with the
	// gradients g, of the same length. s is the first float of state of each weight, or
	// the state of the row, and v the second; each is empty if there is none. Products
	// are converted, float32(a*b), before they are added to, so that no compiler fuses
	// the two.
	Update UpdateLoop
}

// UpdateLoop applies one step of a rule to weights; see Rule.Update.
type UpdateLoop func(w, s, v, g []float32, o *Optimizer)

// Reads reports whether the rule reads a key of [optimizer.*].
func (r *Rule) Reads(key string) bool { return slices.Contains(r.Keys, key) }

// Dense reports whether the rule can update dense weights. The others are for rows.
func (r *Rule) Dense() bool { return r.StatePerRow == 0 }

// FindRule returns the rule of a name.
func FindRule(name string) (kind OptimizerKind, ok bool) {
	i := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == name })
	return OptimizerKind(i), i >= 0
}

// RuleNames lists the names of the rules: all of them, or those that have a dense form.
func RuleNames(dense bool) (names []string) {
	for _, r := range Rules {
		if r.Dense() || !dense {
			names = append(names, r.Name)
		}
	}
	return names
}

// Rule is the entry of Rules.
func (k OptimizerKind) Rule() *Rule {
	if k < 0 || int(k) >= len(Rules) {
		panic(fmt.Sprintf("kernels: no update rule %d: there are %d", int(k), len(Rules)))
	}
	return &Rules[k]
}

func (k OptimizerKind) String() string { return k.Rule().Name }

// RowState is how many floats of state a row of width floats carries. They follow the
// weights: the first of each weight, then the second; or those of the row.
func (k OptimizerKind) RowState(width int) int {
	r := k.Rule()
	return r.StatePerWeight*width + r.StatePerRow
}

// DenseState is how many floats of state n dense weights carry: the first of each
// weight, then the second. It panics for a rule without a dense form.
func (k OptimizerKind) DenseState(n int) int {
	r := k.Rule()
	if !r.Dense() {
		panic("kernels: " + r.Name + " has no dense form")
	}
	return r.StatePerWeight * n
}

// Optimizer is one step of an update rule, ready to be applied. Each operation of a
// rule is in float32 and rounded by itself. The rules are those of PyTorch 1.13
// (torch.optim, and FBGEMM for the row-wise one). FTRL is algorithm 1 of McMahan et al., "Ad
// Click Prediction: a View from the Trenches" (KDD 2013), with the rate of the step as alpha:
// weights that do not start at 0 are pulled to 0 by their first updates.
type Optimizer struct {
	Kind                 OptimizerKind
	LR, Momentum, Eps    float32
	Beta1, Beta2, C1, C2 float32 // betas: C1 = 1 - Beta1, C2 = 1 - Beta2, computed in float64
	StepSize, BiasSqrt   float32 // betas: LR / (1 - Beta1^t) and sqrt(1 - Beta2^t), in float64
	Beta, L1, L2         float32 // of FTRL
	// Scale multiplies gradients before anything else, unless it is 0 or 1.
	Scale float32
	// Decay is the weight decay of rules that do not decouple it: the gradient becomes
	// g + Decay*w, after Scale. At 0 gradients are used as they are.
	Decay float32
	// Keep is 1 - LR*decay, computed in float64, for rules that decouple weight decay.
	Keep float32
}
