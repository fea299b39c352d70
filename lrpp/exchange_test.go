package lrpp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/oracle"
	"github.com/ecrec/ecrec/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// task is random work for some ranks: the ids of each rank's slice at each step, and the
// gradient of each lookup.
type task struct {
	ranks, width int
	trainers     int // ranks 0 to trainers-1 train
	first        int // rank of owner 0
	place        placement.Map
	opt          kernels.Optimizer
	ids          [][][]uint32  // [step][rank][sample*table]
	grads        [][][]float32 // [step][rank][lookup*width]
}

func randomTask(r *rand.Rand) task {
	tables := make([]int64, 1+r.IntN(4))
	for t := range tables {
		tables[t] = 1 + r.Int64N(40)
	}
	j := task{trainers: 1 + r.IntN(5), width: 1 + r.IntN(9), opt: kernels.Optimizer{Kind: kernels.SGD, LR: lr}}
	j.ranks = j.trainers
	if r.IntN(3) == 0 { // dedicated servers
		j.first, j.ranks = j.trainers, j.trainers+1+r.IntN(2)
	}
	j.place = placement.New(tables, j.ranks-j.first)
	for range 6 + r.IntN(8) {
		var ids [][]uint32
		var grads [][]float32
		for rank := range j.ranks {
			slice := make([]uint32, r.IntN(9)*len(tables)) // often none
			if rank >= j.trainers {
				slice = nil
			}
			for l := range slice {
				slice[l] = uint32(r.Int64N(tables[l%len(tables)]))
			}
			g := make([]float32, len(slice)*j.width)
			for i := range g {
				g[i] = r.Float32() - 0.5
			}
			ids, grads = append(ids, slice), append(grads, g)
		}
		j.ids, j.grads = append(j.ids, ids), append(j.grads, grads)
	}
	return j
}

const lr = 0.25

// reference trains the rows serially, in the order that the package doc promises: samples
// in order on a rank, then ranks in order, one update.
func (j task) reference(init kernels.RowInit) (seen [][][]float32) {
	rows := map[int64][]float32{}
	row := func(g int64) []float32 {
		if rows[g] == nil {
			rows[g] = make([]float32, j.width)
			init.Row(rows[g], g)
		}
		return rows[g]
	}
	tables := j.place.Tables()
	global := func(l int, id uint32) int64 { return j.place.Base[l%tables] + int64(id) }
	for step := range j.ids {
		var read [][]float32
		total := map[int64][]float32{}
		for rank, ids := range j.ids[step] {
			var mine []float32
			sums := map[int64][]float32{}
			for l, id := range ids {
				g := global(l, id)
				mine = append(mine, row(g)...)
				if sums[g] == nil {
					sums[g] = make([]float32, j.width)
				}
				for k := range j.width {
					sums[g][k] += j.grads[step][rank][l*j.width+k]
				}
			}
			for g, s := range sums {
				if total[g] == nil {
					total[g] = make([]float32, j.width)
				}
				for k := range s {
					total[g][k] += s[k]
				}
			}
			read = append(read, mine)
		}
		for g, s := range total {
			w := row(g)
			for k := range s {
				w[k] -= float32(lr * s[k])
			}
		}
		seen = append(seen, read)
	}
	return seen
}

// The rows that ranks read at each step equal serial training bit for bit. No read is stale,
// and no gradient is lost or counted twice.
func TestRowsReadEqualSerialTraining(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, round))
		j := randomTask(r)
		delays := "" // every third round, messages are delayed
		if round%3 == 0 {
			delays = "delay(200us, p=0.2)"
		}
		for _, o := range []PlanOptions{{Mode: Direct}, {Mode: Planned}, {Mode: Planned, DelayedSync: true}} {
			o.Check = true
			j.check(t, fmt.Sprintf("seed %d round %d, %+v", seed, round, o), seed+round, delays, o)
		}
	}
}

func (j task) check(t *testing.T, what string, seed uint64, delays string, o PlanOptions) {
	t.Helper()
	got := j.train(t, seed, delays, o)
	if t.Failed() {
		t.Fatal(what)
	}
	for step, want := range j.reference(got.init) {
		for rank := range want {
			for i, w := range want[rank] {
				if g := got.seen[rank][step][i]; g != w {
					t.Fatalf("%s: step %d, rank %d, lookup %d: read %v, want %v", what, step, rank, i/j.width, g, w)
				}
			}
		}
	}
}

// trained is the result of a task.
type trained struct {
	init    kernels.RowInit
	seen    [][][]float32  // [rank][step][lookup*width]
	settled [][]digest.Sum // [rank][settle]
	full    *oracle.CapacityError
	moves   moves // in mode Cached
}

