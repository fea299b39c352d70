package train

import (
	"fmt"
	"testing"

	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/kernels"
)

// TestOneDigestOfPiecesOnGPUs checks that products of pieces give a CPU and a GPU the same model
// and losses, for several numbers of ranks. It is another model than that of exact products.
func TestOneDigestOfPiecesOnGPUs(t *testing.T) {
	standin.Use(t, kernels.CUDASource(), 1)
	for _, ranks := range []string{"job.ranks=1", "job.ranks=2", "job.ranks=4"} {
		sets := []string{ranks, "train.iterations=4", "train.global_batch=1200"} // a rank's slice may be two pieces
		other := reference(t, adagrad, sets...)
		sets = append(sets, "kernels.blas=exact-tc")
		want := reference(t, adagrad, sets...)
		got := run(t, Options{}, adagrad, append(sets, "job.device=cuda")...)
		if got.Digest != want.Digest || got.Digest == other.Digest {
			t.Errorf("%s: digest %s on the GPU, %s on the CPU, %s with exact products", ranks, got.Digest, want.Digest, other.Digest)
		}
		if fmt.Sprint(got.TrainLoss, got.Eval) != fmt.Sprint(want.TrainLoss, want.Eval) {
			t.Errorf("%s: losses %v, evaluation %v; on the CPU %v, %v", ranks, got.TrainLoss, got.Eval, want.TrainLoss, want.Eval)
		}
	}
}
