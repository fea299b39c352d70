package train

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

// How rows travel changes no bit: any cache mode gives what mode "none" does, for
// every optimizer, with evaluations and stops in between.
func TestCacheModesAgree(t *testing.T) {
	for _, path := range goldenCases(t) {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			for ranks := 1; ranks <= 5; ranks++ {
				if testing.Short() && ranks != 3 {
					continue
				}
				common := []string{fmt.Sprintf("job.ranks=%d", ranks), "train.iterations=9", "train.eval_every=4"}
				want := run(t, Options{}, path, append(common, "cache.mode=none")...)
				for _, sets := range [][]string{
					{"cache.mode=planned", "cache.delayed_sync=true"},
					{"cache.mode=planned", "cache.delayed_sync=false"},
					{"cache.mode=auto"},
				} {
					got := run(t, Options{}, path, append(common, sets...)...)
					if got.Digest != want.Digest || len(got.Eval) != len(want.Eval) {
						t.Fatalf("%d ranks, %v: digest %s with %d evaluations, want %s with %d", ranks, sets, got.Digest, len(got.Eval), want.Digest, len(want.Eval))
					}
					for i := range want.Eval {
						if got.Eval[i] != want.Eval[i] {
							t.Errorf("%d ranks, %v: %+v, want %+v", ranks, sets, got.Eval[i], want.Eval[i])
						}
					}
				}
			}
		})
	}
}

// Messages that dawdle change no bit in any cache mode.
func TestCacheModesWithDelays(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	paths := goldenCases(t)
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for range rounds {
		path, ranks := paths[r.IntN(len(paths))], 2+r.IntN(4)
		sets := []string{fmt.Sprintf("train.iterations=%d", 1+r.IntN(8)), fmt.Sprintf("train.global_batch=%d", 5+r.IntN(100))}
		mode := []string{"cache.mode=planned", fmt.Sprintf("cache.delayed_sync=%v", r.IntN(2) == 0)}
		want := run(t, Options{}, path, append(sets, fmt.Sprintf("job.ranks=%d", ranks), "cache.mode=none")...)
		e := env.Real()
		var wrapped []transport.Endpoint
		for _, ep := range transport.NewMem(e, ranks, 1) {
			f, err := transport.ParseFaults(r.Uint64(), "delay(300us, p=0.1)")
			if err != nil {
				t.Fatal(err)
			}
			wrapped = append(wrapped, transport.Wrap(e, ep, f))
		}
		world := &World{Processes: 1, Neighbours: 1, Join: func([]int) ([]transport.Endpoint, error) { return wrapped, nil }}
		got := run(t, Options{World: world}, path, append(append(sets, fmt.Sprintf("job.ranks=%d", ranks)), mode...)...)
		if got.Digest != want.Digest {
			t.Fatalf("%s, %d ranks, %v, %v: digest %s, want %s", path, ranks, sets, mode, got.Digest, want.Digest)
		}
	}
}

// Which ranks hold rows and which read data changes no bit: only the number of
// trainers does. A run goes on from a checkpoint of others.
func TestRolesAgree(t *testing.T) {
	parts := []roles{{rows: 1}, {rows: 2, readers: 1}, {rows: 3, readers: 2}, {readers: 1}, {readers: 2}}
	turn := 0
	for _, path := range goldenCases(t) {
		for trainers := 1; trainers <= 3; trainers++ {
			if testing.Short() && trainers != 2 {
				continue
			}
			common := []string{"train.iterations=7", "train.eval_every=3", "job.threads=2"}
			want := run(t, Options{}, path, append(common, fmt.Sprintf("job.ranks=%d", trainers), "cache.mode=none")...)
			dir := t.TempDir()
			for _, mode := range []string{"none", "planned"} {
				p := parts[turn%len(parts)]
				turn++
				sets := append(common, "cache.mode="+mode, "checkpoint.dir="+dir, fmt.Sprintf("ranks.readers=%d", p.readers), fmt.Sprintf("ranks.servers=%d", p.rows))
				if p.rows > 0 {
					sets = append(sets, fmt.Sprintf("ranks.trainers=%d", trainers))
				}
				sets = append(sets, fmt.Sprintf("job.ranks=%d", p.rows+p.readers+trainers))
				run(t, Options{Resume: "auto"}, path, append(sets, "train.iterations=4")...)
				got := run(t, Options{Resume: "auto"}, path, sets...)
				if got.Digest != want.Digest || fmt.Sprint(got.TrainLoss) != fmt.Sprint(want.TrainLoss) || got.Eval[len(got.Eval)-1] != want.Eval[len(want.Eval)-1] {
					t.Errorf("%s, %d trainers, %d servers, %d readers, mode %s: digest %s, eval %v; want %s, %v",
						path, trainers, p.rows, p.readers, mode, got.Digest, got.Eval, want.Digest, want.Eval)
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
