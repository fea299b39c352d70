package config

import "strings"

// checkDevice refuses settings that contradict job.device. It opens no library, so that the
// result is the same on every machine, with or without a GPU.
func (c *Config) checkDevice(src *source) error {
	blas, device := c.Kernels.BLAS, c.Job.Device
	switch {
	case device == "cpu" && strings.HasPrefix(blas, "cublas"):
		return src.errorf("kernels.blas", "%q is for GPUs, and job.device is \"cpu\"; use \"exact\" or \"openblas\"", blas)
	case device == "cuda" && blas == "openblas":
		return src.errorf("kernels.blas", "\"openblas\" is for CPUs, and job.device is \"cuda\"; use \"exact\" or \"cublas\"")
	case !c.Collectives.Deterministic && (device == "cpu" || blas == "openblas"):
		return src.errorf("collectives.deterministic", "false leaves the order of sums to NCCL, and this run is on the CPU; leave it out")
	case c.Collectives.Transport != "nccl":
		return nil
	case device == "cpu":
		return src.errorf("collectives.transport", "\"nccl\" is for GPUs, and job.device is \"cpu\"; use \"auto\"")
	case blas == "openblas":
		return src.errorf("collectives.transport", "\"nccl\" is for GPUs, and kernels.blas is \"openblas\"; use \"auto\"")
	}
	return nil
}
