package kernels

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/internal/f32"
)

// lossGrain is how many samples a tile holds, some 50 us of work.
const lossGrain = 1024

func (s *stream) SigmoidBCE(loss, dlogit, logit, label Buffer, scale float32) {
	const op = "SigmoidBCE"
	t := lossTask{
		loss: floatsOf(op, "loss", loss), out: floatsOf(op, "dlogit", dlogit),
		logit: floatsOf(op, "logit", logit), label: floatsOf(op, "label", label), scale: scale,
	}
	n := len(t.logit)
	if len(t.loss) != n || len(t.out) != n || len(t.label) != n {
		panic(fmt.Sprintf("kernels: %s of %d logits, %d labels to %d losses, %d gradients", op, n, len(t.label), len(t.loss), len(t.out)))
	}
	s.runLoss(t)
}

func (s *stream) Sigmoid(p, z Buffer) {
	t := lossTask{out: floatsOf("Sigmoid", "p", p), logit: floatsOf("Sigmoid", "z", z)}
	if len(t.out) != len(t.logit) {
		panic(fmt.Sprintf("kernels: Sigmoid of %d logits to %d", len(t.logit), len(t.out)))
	}
	s.runLoss(t)
}

func (s *stream) runLoss(t lossTask) {
	s.losing = t
	s.pool.run(tiles(len(t.logit), lossGrain), &s.losing)
	s.losing = lossTask{}
}

// lossTask computes losses and their gradients, or probabilities where there are
// no labels. It works in float64 and rounds once.
type lossTask struct {
	loss, out, logit, label []float32
	scale                   float32
}

func (t *lossTask) tile(_, i int) {
	lo, hi := span(i, lossGrain, len(t.logit))
	for ; lo < hi; lo++ {
		z := float64(t.logit[lo])
		if t.label == nil {
			t.out[lo] = float32(f32.Sigmoid64(z))
			continue
		}
		y := float64(t.label[lo])
		e := f32.Exp64(-math.Abs(z))
		p := 1 / (1 + e)
		if z < 0 {
			p = e / (1 + e)
		}
		t.loss[lo] = float32(f32.Log1p64(e) + max(z, 0) - float64(z*y))
		t.out[lo] = float32(float64(p-y) * float64(t.scale))
	}
}
