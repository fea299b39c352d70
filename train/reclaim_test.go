package train

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// onOwnGPUs runs life on two ranks, each with a process and a GPU of its own, which exchange rows by NCCL and so free no memory at
// once. They evaluate and save every 8 steps, and a save is under way for many steps.
func onOwnGPUs(t *testing.T, steps int, inject func(r *rank, step int64, at probe.Point) error, life func(r *rank) error) {
	t.Helper()
	const ranks = 2
	standin.Use(t, kernels.CUDASource(), ranks)
	var gpus [ranks][16]byte
	for i := range gpus {
		d, err := kernels.NewCUDA(kernels.CUDAConfig{Local: i})
		if err != nil {
			t.Fatal(err)
		}
		gpus[i], _ = kernels.GPU(d)
	}
	if gpus[0] == gpus[1] {
		t.Skip("skipped: needs a GPU for each rank")
	}
	eps := transport.NewMem(env.Real(), ranks, 1)
	dir := t.TempDir()
	var wait sync.WaitGroup
	for id := range ranks {
		cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir(), fmt.Sprintf("job.ranks=%d", ranks), "job.device=cuda",
			fmt.Sprintf("train.iterations=%d", steps), "train.eval_every=8", "checkpoint.every=8", "checkpoint.dir=" + dir})
		if err != nil {
			t.Fatal(err)
		}
		var of *rank
		o := Options{Observer: &quiet{}, Stop: func() bool { return false }, SaveRows: 300,
			Inject: func(_ int, step int64, at probe.Point) error { return inject(of, step, at) },
			World: &World{Process: id, Processes: ranks, Neighbours: ranks, Machine: func(int) string { return "here" },
				Join: func([]int) ([]transport.Endpoint, error) { return eps[id : id+1], nil }}}
		wait.Add(1)
		go func() {
			defer wait.Done()
			if _, err := Try(env.Real(), cfg, o, int64(steps), func(tr *Trial) error {
				of = tr.rank
				return life(of)
			}); err != nil {
				t.Errorf("rank %d: %v", id, err)
			}
		}()
	}
	wait.Wait()
}

// TestFreedMemoryOfGPUsIsReclaimed checks that the rows a save put aside are freed before the next evaluation begins.
func TestFreedMemoryOfGPUsIsReclaimed(t *testing.T) {
	var mu sync.Mutex // the goroutines that plan reach points too
	var freed, evaluations [2]int64
	onOwnGPUs(t, 40, func(r *rank, _ int64, at probe.Point) error {
		mu.Lock()
		defer mu.Unlock()
		bytes := kernels.Deferred(r.dev)
		if freed[r.id] = max(freed[r.id], bytes); at == probe.Evaluate {
			if evaluations[r.id]++; bytes > 0 {
				t.Errorf("rank %d: %d bytes are not freed when evaluation %d begins", r.id, bytes, evaluations[r.id])
			}
		}
		return nil
	}, (*rank).runJob)
	for id := range freed {
		if freed[id] == 0 || evaluations[id] < 4 {
			t.Errorf("rank %d: at most %d bytes were freed late in %d evaluations: nothing was tested", id, freed[id], evaluations[id])
		}
	}
}

// TestLostSaveOfGPUsIsReclaimed checks that a world which ends during a save leaves no memory of it.
func TestLostSaveOfGPUsIsReclaimed(t *testing.T) {
	lost := errors.New("lost")
	next := transport.NewMem(env.Real(), 2, 2)
	onOwnGPUs(t, 40, func(_ *rank, step int64, at probe.Point) error {
		if step == 12 && at == probe.Done {
			return lost
		}
		return nil
	}, func(r *rank) error {
		if err := r.runJob(); !errors.Is(err, lost) && !IsConsequence(err) {
			return fmt.Errorf("the job ended with %w", err)
		}
		if s := r.checkpoints.saving; s == nil || s.pin == nil || s.pin.Bytes() == 0 {
			return errors.New("no save has rows aside")
		}
		r.leaveWorld()
		if bytes := kernels.Deferred(r.dev); bytes > 0 {
			t.Errorf("rank %d: %d bytes are not freed", r.id, bytes)
		}
		r.enterWorld(next[r.id])
		return nil
	})
}
