package kernels

import (
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/cuda/standin"
)

// forgetPrepared makes PrepareCUDA possible again.
func forgetPrepared() { prepared.Store(nil) }

// TestPrepareCUDA checks that a machine's only GPU is opened early, and that NewCUDA takes it.
func TestPrepareCUDA(t *testing.T) {
	defer forgetPrepared()
	for gpus, want := range map[int]bool{1: true, 2: false} {
		t.Run("", func(t *testing.T) {
			standin.Use(t, CUDASource(), gpus)
			opened, err := newCUDA(CUDAConfig{})
			if err != nil {
				t.Fatal(err)
			}
			if n, err := opened.Count(); err != nil || n != gpus {
				t.Skipf("skipped: this machine has %d GPUs, not %d", n, gpus)
			}
			forgetPrepared()
			if got := PrepareCUDA(time.Sleep); got != want {
				t.Errorf("of %d GPUs one was opened: %t, want %t", gpus, got, want)
			}
			var code *cudaCode
			if p := prepared.Load(); p != nil {
				code = p.code
			}
			d := newTestCUDA(t, CUDAConfig{})
			if want && d.code != code {
				t.Error("NewCUDA loads the kernels again")
			}
			if err := newTestCUDAStream(t, d).Sync(); err != nil {
				t.Error(err)
			}
			if again := newTestCUDA(t, CUDAConfig{}); again.code == d.code {
				t.Error("two devices have one prepared GPU")
			}
		})
	}
}

// TestPrepareCUDATakesTurns checks that a process waits while another one opens a GPU, and gives up when NewCUDA is called.
func TestPrepareCUDATakesTurns(t *testing.T) {
	standin.Use(t, CUDASource(), 1)
	forgetPrepared()
	defer forgetPrepared()
	other, err := takeTurn()
	if err != nil {
		t.Fatal(err)
	}
	waits := 0
	if PrepareCUDA(func(time.Duration) {
		if waits++; waits == 3 {
			newTestCUDA(t, CUDAConfig{})
		}
	}) || waits != 3 {
		t.Errorf("it waited %d times, and opened the GPU: %t", waits, prepared.Load() != noneWanted)
	}
	forgetPrepared()
	waits = 0
	if !PrepareCUDA(func(time.Duration) {
		waits++
		other.Close()
	}) || waits != 1 {
		t.Errorf("after %d waits the GPU is not open", waits)
	}
}
