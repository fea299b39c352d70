package protection

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/transport"
)

const (
	ranks  = 5
	stride = 4 // floats of a row: 3 weights, 1 of state
)

// world is the ranks of a test, each with a sink.
type world struct {
	t       *testing.T
	eps     []transport.Endpoint
	rows    []*shard.Shard
	commits []*commit.Committer
	sinks   []*sink
	random  *rand.Rand
}

// newWorld makes ranks, and touches all of their rows. The cleanup of the test closes them.
func newWorld(t *testing.T, k int, v *Variant) *world {
	w := &world{t: t, eps: transport.NewMem(env.Real(), ranks, 1), random: rand.New(rand.NewPCG(1, uint64(k)))}
	place := placement.New([]int64{40, 3, 17}, ranks)
	layout, err := ec.NewLayout(ranks, k, 1)
	if err != nil {
		t.Fatal(err)
	}
	gradients := make([][]float32, ranks)
	for rank := range gradients {
		gradients[rank] = slices.Repeat([]float32{float32(rank + 1)}, 13)
	}
	open := New(Options{Layout: layout, Slots: place.Slots(0), Endpoints: transport.NewMem(env.Real(), ranks, 1), Variant: v,
		Gradient: func(rank int) kernels.Buffer { return kernels.HostBuffer(gradients[rank]) }})
	for rank := range ranks {
		dev, err := kernels.NewCPU(kernels.CPUOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s := dev.Stream(1)
		h, err := shard.New(dev, s, shard.Options{Map: place, Owner: rank, Seed: 5, Width: 3, State: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.TouchAll(); err != nil {
			t.Fatal(err)
		}
		x, err := open(commit.SinkOptions{Env: env.Real(), Device: dev, Rank: rank, Shard: h})
		if err != nil {
			t.Fatal(err)
		}
		c := commit.New(commit.Options{Env: env.Real(), Shard: h, Every: 1, Sinks: []commit.Sink{x}})
		comm := collectives.New(env.Real(), w.eps[rank], 1, dev, s)
		c.Join(comm)
		c.Begin(0, true)
		w.rows, w.commits, w.sinks = append(w.rows, h), append(w.commits, c), append(w.sinks, x.(*sink))
		t.Cleanup(func() {
			_ = w.eps[rank].Close()
			c.Leave()
			comm.Close()
			c.Close()
			h.Close()
			s.Close()
		})
	}
	return w
}

// train writes some rows of each rank, and commits the step. Floats are small whole numbers, so their sums are exact.
func (w *world) train(step int64) {
	w.t.Helper()
	prepared := make([]int64, ranks)
	for i, c := range w.commits {
		n := int(w.rows[i].Slots())
		var slots []int32
		for _, x := range w.random.Perm(n)[:w.random.IntN(n)] {
			slots = append(slots, int32(x))
		}
		now := make([]float32, len(slots)*stride)
		for j := range now {
			now[j] = float32(w.random.IntN(1000))
		}
		if err := w.rows[i].StoreRows(slots, kernels.Mat(kernels.HostBuffer(now), len(slots), stride)); err != nil {
			w.t.Fatal(err)
		}
		prepared[i] = c.Prepared()
	}
	errs := make([]error, ranks)
	var wait sync.WaitGroup
	for i, c := range w.commits {
		wait.Go(func() {
			if _, errs[i] = c.Decide(prepared); errs[i] == nil {
				errs[i] = c.Seal(step)
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// floats is all rows of a rank.
func (w *world) floats(rank int) (all []float32) {
	h := w.rows[rank]
	slots := make([]int32, h.Slots())
	for i := range slots {
		slots[i] = int32(i)
	}
	raw := make([]byte, len(slots)*h.RowBytes())
	if err := h.ReadBytes(raw, slots); err != nil {
		w.t.Fatal(err)
	}
	for i := range len(raw) / 4 {
		all = append(all, math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	return all
}

// A parity is the sum of the differences of the rows of its stripe, for each variant and k. Dense gradients are summed once a commit.
func TestParityIsTheSumOfDifferences(t *testing.T) {
	for _, k := range []int{2, 4} {
		for _, v := range []Variant{{}, {TwoPhase: true}, {TwoPhase: true, Copies: true}} {
			w := newWorld(t, k, &v)
			w.train(1) // rows are drawn floats before, whole numbers from now on
			var before, parity [][]float32
			for rank := range ranks {
				before, parity = append(before, w.floats(rank)), append(parity, slices.Clone(w.sinks[rank].parity))
			}
			for step := int64(2); step < 7; step++ {
				w.train(step)
			}
			w.checkParities(before, parity)
			for rank, s := range w.sinks {
				if want := float32(6 * (1 + 2 + 3 + 4 + 5)); v.Copies && slices.ContainsFunc(s.second, func(x float32) bool { return x != want }) {
					t.Errorf("rank %d: second copies %v, want %v", rank, s.second, want)
				}
			}
		}
	}
}

// checkParities compares the changes of parities with those of rows.
func (w *world) checkParities(before, parity [][]float32) {
	w.t.Helper()
	want := make([][]float32, ranks)
	for rank, s := range w.sinks {
		want[rank] = make([]float32, len(s.parity))
	}
	for rank, s := range w.sinks {
		now := w.floats(rank)
		for slot := range len(now) / stride {
			stripe, _ := s.group.Stripe(rank, int64(slot))
			holder, row := s.group.Holder(stripe, s.group.Data())
			for j := range stride {
				want[holder][int(row)*stride+j] += now[slot*stride+j] - before[rank][slot*stride+j]
			}
		}
	}
	changed := false
	for rank, s := range w.sinks {
		for i, x := range s.parity {
			// Rows that no step has written since are drawn floats, of which the sums of the first step are rounded.
			if got := x - parity[rank][i]; math.Abs(float64(got-want[rank][i])) > 0.01 {
				w.t.Fatalf("k = %d, rank %d: float %d of the parities changed by %v, want %v", s.group.Data(), rank, i, got, want[rank][i])
			}
			changed = changed || want[rank][i] != 0
		}
	}
	if !changed {
		w.t.Error("no parity changed")
	}
}

// The loss of a rank ends a commit with an error.
func TestLostRankEndsACommit(t *testing.T) {
	w := newWorld(t, 4, &Variant{TwoPhase: true, Copies: true})
	w.sinks[2].Close()
	errs := make([]error, ranks)
	var wait sync.WaitGroup
	for i, c := range w.commits {
		wait.Go(func() { errs[i] = c.Seal(1) })
	}
	wait.Wait()
	for i, err := range errs {
		if err == nil {
			t.Errorf("rank %d committed without rank 2", i)
		}
	}
}
