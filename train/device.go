package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/invariant"
	"github.com/ecrec/ecrec/kernels"
)

// openDevices opens the CPU and, where job.device asks for one or may choose, a GPU: that
// computes, and has the rows, their pre-images and all activations; the host has parities,
// histories, and what is on its way to other ranks.
func (j *job) openDevices() (err error) {
	c := j.cfg
	onCPU, onGPU := c.Kernels.BLAS, "exact"
	if strings.HasPrefix(onCPU, "cublas") {
		onCPU, onGPU = onGPU, onCPU
	}
	if j.host, err = kernels.NewCPU(kernels.CPUOptions{BLAS: onCPU, Poison: invariant.Enabled}); err != nil {
		return err
	}
	j.dev = j.host
	switch {
	case c.Job.Device == "cpu" && onGPU != "exact":
		return config.Errorf("kernels.blas = %q is for GPUs, and job.device is \"cpu\"; use \"exact\" or \"openblas\"", onGPU)
	case c.Job.Device == "cuda" && onCPU == "openblas":
		return config.Errorf("kernels.blas = \"openblas\" is for CPUs, and job.device is \"cuda\"; use \"exact\" or \"cublas\"")
	case c.Job.Device == "cpu" || onCPU == "openblas":
		return nil
	}
	var gpu kernels.Device
	if err = kernels.FindGPU(); err == nil { // before NCCL, which is large, is looked for
		if err := j.openNCCL(); err != nil {
			return err
		}
		gpu, err = kernels.NewCUDA(kernels.CUDAConfig{Local: j.localRank(), Own: j.ranks == 1 || j.nccl != nil, Keep: j.nccl != nil, BLAS: onGPU})
	}
	if err == nil {
		j.dev = gpu
		return nil
	}
	none := (*kernels.NoGPU)(nil)
	switch {
	case onGPU != "exact":
		return config.Errorf("kernels.blas = %q: %v; use \"exact\"", onGPU, err)
	case c.Job.Device == "cuda":
		return config.Errorf("job.device = \"cuda\": %v; use \"cpu\" or \"auto\", or see what `ecrec doctor` says of CUDA", err)
	case errors.As(err, &none) && none.Driver():
		return nil
	default: // there is a GPU, which somebody will want to know is not used
		j.o.Observer.Warned(fmt.Sprintf("job.device = \"auto\" uses the CPU: %v", err))
		return nil
	}
}

// openNCCL opens NCCL where ranks can have GPUs of their own: one for each process. Whether
// they have is asked when they meet.
func (j *job) openNCCL() (err error) {
	wanted := j.cfg.Collectives.Transport == "nccl"
	if wanted && j.ranks > 1 && len(j.hosted) > 1 {
		return config.Errorf("collectives.transport = \"nccl\" needs a process for each of the %d ranks: start as many, or use \"auto\"", j.ranks)
	}
	if j.ranks == 1 || len(j.hosted) != 1 || !wanted && j.cfg.Collectives.Transport != "auto" {
		return nil
	}
	if j.nccl, err = collectives.OpenNCCL(); err != nil && wanted {
		return config.Errorf("collectives.transport = \"nccl\": %v; install it (pip install nvidia-nccl-cu12), or use \"auto\"", err)
	}
	return nil
}

// meetGPUs has rows and gradients go from GPU to GPU in this world, if all ranks can and each
// has one of its own.
func (r *rank) meetGPUs() error {
	j := r.job
	if j.ranks == 1 {
		return nil
	}
	said := []uint64{0, 0}
	if id, ok := kernels.GPU(j.dev); ok && j.nccl != nil {
		said[0], said[1] = binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:])
	}
	all, err := r.ctl.gather(said)
	if err != nil {
		return err
	}
	has := map[[2]uint64]int{}
	for id, w := range all {
		gpu := [2]uint64{w[0], w[1]}
		other, taken := has[gpu]
		switch {
		case gpu == [2]uint64{} && j.cfg.Collectives.Transport == "nccl":
			return config.Errorf("collectives.transport = \"nccl\": rank %d has no GPU to itself; use \"auto\"", id)
		case taken && j.cfg.Collectives.Transport == "nccl":
			return config.Errorf("collectives.transport = \"nccl\": ranks %d and %d share a GPU; use \"auto\", or a machine with more", other, id)
		case gpu == [2]uint64{} || taken:
			return nil
		}
		has[gpu] = id
	}
	for _, c := range r.gpus {
		if err := c.UseNCCL(collectives.NCCLOptions{Library: j.nccl, Native: !j.cfg.Collectives.Deterministic}); err != nil {
			return err
		}
	}
	r.direct = true
	return nil
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
