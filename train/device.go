package train

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/invariant"
	"github.com/ecrec/ecrec/kernels"
)

// exactTC is the kernels.blas that has the same bits on CPUs and GPUs and is slow on CPUs.
const exactTC = "exact-tc"

// openDevices opens the CPU and, if job.device names or allows one, a GPU. The GPU computes,
// and holds the rows, their pre-images and all activations. The host holds parities,
// histories and staged messages.
func (j *job) openDevices() (err error) {
	c := j.cfg
	onCPU, onGPU := c.Kernels.BLAS, "exact"
	switch {
	case strings.HasPrefix(onCPU, "cublas"):
		onCPU, onGPU = onGPU, onCPU
	case onCPU == exactTC:
		onGPU = onCPU
	}
	if j.host, err = kernels.NewCPU(kernels.CPUOptions{BLAS: onCPU, Poison: invariant.Enabled}); err != nil {
		return err
	}
	if j.o.WrapDevice != nil {
		j.host = j.o.WrapDevice(j.host)
	}
	j.dev = j.host
	if c.Job.Device == "cpu" || onCPU == "openblas" {
		return nil
	}
	var gpu kernels.Device
	if err = kernels.FindGPU(); err == nil { // before NCCL is opened, which is large
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
	case strings.HasPrefix(onGPU, "cublas"):
		return config.Errorf("kernels.blas = %q: %v; use \"exact\"", onGPU, err)
	case c.Job.Device == "cuda":
		return config.Errorf("job.device = \"cuda\": %v; use \"cpu\" or \"auto\", or see the CUDA lines of `ecrec doctor`", err)
	case errors.As(err, &none) && none.Driver():
		return nil
	default: // there is a GPU, and it cannot be used
		j.o.Observer.Warned(fmt.Sprintf("job.device = \"auto\" uses the CPU: %v", err))
		return nil
	}
}

// openNCCL opens NCCL if ranks can have GPUs of their own: with one rank per process.
// connectGPUs finds out whether they have. NCCL does not encrypt.
func (j *job) openNCCL() (err error) {
	wanted := j.cfg.Collectives.Transport == "nccl"
	if wanted && j.ranks > 1 && len(j.hosted) > 1 {
		return config.Errorf("collectives.transport = \"nccl\" needs a process for each of the %d ranks: start as many, or use \"auto\"", j.ranks)
	}
	if j.ranks == 1 || len(j.hosted) != 1 || !wanted && j.cfg.Collectives.Transport != "auto" || j.cfg.Job.Secure == "on" {
		return nil
	}
	if j.nccl, err = collectives.OpenNCCL(); err != nil && wanted {
		return config.Errorf("collectives.transport = \"nccl\": %v; install it (pip install nvidia-nccl-cu12), or use \"auto\"", err)
	}
	return nil
}

// warnIfUnsealed warns that NCCL sends data between hosts in clear, unless the config asks
// for that.
func (j *job) warnIfUnsealed() {
	machine := j.world.Machine
	if machine == nil || j.cfg.Job.Secure == "off" {
		return
	}
	for rank := range j.ranks {
		if machine(rank) != machine(0) {
			j.warnOnce(warnUnsealed, "job.secure: rows and gradients move between hosts by NCCL, which encrypts nothing; job.secure = "+
				"\"on\" moves them by way of the hosts' memory")
			return
		}
	}
}

// localRank is the index of this process's first rank among the ranks of its machine.
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
