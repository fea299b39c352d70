package nesterov_test

import (
	"testing"

	"github.com/ecrec/ecrec/examples/extend/nesterov"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/kernels/optimizertest"
	"github.com/ecrec/ecrec/train/traintest"
)

func TestMain(m *testing.M) {
	kernels.Rules = append(kernels.Rules, nesterov.Rule)
	m.Run()
}

// TestRule compares the rule with a second version of its formula, bit by bit.
func TestRule(t *testing.T) {
	optimizertest.RunOnCPU(t, "nesterov", func(o *kernels.Optimizer, w, m, g []float32) {
		for i := range w {
			m[i] = float32(o.Momentum*m[i]) + g[i]
		}
		for i := range w {
			w[i] -= float32(o.LR * (g[i] + float32(o.Momentum*m[i])))
		}
	})
}

// TestJobs trains with it, dense and sparse, on several ranks and processes.
func TestJobs(t *testing.T) {
	traintest.Kind(t, "model.embedding_dim=4", "model.bottom_mlp=[8, 4]", "model.top_mlp=[8, 1]", "job.device=cpu",
		"optimizer.dense.kind=nesterov", "optimizer.sparse.kind=nesterov")
}
