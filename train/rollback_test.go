package train

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/transport"
)

// killer lets ranks die, each at a step and point, once.
type killer struct {
	quiet
	mu    sync.Mutex
	spare int            // how many may die until the job is fully redundant again
	dead  map[int]uint64 // the generation of the world that each died in
	kills []kill
	hit   []kill

	generation uint64
	eps        []transport.Endpoint
	committed  atomic.Bool // a commit was reported
}

type kill struct {
	rank  int
	step  int64
	point probe.Point
}

// inject is an Options.Inject.
func (k *killer) inject(rank int, step int64, point probe.Point) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, x := range k.kills {
		if _, again := k.dead[rank]; x.rank == rank && x.point == point && step >= x.step && (again || len(k.dead) < k.spare) {
			k.dead[rank] = k.generation
			k.kills = slices.Delete(k.kills, i, i+1)
			k.hit = append(k.hit, x)
			died := &Died{Rank: rank, Step: step}
			k.eps[rank].Abort(died) // on any goroutine of the rank
			return died
		}
	}
	return nil
}

// Recovered implements Observer: ranks that died in an earlier world are rebuilt.
func (k *killer) Recovered(Recovery) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.dead, func(_ int, in uint64) bool { return in < k.generation })
}

// mostWorlds ends a job that only renews its world.
const mostWorlds = 100

// lasting is a world in one process that is renewed after losses.
func lasting(ranks int, k *killer) *World {
	e := env.Real()
	var w *World
	w = &World{Processes: 1, Neighbours: 1,
		Join: func([]int) ([]transport.Endpoint, error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.generation++
			k.eps = transport.NewMem(e, ranks, k.generation)
			return k.eps, nil
		},
		Renew: func(err error) *World {
			k.mu.Lock()
			defer k.mu.Unlock()
			if !errors.As(err, new(*Died)) && !IsConsequence(err) || k.generation == mostWorlds {
				return nil
			}
			next := *w
			next.Trained = k.committed.Load()
			return &next
		},
		Committed: func(bool) { k.committed.Store(true) },
	}
	return w
}

// TestDeathsChangeNoBit: ranks die at random points, and the result is that of a run without
// deaths.
func TestDeathsChangeNoBit(t *testing.T) {
	r := seeded(t)
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for _, path := range someCases(t, r) {
		for range rounds {
			ranks, code := 5, []string{"ec.code=xor", "ec.k=4"}
			spare := 1
			switch r.IntN(3) {
			case 0:
				ranks, code, spare = 6, []string{"ec.code=rs", "ec.k=4", "ec.r=2"}, 2
			case 1:
				ranks, code = 4, []string{"ec.code=xor", "ec.k=1"}
			}
			sets := append([]string{fmt.Sprintf("job.ranks=%d", ranks), "train.iterations=24", "train.eval_every=7",
				fmt.Sprintf("ec.commit_every=%d", 1+r.IntN(6))}, code...)
			sets = append(sets, anySets(r)...)
			k := &killer{spare: spare, dead: map[int]uint64{}}
			for range 1 + r.IntN(3) {
				at := kill{r.IntN(ranks), int64(r.IntN(25)), probe.All()[r.IntN(len(probe.All()))]}
				k.kills = append(k.kills, at)
				if spare == 2 && r.IntN(2) == 0 {
					k.kills = append(k.kills, kill{(at.rank + 1) % ranks, at.step, at.point})
				}
			}
			checkDeaths(t, path, sets, k, ranks)
		}
	}
}

// checkDeaths compares a run with deaths with one that has none, and no cache and code.
func checkDeaths(t *testing.T, path string, sets []string, k *killer, ranks int) {
	t.Helper()
	planned := slices.Clone(k.kills)
	name := fmt.Sprintf("%s, %s, %+v", filepath.Base(filepath.Dir(path)), strings.Join(sets, " "), planned)
	want := reference(t, path, sets...)
	within(t, 30*time.Second, func() {
		got := run(t, Options{World: lasting(ranks, k), Inject: k.inject, Observer: k}, path, sets...)
		if got.Digest != want.Digest || !slices.Equal(got.TrainLoss, want.TrainLoss) || !slices.Equal(got.Eval, want.Eval) ||
			got.Steps != want.Steps {
			t.Errorf("%s (%d died): digest %s, %d steps, %v; want %s, %d steps, %v", name, len(k.hit), got.Digest, got.Steps,
				got.Eval, want.Digest, want.Steps, want.Eval)
		}
	})
}

// notAlways are the points that some runs do not reach.
var notAlways = []probe.Point{probe.Flush, probe.Commit, probe.Checkpoint, probe.Written, probe.Saved, probe.Finish,
	probe.Round, probe.Restore, probe.Restored}

// TestDeathAtEveryPoint lets a rank die at each point.
func TestDeathAtEveryPoint(t *testing.T) {
	r := seeded(t)
	paths := goldenCases(t)
	for _, point := range probe.All() {
		if testing.Short() && r.IntN(10) > 0 {
			continue
		}
		path := paths[r.IntN(len(paths))]
		sets := append([]string{"job.ranks=5", "ec.code=xor", "train.iterations=13", "ec.commit_every=3", "train.eval_every=5"}, anySets(r)...)
		k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{r.IntN(5), 4, point}}}
		if point >= probe.Join { // in a recovery: the replaced rank dies again
			k.kills = append([]kill{{k.kills[0].rank, 5, probe.Status}}, kill{k.kills[0].rank, 0, point})
		}
		checkDeaths(t, path, sets, k, 5)
		if len(k.kills) > 0 && !slices.Contains(notAlways, point) {
			t.Errorf("no rank died at %q", point.String())
		}
	}
}
