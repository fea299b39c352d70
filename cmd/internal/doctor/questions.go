package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/ecrec/ecrec/internal/buildinfo"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/internal/openblas"
	"github.com/ecrec/ecrec/kernels"
)

const partMachine = "this machine"

// Questions that Software runs too.
var (
	askFeatures = question{partMachine, "features", "", one(features)}
	askOpenBLAS = question{partMachine, "openblas", "the folders of libraries", one(openBLAS)}
	askCUDA     = question{"accelerators", "cuda", "the folders of libraries",
		one(func() Check { return library("libcuda.so.1", "job.device = \"cuda\"") })}
	askNCCL = question{"accelerators", "nccl", "the folders of libraries",
		one(func() Check { return library("libnccl.so.2", "collectives between GPUs") })}
	askMPI     = question{"launchers and services", "mpi", "mpirun --version", func(ctx context.Context) []Check { return []Check{mpi(ctx)} }}
	askKernels = question{"ecrec would choose", "kernels", "", one(body)}
)

// softwareLimit is the time limit of the questions of Software.
const softwareLimit = 2 * time.Second

// Software reports the kernels, libraries and launchers of this machine: the checks kernels,
// features, openblas, cuda, nccl and mpi. It opens no driver, so it cannot hang in one.
func Software() []Check {
	return runAll([]question{askKernels, askFeatures, askOpenBLAS, askCUDA, askNCCL, askMPI}, softwareLimit)
}

// allQuestions returns the questions of all checks, in the order of the report.
func (o Options) allQuestions() []question {
	return append(ofMachine(o.Out), []question{
		{"accelerators", "gpus", "NVML, the library of the NVIDIA driver,", func(context.Context) []Check { return gpus() }},
		askCUDA, askNCCL, askMPI,
		{"launchers and services", "slurm", "srun --version", func(ctx context.Context) []Check { return []Check{slurm(ctx)} }},
		{"launchers and services", "kafka", "", one(func() Check {
			return Check{Status: OK, Value: `built in, for stream.to and data.format = "kafka"`}
		})},
		{"ecrec would choose", deviceQuestion, "the compiler of the GPU's kernels", one(device)},
		askKernels,
		{"ecrec would choose", "job.threads", "", one(func() Check { return Check{Status: OK, Value: fmt.Sprint(runtime.GOMAXPROCS(0))} })},
		{"ecrec would choose", "collectives.transport", "",
			one(func() Check {
				return Check{Status: OK, Value: "auto: shared memory on one host, TCP between hosts"}
			})},
	}...)
}

// ofMachine returns the questions about the machine without accelerators and services.
func ofMachine(out string) []question {
	const part = partMachine
	folder := out
	if folder == "" {
		folder = "."
	}
	return []question{
		{part, "ecrec", "", one(func() Check {
			return Check{Status: OK, Value: buildinfo.Read().String() + ", " + buildinfo.Read().Toolchain()}
		})},
		{part, "cpu", "/proc/cpuinfo", one(func() Check { return Check{Status: OK, Value: machine.CPU()} })},
		askFeatures,
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
			m, _ := machine.ReadMemory() // if it fails, no pages count as reserved
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
		{part, "hostname", "the name service", func(ctx context.Context) []Check { return []Check{lookUp(ctx).toCheck()} }},
		{part, "clock", "adjtimex", one(func() Check {
			offset, err := clockError()
			return clock(time.Now(), buildinfo.Read().Time, offset, err)
		})},
		{part, "disk", "the file system of " + folder, one(func() Check { return inspectFolder(folder, out != "").toCheck() })},
		{part, "io_uring", "io_uring_enter", one(func() Check { return ring(tryRing()) })},
		askOpenBLAS,
	}
}

// one adapts a function that returns one check and waits for no program.
func one(check func() Check) func(context.Context) []Check {
	return func(context.Context) []Check { return []Check{check()} }
}

func openBLAS() Check {
	lib, err := openblas.Open()
	if err != nil {
		return Check{Status: Absent, Value: "not found", Detail: "needed only for kernels.blas = \"openblas\""}
	}
	return Check{Status: OK, Value: lib.Config()}
}

// device reports the choice of job.device = "auto".
func device() Check {
	gpu, err := kernels.NewCUDA(kernels.CUDAConfig{})
	if err == nil {
		return Check{Status: OK, Value: gpu.Name()}
	}
	if none := (*kernels.NoGPU)(nil); errors.As(err, &none) && none.Driver() {
		return Check{Status: OK, Value: "cpu", Detail: none.Error()}
	}
	return Check{Status: Warn, Value: "cpu", Detail: "a GPU was found but cannot be used: " + err.Error()}
}

// body reports the kernels that run.
func body() Check {
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		return Check{Status: Fail, Value: "none", Detail: err.Error()}
	}
	return Check{Status: OK, Value: dev.Name()}
}
