package changefiles

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

const ranks = 3

// kill is the death of a rank at a point, in this step or later.
type kill struct {
	rank  int
	step  int64
	point probe.Point
}

// job is a job in one process, whose ranks are killed and replaced. It ignores what it observes.
type job struct {
	mu         sync.Mutex
	kills      []kill // the next one is the first
	eps        []transport.Endpoint
	generation uint64
	committed  bool
}

func (*job) Started(train.Info) error          { return nil }
func (*job) Step(train.StepInfo)               {}
func (*job) Checkpointed(int64, string, error) {}
func (*job) SkippedCheckpoint(string, error)   {}
func (*job) Warned(string)                     {}
func (*job) Recovered(train.Recovery)          {}
func (*job) Evaluated(train.Eval)              {}
func (*job) Committed(int64, string)           {}

// world is a world that is renewed after each kill.
func (j *job) world() *train.World {
	return &train.World{Processes: 1, Neighbours: 1, Trained: j.committed,
		Join: func([]int) ([]transport.Endpoint, error) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.generation++
			j.eps = transport.NewMem(env.Real(), ranks, j.generation)
			return j.eps, nil
		},
		Renew: func(err error) *train.World {
			if !errors.As(err, new(*train.Died)) && !train.IsConsequence(err) {
				return nil
			}
			j.mu.Lock()
			defer j.mu.Unlock()
			return j.world()
		},
		Committed: func(bool) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.committed = true
		},
	}
}

// inject is a train.Options.Inject.
func (j *job) inject(rank int, step int64, point probe.Point) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.kills) == 0 || rank != j.kills[0].rank || point != j.kills[0].point || step < j.kills[0].step {
		return nil
	}
	j.kills = j.kills[1:]
	died := &train.Died{Rank: rank, Step: step}
	j.eps[rank].Abort(died)
	return died
}

// train runs a job that writes below dir, and returns its digest.
func (j *job) train(t *testing.T, dir, mode string) string {
	t.Helper()
	cfg, err := config.Load("../../../train/testdata/golden/dlrm-adagrad/config.toml", []string{"job.out=" + t.TempDir(), "model.init_from=",
		fmt.Sprint("job.ranks=", ranks), "train.iterations=16", "ec.code=xor", "ec.k=2", "ec.commit_every=2", "cache.mode=" + mode})
	if err != nil {
		t.Fatal(err)
	}
	result, err := train.Run(env.Real(), cfg, train.Options{World: j.world(), Inject: j.inject, Observer: j,
		Stop: func() bool { return false }, Sinks: []commit.SinkFactory{To(dir)}})
	if err != nil {
		t.Fatal(err)
	}
	return result.Digest
}

// checkFiles checks that the files of all ranks below dir lead to the same rows as those below
// want, a job without kills.
func checkFiles(t *testing.T, name, dir, want string) {
	t.Helper()
	if parts, _ := filepath.Glob(filepath.Join(dir, "*", "*.part")); len(parts) > 0 {
		t.Errorf("%s: %v are left", name, parts)
	}
	for rank := range ranks {
		files, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("rank-%d-from-*", rank), "step-*"))
		if err != nil {
			t.Fatal(err)
		}
		last := slices.MaxFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
		first := filepath.Join(want, fmt.Sprintf("rank-%d-from-0", rank))
		if got := read(t, filepath.Dir(last)); !maps.EqualFunc(got, read(t, first), slices.Equal) {
			t.Errorf("%s: the files of rank %d do not lead to its rows", name, rank)
		}
	}
}

// TestKills: a rank is killed at each point, and the files of all ranks lead to the same rows as
// without a loss.
func TestKills(t *testing.T) {
	want := t.TempDir()
	digest := (&job{}).train(t, want, "none")
	for i, point := range probe.All() {
		if testing.Short() && i%8 > 0 {
			continue
		}
		kills := []kill{{2, 12, point}}
		if point >= probe.Join { // in a recovery: the replaced rank is killed again
			kills = []kill{{2, 12, probe.Status}, {2, 0, point}}
		}
		mode, dir := []string{"none", "planned", "lrpp"}[i%3], t.TempDir()
		name := fmt.Sprintf("%s, killed at point %s", mode, point)
		if got := (&job{kills: kills}).train(t, dir, mode); got != digest {
			t.Errorf("%s: digest %s, want %s", name, got, digest)
		}
		checkFiles(t, name, dir, want)
	}
}
