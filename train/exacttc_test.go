package train

import (
	"fmt"
	"strings"
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

// A CPU that computes these products warns once; a GPU, and a CPU with other products, do not.
func TestWarningOfPiecesOnACPU(t *testing.T) {
	standin.Use(t, kernels.CUDASource(), 1)
	for _, x := range []struct {
		blas, device string
		warnings     int
	}{{"exact-tc", "cpu", 1}, {"exact-tc", "cuda", 0}, {"exact", "cpu", 0}} {
		w := &warned{}
		run(t, Options{Observer: w}, adagrad, "train.iterations=2", "kernels.blas="+x.blas, "job.device="+x.device)
		if len(w.said) != x.warnings || x.warnings > 0 && !strings.Contains(w.said[0], "kernels.blas = \"exact-tc\" is made for the tensor cores") {
			t.Errorf("%+v: warned %q", x, w.said)
		}
	}
}
