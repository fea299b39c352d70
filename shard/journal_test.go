package shard

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// TestJournal does random updates, seals, commits and rollbacks on a shard, and the
// same on plain copies of all rows.
func TestJournal(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		checkJournal(t, r)
	}
}

func checkJournal(t *testing.T, r *rand.Rand) {
	const state = 1
	h := shards(t, 2, state)[1]
	h.Keep(func() time.Duration { return 0 })
	views := []*Shard{h, h.On(h.s)}
	rows := func() []byte { return bytes.Clone(h.rows.Buf.Host()) }
	if err := h.TouchAll(); err != nil { // so that plain copies know all rows
		t.Fatal(err)
	}
	ends := [][]byte{rows()} // at the last commit, and at the end of each sealed epoch
	for range 60 {
		switch x := r.IntN(10); {
		case x < 5:
			update(t, r, views[r.IntN(2)])
		case x < 7 && len(ends) < 3:
			checkDelta(t, r, h, h.Journal().Seal(), ends[len(ends)-1])
			ends = append(ends, rows())
		case x < 8 && len(ends) > 1:
			h.Journal().Commit()
			ends = ends[1:]
		case x < 9:
			checkCommitted(t, r, h, ends[0])
		default:
			keep := r.IntN(len(ends))
			if err := h.Rollback(keep); err != nil {
				t.Fatal(err)
			}
			if ends = ends[:keep+1]; !bytes.Equal(rows(), ends[keep]) {
				t.Fatal("a rollback does not give what was there at the end of an epoch")
			}
		}
		if h.Journal().Sealed() != len(ends)-1 {
			t.Fatalf("%d epochs are sealed, not %d", h.Journal().Sealed(), len(ends)-1)
		}
	}
}

// update writes some rows in one of the ways there are.
func update(t *testing.T, r *rand.Rand, h *Shard) {
	slots := some(r, int(h.Slots()))
	stride := h.rows.Stride
	if len(slots) == 0 {
		return
	}
	values := make([]float32, len(slots)*stride)
	for i := range values {
		values[i] = r.Float32()
	}
	var err error
	if r.IntN(2) == 0 {
		err = h.StoreWhole(slots, kernels.Mat(kernels.HostBuffer(values), len(slots), stride))
	} else {
		start, pos := make([]int32, len(slots)+1), make([]int32, len(slots))
		for i := range slots {
			start[i+1], pos[i] = int32(i+1), int32(i)
		}
		err = h.Apply(kernels.Optimizer{Kind: kernels.RowwiseAdagrad, LR: 0.1}, slots, kernels.Mat(kernels.HostBuffer(values), len(slots), width),
			kernels.HostBuffer(start), kernels.HostBuffer(pos))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// some draws different slots, in random order.
func some(r *rand.Rand, limit int) []int32 {
	slots := []int32{}
	for _, x := range r.Perm(limit)[:r.IntN(r.IntN(limit)+1)] {
		slots = append(slots, int32(x))
	}
	return slots
}

// checkDelta: the deltas of an epoch that was just sealed lead from its beginning to
// what is there now.
func checkDelta(t *testing.T, r *rand.Rand, h *Shard, e *Epoch, before []byte) {
	n, stride := len(e.Slots), h.rows.Stride
	order, slots := make([]int32, n), make([]int32, n)
	for i, x := range r.Perm(n) {
		order[i], slots[i] = int32(x), e.Slots[x]
	}
	delta := make([]float32, n*stride)
	if err := h.Delta(kernels.Mat(kernels.HostBuffer(delta), n, stride), e, order, slots); err != nil {
		t.Fatal(err)
	}
	sorted, places := e.Sorted(nil, nil)
	if !slices.IsSorted(sorted) || len(sorted) != n {
		t.Fatalf("%d of %d slots, sorted: %v", len(sorted), n, sorted)
	}
	for i, place := range places {
		if e.Slots[place] != sorted[i] {
			t.Fatalf("slot %d is not at place %d", sorted[i], place)
		}
	}
	got, now := bytes.Clone(before), h.rows.Buf.Host()
	for i, slot := range slots {
		for k, d := range kernels.BytesOf(delta)[i*4*stride : (i+1)*4*stride] {
			got[int(slot)*4*stride+k] ^= d
		}
	}
	if !bytes.Equal(got, now) {
		t.Fatal("the deltas of an epoch do not lead from its beginning to its end")
	}
}

func checkCommitted(t *testing.T, r *rand.Rand, h *Shard, committed []byte) {
	slots, stride := some(r, int(h.Slots())), h.rows.Stride
	got := make([]float32, len(slots)*stride)
	if err := h.ReadCommitted(kernels.Mat(kernels.HostBuffer(got), len(slots), stride), slots); err != nil {
		t.Fatal(err)
	}
	for i, slot := range slots {
		if !bytes.Equal(kernels.BytesOf(got)[i*4*stride:(i+1)*4*stride], committed[int(slot)*4*stride:int(slot+1)*4*stride]) {
			t.Fatalf("row %d is not what it was at the last commit", slot)
		}
	}
}
