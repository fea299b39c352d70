package bench

import (
	"time"

	"github.com/ecrec/ecrec/kernels"
)

func (t *timed) ColumnSums(sums kernels.Buffer, x kernels.Matrix) {
	defer t.addTime(opNorm, time.Now())
	t.Stream.ColumnSums(sums, x)
}

func (t *timed) ColumnSquares(sums kernels.Buffer, x kernels.Matrix, mean kernels.Buffer) {
	defer t.addTime(opNorm, time.Now())
	t.Stream.ColumnSquares(sums, x, mean)
}

func (t *timed) BatchNorm(y, x kernels.Matrix, n kernels.Norm, act kernels.Activation) {
	defer t.addTime(opNorm, time.Now())
	t.Stream.BatchNorm(y, x, n, act)
}

func (t *timed) BatchNormSums(dgamma, dbeta kernels.Buffer, dy, x kernels.Matrix, n kernels.Norm) {
	defer t.addTime(opNorm, time.Now())
	t.Stream.BatchNormSums(dgamma, dbeta, dy, x, n)
}

func (t *timed) BatchNormGrad(dx, dy, x kernels.Matrix, n kernels.Norm, dgamma, dbeta kernels.Buffer, samples int) {
	defer t.addTime(opNorm, time.Now())
	t.Stream.BatchNormGrad(dx, dy, x, n, dgamma, dbeta, samples)
}

func (t *timed) Dropout(y kernels.Matrix, d kernels.Dropout) {
	defer t.addTime(opNorm, time.Now())
	t.Stream.Dropout(y, d)
}

func (t *timed) Scale(dst, src kernels.Buffer, by float32) {
	defer t.addTime(opNorm, time.Now())
	t.Stream.Scale(dst, src, by)
}

func (t *timed) FM(out, feats kernels.Matrix, f, d int) {
	defer t.addTime(opInteract, time.Now())
	t.Stream.FM(out, feats, f, d)
}

func (t *timed) FMGrad(dfeats, dout, feats kernels.Matrix, f, d int) {
	defer t.addTime(opInteract, time.Now())
	t.Stream.FMGrad(dfeats, dout, feats, f, d)
}

func (t *timed) ScaleVectors(dst, x, v kernels.Matrix) {
	defer t.addTime(opInteract, time.Now())
	t.Stream.ScaleVectors(dst, x, v)
}

func (t *timed) ScaleVectorsGrad(dv, x, dout kernels.Matrix) {
	defer t.addTime(opInteract, time.Now())
	t.Stream.ScaleVectorsGrad(dv, x, dout)
}

func (t *timed) CopyColumns(dst, src kernels.Matrix) {
	defer t.addTime(opCopy, time.Now())
	t.Stream.CopyColumns(dst, src)
}
