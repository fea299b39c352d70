package train

import (
	"strings"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/invariant"
	"github.com/ecrec/ecrec/kernels"
)

// Prepare does early a part of Run that is the same in any process of a job: it opens the libraries of the CPU's kernels
// and the memory that is shared with other processes, and computes the layout of the rows. It opens no GPU, which
// PrepareGPU does, and no data, since that may write files. A failure here occurs again in Run, which reports it.
func Prepare(cfg *config.Config, processes int) {
	j := newJob(env.Real(), cfg, Options{World: &World{Processes: processes, Neighbours: 1}})
	if blas := j.cfg.Kernels.BLAS; !strings.HasPrefix(blas, "cublas") {
		_, _ = kernels.NewCPU(kernels.CPUOptions{BLAS: blas, Poison: invariant.Enabled})
	}
	_ = j.resolveTopology()
	kernels.OpenShared()
}

// PrepareGPU opens, in the background, the machine's only GPU (kernels.PrepareCUDA), and NCCL if the job may use it. It
// follows Prepare. Run may be called meanwhile.
func PrepareGPU(cfg *config.Config) {
	if cfg.Job.Device == "cpu" || cfg.Kernels.BLAS == "openblas" {
		return
	}
	e, transport := env.Real(), cfg.Collectives.Transport
	e.Go("open GPU", func() {
		if kernels.PrepareCUDA(e.Sleep) && (transport == "auto" || transport == "nccl") && cfg.Job.Secure != "on" {
			_, _ = collectives.OpenNCCL() // it stays in memory, and openNCCL reports an error
		}
	})
}
