package kernels

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/f32"
)

// lossGrain is the number of samples in a part: about 50 us of work.
const lossGrain = 1024

func (s *stream) SigmoidBCE(loss, dlogit, logit, label Buffer, scale float32) {
	s.crossEntropy("SigmoidBCE", loss, dlogit, logit, label, Buffer{}, 1, scale)
}

func (s *stream) WeightedSigmoidBCE(loss, dlogit, logit, label, weight Buffer, positive, scale float32) {
	s.crossEntropy("WeightedSigmoidBCE", loss, dlogit, logit, label, weight, positive, scale)
}

func (s *stream) crossEntropy(op string, loss, dlogit, logit, label, weight Buffer, positive, scale float32) {
	t := lossTask{positive: float64(positive),
		loss: floatsOf(op, "loss", loss), out: floatsOf(op, "dlogit", dlogit),
		logit: floatsOf(op, "logit", logit), label: floatsOf(op, "label", label), scale: scale,
	}
	n := len(t.logit)
	if weight.Bytes() > 0 {
		t.weight = floatsOf(op, "weight", weight)
	}
	if len(t.loss) != n || len(t.out) != n || len(t.label) != n || t.weight != nil && len(t.weight) != n {
		panic(fmt.Sprintf("kernels: %s of %d logits, %d labels to %d losses, %d gradients, with %d weights", op, n, len(t.label),
			len(t.loss), len(t.out), len(t.weight)))
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
	s.pool.runTask(partsOf(len(t.logit), lossGrain), &s.losing)
	s.losing = lossTask{}
}

// lossTask computes losses and their gradients, or probabilities if label is nil. It
// works in float64 and rounds once.
type lossTask struct {
	loss, out, logit, label []float32
	weight                  []float32 // nil: all are 1
	positive                float64
	scale                   float32
}

// factorOf is the factor of a sample with label y.
func (t *lossTask) factorOf(i int, y float64) float64 {
	factor := 1.0
	if y > 0 {
		factor = t.positive
	}
	if t.weight != nil {
		factor *= float64(t.weight[i])
	}
	return factor
}

func (t *lossTask) runPart(_, i int) {
	lo, hi := partSpan(i, lossGrain, len(t.logit))
	for ; lo < hi; lo++ {
		z := float64(t.logit[lo])
		if t.label == nil {
			t.out[lo] = float32(f32.Sigmoid64(z))
			continue
		}
		y := float64(t.label[lo])
		p, loss := f32.CrossEntropy64(z, y)
		factor := t.factorOf(lo, y)
		t.loss[lo] = float32(loss * factor)
		t.out[lo] = float32(float64((p-y)*factor) * float64(t.scale))
	}
}
