package kernels

// OptimizerKind names an update rule.
type OptimizerKind int

const (
	SGD OptimizerKind = iota
	Momentum
	Adagrad
	RowwiseAdagrad
	Adam
)

// Optimizer is one step of an update rule, ready to be applied. With gradient
// g, all in float32 and each operation rounded by itself:
//
//	sgd              w -= LR*g
//	momentum         m = Momentum*m + g;                    w -= LR*m
//	adagrad          s = s + g*g;                           w -= LR*g / (sqrt(s) + Eps)
//	rowwise adagrad  s = s + mean of g*g over the row;      w -= LR*g / (sqrt(s) + Eps)
//	adam             m = Beta1*m + C1*g; v = Beta2*v + C2*(g*g)
//	                 w -= StepSize*m / (sqrt(v)/BiasSqrt + Eps)
//
// as in PyTorch 1.13 (torch.optim, and FBGEMM for the row-wise rule).
type Optimizer struct {
	Kind                 OptimizerKind
	LR, Momentum, Eps    float32
	Beta1, Beta2, C1, C2 float32 // adam: C1 = 1 - Beta1, C2 = 1 - Beta2, computed in float64
	StepSize, BiasSqrt   float32 // adam: LR / (1 - Beta1^t) and sqrt(1 - Beta2^t), in float64
}

// RowState is how many floats of state a row of width floats carries.
func (k OptimizerKind) RowState(width int) int {
	switch k {
	case SGD:
		return 0
	case RowwiseAdagrad:
		return 1
	case Adam:
		return 2 * width
	default:
		return width
	}
}

// DenseState is how many floats of state n dense weights carry: adam keeps all
// first moments before all second moments. RowwiseAdagrad is for rows only.
func (k OptimizerKind) DenseState(n int) int {
	if k == RowwiseAdagrad {
		panic("kernels: rowwise_adagrad has no dense form")
	}
	return k.RowState(n)
}