// train runs a task on all ranks.
func (j task) train(t *testing.T, seed uint64, delays string, o PlanOptions) (got trained) {
	t.Helper()
	dev, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	o.Trainers, o.FirstOwner = j.trainers, j.first
	e := env.Real()
	eps := transport.NewMem(e, j.ranks, 1)
	var wait sync.WaitGroup
	var mu sync.Mutex
	got.seen, got.settled = make([][][]float32, j.ranks), make([][]digest.Sum, j.ranks)
	for rank, ep := range eps {
		if delays != "" {
			faults, err := transport.ParseFaults(seed, delays)
			if err != nil {
				t.Fatal(err)
			}
			ep = transport.Wrap(e, ep, faults)
		}
		wait.Add(1)
		go func() {
			defer wait.Done()
			r := newTestRank(t, e, dev, ep, j, o)
			defer r.closeAll()
			seen, err := r.trainSteps(t, j)
			mu.Lock()
			defer mu.Unlock()
			if full := (*oracle.CapacityError)(nil); errors.As(err, &full) {
				got.full = full
			} else if err != nil && !errors.As(err, new(*PeerGaveUp)) {
				t.Error(err)
			}
			if rank == 0 {
				got.init = r.shard.Init()
			}
			got.seen[rank], got.settled[rank] = seen, r.settled
			for i := range r.steps {
				if p := r.steps[i].cache; p != nil {
					got.moves.add(p)
				}
			}
		}()
	}
	wait.Wait()
	return got
}

// A planner that misses that a neighbouring step uses a row breaks the invariant, and the
// check reports it.
func TestBrokenPlansAreCaught(t *testing.T) {
	o := PlanOptions{Mode: Planned, DelayedSync: true, Check: true}
	for name, spoil := range map[string]func([]Step, int) (*Step, *Step){
		"rows sent too early": func(steps []Step, i int) (*Step, *Step) { return nil, &steps[min(i+1, len(steps)-1)] },
		"gradients sent too late": func(steps []Step, i int) (*Step, *Step) {
			if i == 0 {
				return nil, nil
			}
			return &steps[i-1], nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dev, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
			if err != nil {
				t.Fatal(err)
			}
			e := env.Real()
			j := task{ranks: 2, trainers: 2, width: 1, place: placement.New([]int64{4}, 2), opt: kernels.Optimizer{LR: lr}}
			for range 6 { // the same two rows at every step
				j.ids = append(j.ids, [][]uint32{{0, 1}, {1, 0}})
				j.grads = append(j.grads, [][]float32{{1, 2}, {3, 4}})
			}
			var broken atomic.Int64
			var wait sync.WaitGroup
			for _, ep := range transport.NewMem(e, j.ranks, 1) {
				wait.Add(1)
				go func() {
					defer wait.Done()
					r := newTestRank(t, e, dev, ep, j, o)
					defer r.closeAll()
					r.spoil = spoil
					r.base.check.violated = func(string) { broken.Add(1) }
					if _, err := r.trainSteps(t, j); err != nil {
						t.Error(err)
					}
				}()
			}
			wait.Wait()
			if broken.Load() == 0 {
				t.Error("no violation was reported")
			}
		})
	}
}

// If a rank gives up, every other rank's Fill of that step returns PeerGaveUp. All ranks
// can end, none waits, and the endpoints stay usable.
func TestGiveUpEndsAllPlanners(t *testing.T) {
	const ranks, gives = 3, 1
	dev, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	e := env.Real()
	j := task{ranks: ranks, trainers: ranks, width: 2, place: placement.New([]int64{5}, ranks)}
	var wait sync.WaitGroup
	for rank, ep := range transport.NewMem(e, ranks, 1) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			r := newTestRank(t, e, dev, ep, j, PlanOptions{})
			defer r.closeAll()
			var st Step
			if err := r.planner.Fill(&st, oracle.Lookups{IDs: []uint32{1, 2}}); err != nil {
				t.Error(err)
			}
			var gone *PeerGaveUp
			if rank == gives {
				if err := r.planner.GiveUp(&st); err != nil {
					t.Error(err)
				}
			} else if err := r.planner.Fill(&st, oracle.Lookups{IDs: []uint32{1, 4}}); !errors.As(err, &gone) || gone.Rank != gives {
				t.Errorf("rank %d: %v", rank, err)
			}
			if err := r.comms[1].Barrier().Wait(); err != nil {
				t.Errorf("rank %d: the endpoint has failed: %v", rank, err)
			}
		}()
	}
	wait.Wait()
}

// TestGradientsAreSentBeforeBetween: a rank sends its gradients before Between, so that the others need not wait for that.
func TestGradientsAreSentBeforeBetween(t *testing.T) {
	j := task{ranks: 2, trainers: 2, width: 2, opt: kernels.Optimizer{Kind: kernels.SGD, LR: lr}, place: placement.New([]int64{8}, 2),
		ids: [][][]uint32{{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}}}, grads: [][][]float32{{make([]float32, 16), make([]float32, 16)}}}
	dev, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	e, ended := env.Real(), make(chan bool)
	var wait sync.WaitGroup
	for rank, ep := range transport.NewMem(e, j.ranks, 1) {
		wait.Go(func() {
			r := newTestRank(t, e, dev, ep, j, PlanOptions{Mode: Direct, Trainers: 2})
			defer r.closeAll()
			if rank == 0 {
				r.base.between = func(int64) error {
					select {
					case <-ended:
					case <-time.After(30 * time.Second):
						t.Error("rank 1 waits for Between of rank 0")
					}
					return nil
				}
			}
			if _, err := r.trainSteps(t, j); err != nil {
				t.Error(err)
			}
			if rank == 1 {
				close(ended)
			}
		})
	}
	wait.Wait()
}
