package train

import (
	"sync/atomic"

	"github.com/ecrec/ecrec/kernels"
)

// Broken shows the ranks of a process that their world has ended while they compute. A pass takes most of a step, and its results would
// be dropped: the ranks return to the last commit. So they leave it at the next product. It is safe for concurrent use.
type Broken struct{ cause atomic.Pointer[error] }

// Set ends the passes of a world. Cause is the error of the passes under way; the first one counts.
func (b *Broken) Set(cause error) { b.cause.CompareAndSwap(nil, &cause) }

// Err returns the cause, nil while the world has not ended, or if b is nil.
func (b *Broken) Err() error {
	if b == nil {
		return nil
	}
	if cause := b.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// breakingStream is a rank's stream on a CPU. Once the rank's world has ended, it computes no products: their results are undefined then, and
// passError returns the cause. All other operations are as before, since they also change rows and parities.
type breakingStream struct {
	kernels.Stream
	job *job
}

func (s *breakingStream) isBroken() bool { return s.job.world.Broken.Err() != nil }

func (s *breakingStream) Linear(y, x, w kernels.Matrix, b kernels.Buffer, act kernels.Activation) {
	if !s.isBroken() {
		s.Stream.Linear(y, x, w, b, act)
	}
}

func (s *breakingStream) LinearGradInput(dx, dy, w, gate kernels.Matrix) {
	if !s.isBroken() {
		s.Stream.LinearGradInput(dx, dy, w, gate)
	}
}

func (s *breakingStream) LinearGradWeight(dw kernels.Matrix, db kernels.Buffer, dy, x kernels.Matrix) {
	if !s.isBroken() {
		s.Stream.LinearGradWeight(dw, db, dy, x)
	}
}
