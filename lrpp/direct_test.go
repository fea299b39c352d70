package lrpp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job is random work for some ranks: ids of each rank's slice at each step, and
// the gradient of each lookup.
type job struct {
	ranks, width int
	place        placement.Map
	ids          [][][]uint32  // [step][rank][sample*table]
	grads        [][][]float32 // [step][rank][lookup*width]
}

func randomJob(r *rand.Rand) job {
	tables := make([]int64, 1+r.IntN(4))
	for t := range tables {
		tables[t] = 1 + r.Int64N(40)
	}
	j := job{ranks: 1 + r.IntN(5), width: 1 + r.IntN(9)}
	j.place = placement.New(tables, j.ranks)
	for range 6 {
		var ids [][]uint32
		var grads [][]float32
		for range j.ranks {
			slice := make([]uint32, r.IntN(9)*len(tables)) // often none
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

// reference trains the rows one after the other, in the order that the package
// doc promises: samples in order on a rank, then ranks in order, one update.
func (j job) reference(init kernels.RowInit) (seen [][][]float32) {
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

// What ranks read at each step is, bit for bit, what serial training gives: no
// read is stale, no gradient lost or counted twice.
func TestRowsReadEqualSerialTraining(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, round))
		j := randomJob(r)
		delays := "" // every third round the messages dawdle
		if round%3 == 0 {
			delays = "delay(200us, p=0.2)"
		}
		j.check(t, fmt.Sprintf("seed %d round %d", seed, round), seed+round, delays)
	}
}

func (j job) check(t *testing.T, what string, seed uint64, delays string) {
	t.Helper()
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := env.Real()
	eps := transport.NewMem(e, j.ranks, 1)
	var wait sync.WaitGroup
	got := make([][][]float32, j.ranks)
	var init kernels.RowInit
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
			r := newTestRank(t, e, dev, ep, j)
			defer r.close()
			if rank == 0 {
				init = r.shard.Init()
			}
			got[rank] = r.run(t, j)
		}()
	}
	wait.Wait()
	for step, want := range j.reference(init) {
		for rank := range want {
			for i, w := range want[rank] {
				if g := got[rank][step][i]; g != w {
					t.Fatalf("%s: step %d, rank %d, lookup %d: read %v, want %v", what, step, rank, i/j.width, g, w)
				}
			}
		}
	}
}

// testRank is a rank without a model.
type testRank struct {
	ep       transport.Endpoint
	s        kernels.Stream
	streams  []kernels.Stream
	comms    []*collectives.Comm
	shard    *shard.Shard
	planner  *Planner
	exchange *Direct
	dev      kernels.Device
}

func newTestRank(t *testing.T, e env.Env, dev kernels.Device, ep transport.Endpoint, j job) *testRank {
	r := &testRank{ep: ep, dev: dev, s: dev.Stream(1)}
	comm := func(channel uint16) *collectives.Comm {
		s := dev.Stream(1)
		c := collectives.New(e, ep, channel, dev, s)
		r.comms, r.streams = append(r.comms, c), append(r.streams, s)
		return c
	}
	var err error
	if r.shard, err = shard.New(dev, r.s, shard.Options{Map: j.place, Owner: ep.Rank(), Seed: 3, Width: j.width}); err != nil {
		t.Error(err)
	}
	r.planner = NewPlanner(comm(1), j.place)
	r.exchange = NewDirect(dev, r.s, comm(2), r.shard)
	return r
}

func (r *testRank) close() {
	for i, c := range r.comms {
		c.Close()
		r.streams[i].Close()
	}
	r.ep.Close()
	r.exchange.Close()
	r.shard.Close()
	r.s.Close()
}

// run returns the weights of each lookup at each step.
func (r *testRank) run(t *testing.T, j job) (seen [][]float32) {
	tables, me := j.place.Tables(), r.ep.Rank()
	var st Step
	for step := range j.ids {
		ids := j.ids[step][me]
		if err := r.planner.Fill(&st, ids); err != nil {
			t.Error(err)
			return seen
		}
		rows, index, err := r.exchange.Fetch(&st, true)
		if err != nil {
			t.Error(err)
			return seen
		}
		read := make([]float32, len(ids)*j.width)
		r.s.GatherRows(kernels.Mat(kernels.HostBuffer(read), len(ids)/tables, tables*j.width), rows, index)
		seen = append(seen, read)
		grads := kernels.Mat(kernels.HostBuffer(j.grads[step][me]), len(ids)/tables, tables*j.width)
		if err := r.exchange.Push(&st, kernels.Optimizer{Kind: kernels.SGD, LR: lr}, grads); err != nil {
			t.Error(err)
			return seen
		}
		if m := r.exchange.Moved(&st); j.ranks == 1 && m.Rows != 0 {
			t.Errorf("one rank alone moved %d rows", m.Rows)
		}
	}
	return seen
}

// Where a rank gives up, every other rank's Fill of that step says so, and all may
// end: nobody waits, and the world goes on.
func TestGiveUpEndsAllPlanners(t *testing.T) {
	const ranks, gives = 3, 1
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := env.Real()
	j := job{ranks: ranks, width: 2, place: placement.New([]int64{5}, ranks)}
	var wait sync.WaitGroup
	for rank, ep := range transport.NewMem(e, ranks, 1) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			r := newTestRank(t, e, dev, ep, j)
			defer r.close()
			var st Step
			if err := r.planner.Fill(&st, []uint32{1, 2}); err != nil {
				t.Error(err)
			}
			var gone *PeerGaveUp
			if rank == gives {
				if err := r.planner.GiveUp(&st); err != nil {
					t.Error(err)
				}
			} else if err := r.planner.Fill(&st, []uint32{1, 4}); !errors.As(err, &gone) || gone.Rank != gives {
				t.Errorf("rank %d: %v", rank, err)
			}
			if err := r.comms[1].Barrier().Wait(); err != nil {
				t.Errorf("rank %d: the world has ended: %v", rank, err)
			}
		}()
	}
	wait.Wait()
}
