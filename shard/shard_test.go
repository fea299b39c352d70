package shard

import (
	"math"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
)

const (
	width = 5
	seed  = 9
)

var tables = []int64{70, 3, 500}

// inPacked is whether the shards of tests are packed.
var inPacked bool

// shards makes the shards of all owners.
func shards(t *testing.T, owners, state int) []*Shard {
	t.Helper()
	dev, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	all := make([]*Shard, owners)
	for o := range all {
		s := dev.Stream(1)
		h, err := New(dev, s, Options{Map: placement.New(tables, owners), Owner: o, Seed: seed, Width: width, State: state, Packed: inPacked})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close(); s.Close() })
		all[o] = h
	}
	return all
}

func total(t *testing.T, all []*Shard) (sum digest.Sum) {
	t.Helper()
	for _, h := range all {
		d, err := h.Digest()
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(d)
	}
	return sum
}

func matrix(rows int) ([]float32, kernels.Matrix) {
	v := make([]float32, rows*width)
	return v, kernels.Mat(kernels.HostBuffer(v), rows, width)
}

// TestInitIsAFunctionOfTheRow: an untouched row is read as its init, which depends on the row
// alone. Reading changes no digest, and only Read touches.
func TestInitIsAFunctionOfTheRow(t *testing.T) {
	rows := map[int64][]float32{}
	for _, owners := range []int{1, 2, 5} {
		all := shards(t, owners, 1)
		for o, h := range all {
			slots := make([]int32, h.Slots())
			for i := range slots {
				slots[i] = int32(i)
			}
			peeked, m := matrix(len(slots))
			if err := h.Peek(m, slots); err != nil {
				t.Fatal(err)
			}
			if n := h.Touched(); n != 0 {
				t.Fatalf("Peek touched %d rows", n)
			}
			exported := make([]float32, len(peeked))
			if err := h.Export(exported, 0, len(slots)); err != nil {
				t.Fatal(err)
			}
			read, m := matrix(len(slots))
			if err := h.Read(m, slots); err != nil {
				t.Fatal(err)
			}
			if n := h.Touched(); n != h.Slots() {
				t.Fatalf("Read touched %d of %d rows", n, h.Slots())
			}
			if !slices.Equal(peeked, read) || !slices.Equal(peeked, exported) {
				t.Fatal("Peek, Read and Export differ")
			}
			for slot := range slots {
				g := int64(slot*owners + o)
				row := read[slot*width : (slot+1)*width]
				if known, ok := rows[g]; ok && !slices.Equal(known, row) {
					t.Fatalf("row %d is %v on %d owners, was %v", g, row, owners, known)
				}
				rows[g] = slices.Clone(row)
				bound := float32(math.Sqrt(1 / float64(tables[h.o.Map.Table(g)])))
				if slices.Max(row) >= bound || slices.Min(row) <= -bound {
					t.Fatalf("row %d: %v, want within %v", g, row, bound)
				}
			}
		}
		if d := total(t, all); d != (digest.Sum{}) {
			t.Fatalf("%d owners: rows equal to their init have digest %v", owners, d)
		}
	}
}

// The digest depends on the bytes of rows, weights and state, and not on their owners.
func TestDigestDoesNotDependOnPlacement(t *testing.T) {
	adagrad := kernels.Optimizer{Kind: kernels.RowwiseAdagrad, LR: 0.5, Eps: 1e-10}
	var want digest.Sum
	for i, owners := range []int{1, 3, 4} {
		all := shards(t, owners, 1)
		for g := int64(0); g < 573; g += 7 {
			h, slot := all[g%int64(owners)], []int32{int32(g / int64(owners))}
			grad, m := matrix(1)
			for k := range grad {
				grad[k] = float32(g) + float32(k)
			}
			start, pos := []int32{0, 1}, []int32{0}
			if err := h.Apply(kernels.WholeRow(adagrad), slot, m, kernels.HostBuffer(start), kernels.HostBuffer(pos)); err != nil {
				t.Fatal(err)
			}
		}
		got := total(t, all)
		if i == 0 {
			want = got
		}
		if got != want || got == (digest.Sum{}) {
			t.Fatalf("%d owners: digest %v, want %v", owners, got, want)
		}
		// One bit of one row's state is enough to change it.
		h := all[0]
		kernels.HostView[float32](h.rows.RowRange(0, 1).Buf)[width] += 1e-3
		if total(t, all) == want {
			t.Fatal("a changed state leaves the digest as it was")
		}
	}
}

