package bench

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
)

// waiting is the stream of a trainer whose forward and backward pass take some time on another device: it waits between them, once a step.
// The layers are computed too.
type waiting struct {
	kernels.Stream
	env   env.Env
	takes time.Duration
}

// waitIn returns a stream that waits if it is a trainer's.
func waitIn(e env.Env, s kernels.Stream, isTrainer bool, takes time.Duration) kernels.Stream {
	if !isTrainer || takes == 0 {
		return s
	}
	return &waiting{s, e, takes}
}

// WeightedSigmoidBCE is called once a step, if samples or classes have weights.
func (w *waiting) WeightedSigmoidBCE(loss, dlogit, logit, label, weight kernels.Buffer, positive, scale float32) {
	w.env.Sleep(w.takes)
	w.Stream.WeightedSigmoidBCE(loss, dlogit, logit, label, weight, positive, scale)
}

// SigmoidBCE is called once a step, if not.
func (w *waiting) SigmoidBCE(loss, dlogit, logit, label kernels.Buffer, scale float32) {
	w.env.Sleep(w.takes)
	w.Stream.SigmoidBCE(loss, dlogit, logit, label, scale)
}
