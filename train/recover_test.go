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
	"github.com/ecrec/ecrec/transport"
)

// killer has ranks die, each at a step and point, once.
type killer struct {
	quiet
	mu    sync.Mutex
	spare int            // so many may die before all is whole again
	dead  map[int]uint64 // the generation of the world that each died in
	kills []kill
	hit   []kill

	generation uint64
	eps        []transport.Endpoint
	committed  atomic.Bool // the job has heard of a commit
}

type kill struct {
	rank  int
	step  int64
	point string
}

// chaos is an Options.Chaos.
func (k *killer) chaos(rank int, step int64, point string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, x := range k.kills {
		if _, again := k.dead[rank]; x.rank == rank && x.point == point && step >= x.step && (again || len(k.dead) < k.spare) {
			k.dead[rank] = k.generation
			k.kills = slices.Delete(k.kills, i, i+1)
			k.hit = append(k.hit, x)
			died := &Died{Rank: rank, Step: step}
			k.eps[rank].Abort(died) // whoever of the rank came here
			return died
		}
	}
	return nil
}

// Recovered implements Observer: who died in an earlier world has all back.
func (k *killer) Recovered(Recovery) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.dead, func(_ int, in uint64) bool { return in < k.generation })
}

// lasting is a world that goes on after losses, in one process.
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
			if !errors.As(err, new(*Died)) && !Follows(err) {
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

// Whoever dies, wherever it does: the run gives what it gives when nobody does.
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
				at := kill{r.IntN(ranks), int64(r.IntN(25)), Points[r.IntN(len(Points))]}
				k.kills = append(k.kills, at)
				if spare == 2 && r.IntN(2) == 0 {
					k.kills = append(k.kills, kill{(at.rank + 1) % ranks, at.step, at.point})
				}
			}
			checkDeaths(t, path, sets, k, ranks)
		}
	}
}

func checkDeaths(t *testing.T, path string, sets []string, k *killer, ranks int) {
	t.Helper()
	planned := slices.Clone(k.kills)
	name := fmt.Sprintf("%s, %s, %+v", filepath.Base(filepath.Dir(path)), strings.Join(sets, " "), planned)
	want := run(t, Options{}, path, sets...)
	within(t, 30*time.Second, func() {
		got := run(t, Options{World: lasting(ranks, k), Chaos: k.chaos, Observer: k}, path, sets...)
		if got.Digest != want.Digest || !slices.Equal(got.TrainLoss, want.TrainLoss) || !slices.Equal(got.Eval, want.Eval) || got.Steps != want.Steps {
			t.Errorf("%s (%d died): digest %s, %d steps, %v; want %s, %d steps, %v", name, len(k.hit), got.Digest, got.Steps, got.Eval, want.Digest, want.Steps, want.Eval)
		}
	})
}

// notAlways are the points that not every run comes to.
var notAlways = []string{"flush", "between", "checkpoint", "written", "saved", "remains", "rest", "fall", "fallen"}

// A rank dies at each point.
func TestDeathAtEveryPoint(t *testing.T) {
	r := seeded(t)
	paths := goldenCases(t)
	for i, point := range Points {
		if testing.Short() && r.IntN(10) > 0 {
			continue
		}
		path := paths[r.IntN(len(paths))]
		sets := append([]string{"job.ranks=5", "ec.code=xor", "train.iterations=13", "ec.commit_every=3", "train.eval_every=5"}, anySets(r)...)
		k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{r.IntN(5), 4, point}}}
		if i >= slices.Index(Points, "join") { // in a recovery, whose rank is found again
			k.kills = append([]kill{{k.kills[0].rank, 5, "word"}}, kill{k.kills[0].rank, 0, point})
		}
		checkDeaths(t, path, sets, k, 5)
		if len(k.kills) > 0 && !slices.Contains(notAlways, point) {
			t.Errorf("nobody died at %q", point)
		}
	}
}