func TestStoreReplacesWeightsAndState(t *testing.T) {
	h := shards(t, 2, 1)[1]
	values, m := matrix(3)
	for i := range values {
		values[i] = float32(i) + 0.5
	}
	if err := h.Store(64, m); err != nil {
		t.Fatal(err)
	}
	got, out := matrix(4)
	if err := h.Peek(out, []int32{63, 64, 65, 66}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got[width:], values) || h.Touched() != 3 {
		t.Fatalf("stored %v, read %v; %d touched", values, got[width:], h.Touched())
	}
}

// Rows move with their state, and the digest stays the same.
func TestWholeRowsComeBack(t *testing.T) {
	all, other := shards(t, 1, 2)[0], shards(t, 1, 2)[0]
	slots := []int32{500, 3, 64, 0}
	values := make([]float32, len(slots)*(width+2))
	m := kernels.Mat(kernels.HostBuffer(values), len(slots), width+2)
	if err := all.ReadRows(m, slots); err != nil {
		t.Fatal(err)
	}
	if d := total(t, []*Shard{all}); d != (digest.Sum{}) || all.Touched() != int64(len(slots)) {
		t.Fatalf("reading whole rows: digest %v, %d touched", d, all.Touched())
	}
	for i := range values {
		values[i] += float32(i)
	}
	for _, h := range []*Shard{all, other} {
		if err := h.StoreRows(slots, m); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]float32, len(values))
	if err := all.ReadRows(kernels.Mat(kernels.HostBuffer(got), len(slots), width+2), slots); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, values) || total(t, []*Shard{all}) != total(t, []*Shard{other}) {
		t.Fatalf("stored %v, read %v", values, got)
	}
}

// counting counts allocations that are not freed.
type counting struct {
	kernels.Device
	live int
}

func (d *counting) Alloc(bytes int, use kernels.Use) (kernels.Buffer, error) {
	if bytes > 0 {
		d.live++
	}
	return d.Device.Alloc(bytes, use)
}

func (d *counting) Free(b kernels.Buffer) {
	if b.Bytes() > 0 {
		d.live--
	}
	d.Device.Free(b)
}

// An owner may have no rows, if there are fewer rows than ranks. It works and frees all its
// memory.
func TestOwnerWithoutRows(t *testing.T) {
	cpu, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	dev := &counting{Device: cpu}
	s := dev.Stream(1)
	defer s.Close()
	for owner := range 3 {
		h, err := New(dev, s, Options{Map: placement.New([]int64{1}, 3), Owner: owner, Seed: seed, Width: width, State: 1, Packed: inPacked})
		if err != nil {
			t.Fatal(err)
		}
		if h.Slots() != int64(max(0, 1-owner)) {
			t.Errorf("owner %d has %d rows", owner, h.Slots())
		}
		if err := h.TouchAll(); err != nil {
			t.Error(err)
		}
		if err := h.Read(kernels.Matrix{Cols: width, Stride: width}, nil); err != nil {
			t.Error(err)
		}
		if _, err := h.Digest(); err != nil {
			t.Error(err)
		}
		h.Close()
	}
	if dev.live != 0 {
		t.Errorf("%d allocations are not freed", dev.live)
	}
}

// A slot that is listed twice is drawn once: two threads would else draw it at the same time.
func TestReadDrawsARowOnce(t *testing.T) {
	h := shards(t, 1, 0)[0]
	_, dst := matrix(5)
	if err := h.Read(dst, []int32{7, 3, 7, 7, 3}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.fresh, []int32{7, 3}) {
		t.Errorf("drew slots %v, want 7 and 3", h.fresh)
	}
}
