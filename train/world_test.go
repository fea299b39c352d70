package train

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

// spread trains a config as if on some processes, each with its share of the ranks. It returns
// their results.
func spread(t *testing.T, processes, ranks int, o Options, path string, sets ...string) []*Result {
	t.Helper()
	e := env.Real()
	eps := transport.NewMem(e, ranks, 1)
	results := make([]*Result, processes)
	var wait sync.WaitGroup
	for p := range processes {
		cfg, err := config.Load(path, append(sets, "job.out="+t.TempDir(), fmt.Sprintf("job.ranks=%d", ranks)))
		if err != nil {
			t.Fatal(err)
		}
		own := o
		own.Observer = &quiet{}
		if own.Stop == nil {
			own.Stop = func() bool { return false }
		}
		own.World = &World{Process: p, Processes: processes, Neighbours: processes,
			Join: func(hosted []int) (mine []transport.Endpoint, err error) {
				for _, id := range hosted {
					mine = append(mine, eps[id])
				}
				return mine, nil
			}}
		wait.Add(1)
		go func() {
			defer wait.Done()
			var err error
			if results[p], err = Run(e, cfg, own); err != nil {
				t.Errorf("process %d of %d: %v", p, processes, err)
			}
		}()
	}
	wait.Wait()
	return results
}

// The spread of ranks over processes changes no bit.
func TestRanksSpreadOverProcesses(t *testing.T) {
	few := "train.iterations=5"
	want := run(t, Options{}, adagrad, "job.ranks=4", few)
	for _, processes := range []int{1, 2, 3, 4} {
		saved := filepath.Join(t.TempDir(), "model.safetensors")
		got := spread(t, processes, 4, Options{SaveTo: saved}, adagrad, few)
		if got[0].Digest != want.Digest || got[0].Eval[0] != want.Eval[0] {
			t.Errorf("%d processes: digest %s, %+v; want %s, %+v", processes, got[0].Digest, got[0].Eval, want.Digest, want.Eval)
		}
		for p, r := range got[1:] {
			if r.Digest != "" || len(r.TrainLoss) != 0 {
				t.Errorf("process %d has a result of its own", p+1)
			}
		}
	}
}
