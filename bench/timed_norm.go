package bench

import (
	"time"

	"github.com/ecrec/ecrec/kernels"
)

func (t *timed) ColumnSums(sums kernels.Buffer, x kernels.Matrix) {
	defer t.addCost(opNorm, time.Now(), sizeOf(x))
	t.Stream.ColumnSums(sums, x)
}

func (t *timed) ColumnSquares(sums kernels.Buffer, x kernels.Matrix, mean kernels.Buffer) {
	defer t.addCost(opNorm, time.Now(), sizeOf(x))
	t.Stream.ColumnSquares(sums, x, mean)
}

func (t *timed) BatchNorm(y, x kernels.Matrix, n kernels.Norm, act kernels.Activation) {
	defer t.addCost(opNorm, time.Now(), sizeOf(y, x))
	t.Stream.BatchNorm(y, x, n, act)
}

func (t *timed) BatchNormSums(dgamma, dbeta kernels.Buffer, dy, x kernels.Matrix, n kernels.Norm) {
	defer t.addCost(opNorm, time.Now(), sizeOf(dy, x))
	t.Stream.BatchNormSums(dgamma, dbeta, dy, x, n)
}

func (t *timed) BatchNormGrad(dx, dy, x kernels.Matrix, n kernels.Norm, dgamma, dbeta kernels.Buffer, samples int) {
	defer t.addCost(opNorm, time.Now(), sizeOf(dx, dy, x))
	t.Stream.BatchNormGrad(dx, dy, x, n, dgamma, dbeta, samples)
}

func (t *timed) Dropout(y kernels.Matrix, d kernels.Dropout) {
	defer t.addCost(opNorm, time.Now(), sizeOf(y, y))
	t.Stream.Dropout(y, d)
}

func (t *timed) Scale(dst, src kernels.Buffer, by float32) {
	defer t.addCost(opNorm, time.Now(), dst.Bytes()+src.Bytes())
	t.Stream.Scale(dst, src, by)
}

func (t *timed) FM(out, feats kernels.Matrix, f, d int) {
	defer t.addCost(opInteract, time.Now(), sizeOf(out, feats))
	t.Stream.FM(out, feats, f, d)
}

func (t *timed) FMGrad(dfeats, dout, feats kernels.Matrix, f, d int) {
	defer t.addCost(opInteract, time.Now(), sizeOf(dfeats, dfeats, dout, feats))
	t.Stream.FMGrad(dfeats, dout, feats, f, d)
}

func (t *timed) ScaleVectors(dst, x, v kernels.Matrix) {
	defer t.addCost(opInteract, time.Now(), sizeOf(dst, x, v))
	t.Stream.ScaleVectors(dst, x, v)
}

func (t *timed) ScaleVectorsGrad(dv, x, dout kernels.Matrix) {
	defer t.addCost(opInteract, time.Now(), sizeOf(dv, x, dout))
	t.Stream.ScaleVectorsGrad(dv, x, dout)
}

func (t *timed) ExtendVectors(dst, vectors, tail kernels.Matrix, d int) {
	defer t.addCost(opCopy, time.Now(), sizeOf(dst, vectors, tail))
	t.Stream.ExtendVectors(dst, vectors, tail, d)
}

func (t *timed) CopyColumns(dst, src kernels.Matrix) {
	defer t.addCost(opCopy, time.Now(), sizeOf(dst, src))
	t.Stream.CopyColumns(dst, src)
}
