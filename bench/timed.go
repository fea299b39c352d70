package bench

import (
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// timed is a Stream that sums the time of each group of operations. It is for the CPU, whose
// operations are complete when their calls return.
type timed struct {
	kernels.Stream
	on    bool
	spent map[string]time.Duration
}

func (t *timed) addTime(group string, begin time.Time) {
	if t.on {
		t.spent[group] += time.Since(begin)
	}
}

// The groups of operations, in the order of a step.
const (
	opLinear   = "linear forward"
	opInput    = "linear grad input"
	opWeight   = "linear grad weight"
	opInteract = "interaction"
	opNorm     = "batch norm, dropout"
	opGather   = "gather"
	opSum      = "sum row gradients"
	opRows     = "update rows"
	opDense    = "update dense"
	opLoss     = "loss"
	opCopy     = "upload, copy"
)

var opGroups = []string{opLinear, opInput, opWeight, opInteract, opNorm, opGather, opSum, opRows, opDense, opLoss, opCopy}

func (t *timed) Linear(y, x, w kernels.Matrix, b kernels.Buffer, act kernels.Activation) {
	defer t.addTime(opLinear, time.Now())
	t.Stream.Linear(y, x, w, b, act)
}

func (t *timed) LinearGradInput(dx, dy, w, gate kernels.Matrix) {
	defer t.addTime(opInput, time.Now())
	t.Stream.LinearGradInput(dx, dy, w, gate)
}

func (t *timed) LinearGradWeight(dw kernels.Matrix, db kernels.Buffer, dy, x kernels.Matrix) {
	defer t.addTime(opWeight, time.Now())
	t.Stream.LinearGradWeight(dw, db, dy, x)
}

func (t *timed) GateReLU(dy, y kernels.Matrix) {
	defer t.addTime(opInteract, time.Now())
	t.Stream.GateReLU(dy, y)
}

func (t *timed) MulAdd(dst, a, b, c kernels.Matrix) {
	defer t.addTime(opInteract, time.Now())
	t.Stream.MulAdd(dst, a, b, c)
}

func (t *timed) DotInteraction(out, feats kernels.Matrix, f, d int) {
	defer t.addTime(opInteract, time.Now())
	t.Stream.DotInteraction(out, feats, f, d)
}

func (t *timed) DotInteractionGrad(dfeats, dout, feats kernels.Matrix, f, d int) {
	defer t.addTime(opInteract, time.Now())
	t.Stream.DotInteractionGrad(dfeats, dout, feats, f, d)
}

func (t *timed) GatherRows(dst, src kernels.Matrix, index kernels.Buffer) {
	defer t.addTime(opGather, time.Now())
	t.Stream.GatherRows(dst, src, index)
}

func (t *timed) ScatterRows(dst, src kernels.Matrix, index kernels.Buffer) {
	defer t.addTime(opRows, time.Now())
	t.Stream.ScatterRows(dst, src, index)
}

func (t *timed) SumRows(dst, src kernels.Matrix, start, pos kernels.Buffer) {
	defer t.addTime(opSum, time.Now())
	t.Stream.SumRows(dst, src, start, pos)
}

func (t *timed) PoolRows(dst, src kernels.Matrix, index, offsets, weights kernels.Buffer) {
	defer t.addTime(opGather, time.Now())
	t.Stream.PoolRows(dst, src, index, offsets, weights)
}

func (t *timed) SumWeighted(dst, src kernels.Matrix, start, pos, factors kernels.Buffer) {
	defer t.addTime(opSum, time.Now())
	t.Stream.SumWeighted(dst, src, start, pos, factors)
}

func (t *timed) DivideCells(m kernels.Matrix, d int, offsets, mean kernels.Buffer) {
	defer t.addTime(opGather, time.Now())
	t.Stream.DivideCells(m, d, offsets, mean)
}

func (t *timed) InitRows(rows kernels.Matrix, slots kernels.Buffer, init kernels.RowInit) {
	defer t.addTime(opRows, time.Now())
	t.Stream.InitRows(rows, slots, init)
}

func (t *timed) UpdateRows(rule kernels.RowRule, rows kernels.Matrix, slots kernels.Buffer, grads kernels.Matrix, start,
	pos kernels.Buffer) {
	defer t.addTime(opRows, time.Now())
	t.Stream.UpdateRows(rule, rows, slots, grads, start, pos)
}

func (t *timed) UpdateDense(opt kernels.Optimizer, w, state, g kernels.Buffer) {
	defer t.addTime(opDense, time.Now())
	t.Stream.UpdateDense(opt, w, state, g)
}

func (t *timed) WeightedSigmoidBCE(loss, dlogit, logit, label, weight kernels.Buffer, positive, scale float32) {
	defer t.addTime(opLoss, time.Now())
	t.Stream.WeightedSigmoidBCE(loss, dlogit, logit, label, weight, positive, scale)
}

func (t *timed) SigmoidBCE(loss, dlogit, logit, label kernels.Buffer, scale float32) {
	defer t.addTime(opLoss, time.Now())
	t.Stream.SigmoidBCE(loss, dlogit, logit, label, scale)
}

func (t *timed) Upload(dst kernels.Buffer, src []byte) {
	defer t.addTime(opCopy, time.Now())
	t.Stream.Upload(dst, src)
}
