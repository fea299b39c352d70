package doctor

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPrintSaysSomethingOfEverything(t *testing.T) {
	var out bytes.Buffer
	Print(&out)
	for _, want := range []string{"cpu", "features", "cores", "memory", "huge pages", "disk", "OpenBLAS", "GPUs", "CUDA driver", "NCCL",
		"MPI", "Slurm", "Kafka", "job.device", "kernels", "job.threads", "collectives.transport"} {
		found := false
		for _, l := range strings.Split(out.String(), "\n") {
			rest, ok := strings.CutPrefix(l, "  "+want)
			found = found || ok && strings.TrimSpace(rest) != ""
		}
		if !found {
			t.Errorf("nothing about %s in:\n%s", want, &out)
		}
	}
}

func TestProgramAndLibrary(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("LD_LIBRARY_PATH", dir)
	if got := program("mpirun"); got != "not found (mpirun is not in PATH)" {
		t.Error(got)
	}
	script := "#!/bin/sh\necho tool 1.2\necho more\n"
	if err := os.WriteFile(filepath.Join(dir, "mpirun"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, want := program("mpirun"), filepath.Join(dir, "mpirun")+", tool 1.2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := library("libecrec-none.so"); got != "not found (libecrec-none.so)" {
		t.Error(got)
	}
	if err := os.WriteFile(filepath.Join(dir, "libecrec.so"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := library("libecrec.so"); got != filepath.Join(dir, "libecrec.so") {
		t.Error(got)
	}
}
