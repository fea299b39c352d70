package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/internal/openblas"
	"github.com/ecrec/ecrec/kernels"
)

// questions are all checks, in the order in which they are reported.
func (o Options) questions() []question {
	return append(ofMachine(o.Out), []question{
		{"accelerators", "gpus", "NVML, the library of the NVIDIA driver,", func(context.Context) []Check { return gpus() }},
		{"accelerators", "cuda", "the folders of libraries", one(func() Check { return library("libcuda.so.1", "job.device = \"cuda\"") })},
		{"accelerators", "nccl", "the folders of libraries", one(func() Check { return library("libnccl.so.2", "collectives between GPUs") })},
		{"launchers and services", "mpi", "mpirun --version", func(ctx context.Context) []Check { return []Check{mpi(ctx)} }},
		{"launchers and services", "slurm", "srun --version", func(ctx context.Context) []Check { return []Check{slurm(ctx)} }},
		{"launchers and services", "kafka", "", one(func() Check {
			return Check{Status: Absent, Value: "none configured (stream.to is not in this version)"}
		})},
		{"ecrec would choose", "job.device", "", one(device)},
		{"ecrec would choose", "kernels", "", one(body)},
		{"ecrec would choose", "job.threads", "", one(func() Check { return Check{Status: OK, Value: fmt.Sprint(runtime.GOMAXPROCS(0))} })},
		{"ecrec would choose", "collectives.transport", "",
			one(func() Check {
				return Check{Status: OK, Value: "auto: memory within a process and between those of a host, TCP between hosts"}
			})},
	}...)
}

// ofMachine are the checks of what a machine has without any accelerator or service.
func ofMachine(out string) []question {
	const part = "this machine"
	folder := out
	if folder == "" {
		folder = "."
	}
	return []question{
		{part, "ecrec", "", one(func() Check { return Check{Status: OK, Value: machine.Version() + ", " + machine.GoVersion()} })},
		{part, "cpu", "/proc/cpuinfo", one(func() Check { return Check{Status: OK, Value: machine.CPU()} })},
		{part, "features", "", one(features)},
		{part, "cpus", "/sys/devices/system/cpu", one(func() Check {
			return cpus(runtime.NumCPU(), runtime.GOMAXPROCS(0), readWord("/sys/devices/system/cpu/online"), machine.ReadCgroup())
		})},
		{part, "memory", "/proc/meminfo", one(func() Check {
			m, err := machine.ReadMemory()
			return memory(m, err, machine.ReadCgroup())
		})},
		{part, "swap", "/proc/meminfo", one(func() Check { return swap(machine.ReadMemory()) })},
		{part, "shm", "the file system of /dev/shm", one(func() Check { return shm(space("/dev/shm")) })},
		{part, "arena", "memfd_create or mmap", one(func() Check { return sharedMemory(shareMemory()) })},
		{part, "hugepages", "/sys/kernel/mm", one(func() Check {
			const dir = "/sys/kernel/mm/transparent_hugepage/"
			m, _ := machine.ReadMemory() // none reserved where that cannot be told
			return hugePages(readWord(dir+"enabled"), readWord(dir+"shmem_enabled"), m)
		})},
		{part, "nofile", "getrlimit", one(func() Check { return openFiles(limit(limitFiles)) })},
		{part, "memlock", "getrlimit", one(func() Check {
			devices, _ := os.ReadDir("/sys/class/infiniband")
			n, err := limit(limitLocked)
			return lockedMemory(n, err, len(devices))
		})},
		{part, "nproc", "getrlimit", one(func() Check {
			n, err := limit(limitProcesses)
			return processes(n, err, machine.ReadCgroup().Tasks)
		})},
		{part, "hostname", "the name service", func(ctx context.Context) []Check { return []Check{lookUp(ctx).check()} }},
		{part, "clock", "adjtimex", one(func() Check {
			built, _ := machine.BuiltFrom()
			offset, err := clockError()
			return clock(time.Now(), built, offset, err)
		})},
		{part, "disk", "the file system of " + folder, one(func() Check { return lookAtFolder(folder, out != "").check() })},
		{part, "openblas", "the folders of libraries", one(openBLAS)},
	}
}

// one is a question that has one answer and does not wait for programs.
func one(ask func() Check) func(context.Context) []Check {
	return func(context.Context) []Check { return []Check{ask()} }
}

func openBLAS() Check {
	lib, err := openblas.Open()
	if err != nil {
		return Check{Status: Absent, Value: "not found", Detail: "only kernels.blas = \"openblas\" needs it"}
	}
	return Check{Status: OK, Value: lib.Config()}
}

// device is what job.device = "auto" takes.
func device() Check {
	gpu, err := kernels.NewCUDA(kernels.CUDAConfig{})
	if err == nil {
		return Check{Status: OK, Value: gpu.Name()}
	}
	if none := (*kernels.NoGPU)(nil); errors.As(err, &none) && none.Driver() {
		return Check{Status: OK, Value: "cpu", Detail: none.Error()}
	}
	return Check{Status: Warn, Value: "cpu", Detail: "there is a GPU, but " + err.Error()}
}

// body is which kernels run.
func body() Check {
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		return Check{Status: Fail, Value: "none", Detail: err.Error()}
	}
	return Check{Status: OK, Value: dev.Name()}
}
