package train

import (
	"errors"
	"fmt"

	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/invariant"
	"github.com/ecrec/ecrec/kernels"
)

// openDevices opens the CPU and, where job.device asks for one or may choose, a GPU: that
// computes, and has the rows, their pre-images and all activations; the host has parities,
// histories, and what is on its way to other ranks.
func (j *job) openDevices() (err error) {
	c := j.cfg
	if j.host, err = kernels.NewCPU(kernels.CPUOptions{BLAS: c.Kernels.BLAS, Poison: invariant.Enabled}); err != nil {
		return err
	}
	j.dev = j.host
	if c.Job.Device == "cpu" {
		return nil
	}
	gpu, err := kernels.NewCUDA(kernels.CUDAConfig{Local: j.localRank(), Alone: j.ranks == 1})
	if err == nil {
		j.dev = gpu
		return nil
	}
	none := (*kernels.NoGPU)(nil)
	switch {
	case c.Job.Device == "cuda":
		return config.Errorf("job.device = \"cuda\": %v; use \"cpu\" or \"auto\", or see what `ecrec doctor` says of CUDA", err)
	case errors.As(err, &none) && none.Driver():
		return nil
	default: // there is a GPU, which somebody will want to know is not used
		j.o.Observer.Warned(fmt.Sprintf("job.device = \"auto\" uses the CPU: %v", err))
		return nil
	}
}

// localRank is the place of this process's first rank among the ranks of its machine.
func (j *job) localRank() (local int) {
	if j.world.Machine == nil || len(j.hosted) == 0 {
		return 0
	}
	for rank := range j.hosted[0] {
		if j.world.Machine(rank) == j.world.Machine(j.hosted[0]) {
			local++
		}
	}
	return local
}
