package train

import (
	"strings"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/invariant"
	"github.com/ecrec/ecrec/kernels"
)

// Prepare does early a part of Run that is the same in any process of a job: it opens the libraries of the CPU's kernels
// and the memory that is shared with other processes, and computes the layout of the rows. It opens no GPU, since
// that takes memory there, and no data, since that may write files. A failure here occurs again in Run, which reports it.
func Prepare(cfg *config.Config, processes int) {
	j := newJob(env.Real(), cfg, Options{World: &World{Processes: processes, Neighbours: 1}})
	if blas := j.cfg.Kernels.BLAS; !strings.HasPrefix(blas, "cublas") {
		_, _ = kernels.NewCPU(kernels.CPUOptions{BLAS: blas, Poison: invariant.Enabled})
	}
	_ = j.resolveTopology()
	kernels.OpenShared()
}
