package kernels

import (
	"testing"

	"github.com/ecrec/ecrec/internal/cuda/standin"
)

// TestPrepareCUDA: a machine's only GPU is opened early, and NewCUDA can still open it.
func TestPrepareCUDA(t *testing.T) {
	for gpus, want := range map[int]bool{1: true, 2: false} {
		t.Run("", func(t *testing.T) {
			standin.Use(t, CUDASource(), gpus)
			driver, err := newCUDA(CUDAConfig{})
			if err != nil {
				t.Fatal(err)
			}
			n, err := driver.Count()
			driver.Close()
			if err != nil || n != gpus {
				t.Skipf("skipped: this machine has %d GPUs, not %d", n, gpus)
			}
			if got := PrepareCUDA(); got != want {
				t.Errorf("of %d GPUs one was opened: %t, want %t", gpus, got, want)
			}
			s := newTestCUDAStream(t, newTestCUDA(t, CUDAConfig{}))
			if err := s.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
}
