package bench

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/kernels"
)

// The benchmarks of a GPU run, tiny, where a CPU stands in for it: the figures mean nothing
// there, the calls are the same.
func TestGPUBenchmarksRunTiny(t *testing.T) {
	standin.Use(t, kernels.CUDASource(), 1)
	for name, run := range map[string]func(*bytes.Buffer) (*Report, error){
		"kernels": func(out *bytes.Buffer) (*Report, error) {
			return runKernels(out, Options{Tiny: true, Args: []string{"device=cuda"}})
		},
		"train": func(out *bytes.Buffer) (*Report, error) {
			return runTrain(out, Options{Tiny: true, Args: []string{"device=cuda"}})
		},
	} {
		var out bytes.Buffer
		r, err := run(&out)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.HasPrefix(r.Machine.Kernels, "cuda ") || len(r.Figures) < 4 {
			t.Errorf("%s on %s: %d figures\n%s", name, r.Machine.Kernels, len(r.Figures), &out)
		}
	}
}

func TestNoGPUIsSaid(t *testing.T) {
	if _, err := kernels.NewCUDA(kernels.CUDAConfig{}); err == nil {
		t.Skip("skipped: there is a GPU")
	}
	for _, device := range []string{"device=cuda", "device=tpu"} {
		if _, err := runKernels(&bytes.Buffer{}, Options{Tiny: true, Args: []string{device}}); !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), device) {
			t.Errorf("%s: %v", device, err)
		}
	}
}
