package bench

import (
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// timed is a Stream that sums the time of each group of operations, and the bytes of their
// operands. It is for the CPU, whose operations are complete when their calls return.
type timed struct {
	kernels.Stream
	on    bool
	spent map[string]cost
	cpu   []time.Duration // of the process in each block; of an open block: since the process began
	peak  func() float64  // nil: not measured
	peaks []float64       // results of peak, before each block
}

// enterBlock is measure.Options.Block.
func (t *timed) enterBlock(begins bool) {
	t.on = begins
	if begins {
		if t.peak != nil {
			t.peaks = append(t.peaks, t.peak())
		}
		t.cpu = append(t.cpu, cpuTime())
		return
	}
	last := &t.cpu[len(t.cpu)-1]
	*last = cpuTime() - *last
}

// cost is the time of operations, and the traffic that they cannot avoid unless caches hold an
// operand from one operation to the next: each operand is read once, each result is written once.
// Of rows only those that an operation names count, once for each time it names them.
type cost struct {
	time  time.Duration
	bytes int
}

// addCost counts an operation that began at begin and reads and writes a number of bytes.
func (t *timed) addCost(group string, begin time.Time, bytes int) {
	if t.on {
		c := t.spent[group]
		t.spent[group] = cost{c.time + time.Since(begin), c.bytes + bytes}
	}
}

// sizeOf is the bytes of the elements of matrices.
func sizeOf(all ...kernels.Matrix) (bytes int) {
	for _, m := range all {
		bytes += 4 * m.Rows * m.Cols
	}
	return bytes
}

// sizeOfRows is the bytes of one row of cols floats for each number of a list, and of the list.
func sizeOfRows(list kernels.Buffer, cols int) int { return list.Floats()*4*cols + list.Bytes() }

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
	defer t.addCost(opLinear, time.Now(), sizeOf(y, x, w)+b.Bytes())
	t.Stream.Linear(y, x, w, b, act)
}

func (t *timed) LinearGradInput(dx, dy, w, gate kernels.Matrix) {
	defer t.addCost(opInput, time.Now(), sizeOf(dx, dy, w, gate))
	t.Stream.LinearGradInput(dx, dy, w, gate)
}

func (t *timed) LinearGradWeight(dw kernels.Matrix, db kernels.Buffer, dy, x kernels.Matrix) {
	defer t.addCost(opWeight, time.Now(), sizeOf(dw, dy, x)+db.Bytes())
	t.Stream.LinearGradWeight(dw, db, dy, x)
}

func (t *timed) GateReLU(dy, y kernels.Matrix) {
	defer t.addCost(opInteract, time.Now(), sizeOf(dy, dy, y))
	t.Stream.GateReLU(dy, y)
}

func (t *timed) MulAdd(dst, a, b, c kernels.Matrix) {
	defer t.addCost(opInteract, time.Now(), sizeOf(dst, a, b, c))
	t.Stream.MulAdd(dst, a, b, c)
}

func (t *timed) DotInteraction(out, feats kernels.Matrix, f, d int) {
	defer t.addCost(opInteract, time.Now(), sizeOf(out, feats))
	t.Stream.DotInteraction(out, feats, f, d)
}

func (t *timed) DotInteractionGrad(dfeats, dout, feats kernels.Matrix, f, d int) {
	defer t.addCost(opInteract, time.Now(), sizeOf(dfeats, dout, feats))
	t.Stream.DotInteractionGrad(dfeats, dout, feats, f, d)
}

func (t *timed) GatherRows(dst, src kernels.Matrix, index kernels.Buffer) {
	defer t.addCost(opGather, time.Now(), sizeOf(dst)+sizeOfRows(index, src.Cols))
	t.Stream.GatherRows(dst, src, index)
}

func (t *timed) ScatterRows(dst, src kernels.Matrix, index kernels.Buffer) {
	defer t.addCost(opRows, time.Now(), sizeOf(src)+sizeOfRows(index, src.Cols))
	t.Stream.ScatterRows(dst, src, index)
}

func (t *timed) SumRows(dst, src kernels.Matrix, start, pos kernels.Buffer) {
	defer t.addCost(opSum, time.Now(), sizeOf(dst)+sizeOfRows(pos, dst.Cols))
	t.Stream.SumRows(dst, src, start, pos)
}

func (t *timed) PoolRows(dst, src kernels.Matrix, index, offsets, weights kernels.Buffer) {
	defer t.addCost(opGather, time.Now(), sizeOf(dst)+sizeOfRows(index, src.Cols)+weights.Bytes())
	t.Stream.PoolRows(dst, src, index, offsets, weights)
}

func (t *timed) SumWeighted(dst, src kernels.Matrix, start, pos, factors kernels.Buffer) {
	defer t.addCost(opSum, time.Now(), sizeOf(dst)+sizeOfRows(pos, dst.Cols)+factors.Bytes())
	t.Stream.SumWeighted(dst, src, start, pos, factors)
}

func (t *timed) DivideCells(m kernels.Matrix, d int, offsets, mean kernels.Buffer) {
	defer t.addCost(opGather, time.Now(), sizeOf(m, m))
	t.Stream.DivideCells(m, d, offsets, mean)
}

func (t *timed) InitRows(rows kernels.Matrix, slots kernels.Buffer, init kernels.RowInit) {
	defer t.addCost(opRows, time.Now(), sizeOfRows(slots, rows.Cols))
	t.Stream.InitRows(rows, slots, init)
}

func (t *timed) UpdateRows(rule kernels.RowRule, rows kernels.Matrix, slots kernels.Buffer, grads kernels.Matrix, start,
	pos kernels.Buffer) {
	defer t.addCost(opRows, time.Now(), sizeOfRows(slots, 2*rows.Cols)+sizeOfRows(pos, grads.Cols))
	t.Stream.UpdateRows(rule, rows, slots, grads, start, pos)
}

func (t *timed) UpdateDense(opt kernels.Optimizer, w, state, g kernels.Buffer) {
	defer t.addCost(opDense, time.Now(), 2*w.Bytes()+2*state.Bytes()+g.Bytes())
	t.Stream.UpdateDense(opt, w, state, g)
}

func (t *timed) WeightedSigmoidBCE(loss, dlogit, logit, label, weight kernels.Buffer, positive, scale float32) {
	defer t.addCost(opLoss, time.Now(), loss.Bytes()+dlogit.Bytes()+logit.Bytes()+label.Bytes()+weight.Bytes())
	t.Stream.WeightedSigmoidBCE(loss, dlogit, logit, label, weight, positive, scale)
}

func (t *timed) SigmoidBCE(loss, dlogit, logit, label kernels.Buffer, scale float32) {
	defer t.addCost(opLoss, time.Now(), loss.Bytes()+dlogit.Bytes()+logit.Bytes()+label.Bytes())
	t.Stream.SigmoidBCE(loss, dlogit, logit, label, scale)
}

func (t *timed) Upload(dst kernels.Buffer, src []byte) {
	defer t.addCost(opCopy, time.Now(), 2*len(src))
	t.Stream.Upload(dst, src)
}

func (t *timed) Copy(dst, src kernels.Buffer) {
	defer t.addCost(opCopy, time.Now(), dst.Bytes()+src.Bytes())
	t.Stream.Copy(dst, src)
}

func (t *timed) Sum(dst kernels.Buffer, addends []kernels.Buffer) {
	defer t.addCost(opInteract, time.Now(), (1+len(addends))*dst.Bytes())
	t.Stream.Sum(dst, addends)
}
