package train

import "fmt"

// warning is a warning that a job reports once.
type warning int

const (
	warnLabelRate warning = iota // an evaluation is worse than the label rate
	warnMemory                   // commits may not fit into memory
	warnUnsealed                 // NCCL does not encrypt
	warnCache                    // the cache is too small for oracle.lookahead
	warnSaves                    // saves take longer than checkpoint.every
	warnDense                    // the model does not read the dense features
	warnLeftovers                // old checkpoints cannot be removed
	warnProducts                 // a CPU computes the products that are made for tensor cores
	warnings
)

// warnIfSlow warns that a CPU computes the products that are made for the tensor cores of a GPU.
func warnIfSlow(j *job) {
	if j.dev == j.host && j.cfg.Kernels.BLAS == exactTC {
		j.warnOnce(warnProducts, `kernels.blas = "exact-tc" is made for the tensor cores of a GPU: a CPU computes the same bits far more slowly than those of `+
			`"exact"; use that, unless the result must equal that of GPUs`)
	}
}

// warnIfSkipped warns that a model leaves out the dense features that the config names.
func (j *job) warnIfSkipped() {
	if n := len(j.cfg.Data.CSV.Dense); j.shape.SkipsDense && n > 0 {
		j.warnOnce(warnDense, fmt.Sprintf("data.csv.dense: model.kind = %q does not read these %d columns; set model.dense_embedding = true to give each a vector",
			j.cfg.Model.Kind, n))
	}
}

// warnOnce reports a warning, unless it was reported before. Rank 0 calls it, or the job
// while no rank runs.
func (j *job) warnOnce(w warning, text string) {
	if !j.warned[w] {
		j.warned[w] = true
		j.o.Observer.Warned(text)
	}
}
