package doctor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// libraryDirs are where the dynamic linker looks on the systems that we know.
func libraryDirs() []string {
	dirs := filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
	return append(dirs, "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64",
		"/usr/local/lib", "/usr/local/cuda/lib64", "/usr/local/nvidia/lib64", "/opt/nccl/lib")
}

// library is where the library with this file name is.
func library(name string) string {
	for _, dir := range libraryDirs() {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "not found (" + name + ")"
}

// versionLimit is how long a program may take to tell its version.
const versionLimit = 3 * time.Second

// program is where a program is and the first line it says of its version.
func program(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return "not found (" + name + " is not in PATH)"
	}
	ctx, cancel := context.WithTimeout(context.Background(), versionLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || first == "" {
		return path
	}
	return path + ", " + first
}

func accelerators() []line {
	return append(gpus(),
		line{"CUDA driver", library("libcuda.so.1")},
		line{"NCCL", library("libnccl.so.2")})
}

func services() []line {
	return []line{
		{"MPI", program("mpirun")},
		{"Slurm", program("srun")},
		{"Kafka", "none configured (stream.to is not in this version)"},
	}
}
