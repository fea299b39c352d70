package checkpoint

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/kernels"
)

// TestCompareNamesAFloat flips one bit of a row, of its state or of the dense part between two saves on
// different numbers of ranks, and checks that the comparison finds it alone and names it.
func TestCompareNamesAFloat(t *testing.T) {
	rnd := random(t)
	for range 12 {
		m := randomModel(rnd)
		w := newWorld(m, 1+rnd.IntN(5))
		w.fill(rnd, []float64{0.02, 0.5, 1}[rnd.IntN(3)])
		a := saved(t, w, Save{Dir: t.TempDir(), Step: 7})
		other := newWorld(m, 1+rnd.IntN(5))
		if err := other.load(a); err != nil {
			t.Fatal(err)
		}
		b := saved(t, other, Save{Dir: t.TempDir(), Step: 7})
		if c, err := Compare(a, b); err != nil || !c.Equal() || len(c.First) > 0 {
			t.Fatalf("two saves of one model: %+v, %v", c, err)
		}

		want := Difference{Row: -1}
		bit := uint32(1) << rnd.IntN(32)
		if rnd.IntN(3) > 0 {
			place := m.placeRows(len(other.shards))
			g := rnd.Int64N(place.Rows())
			h, slot := other.shards[g%int64(len(other.shards))], int32(g/int64(len(other.shards)))
			bytes, float := rowOf(t, other, g), rnd.IntN(m.Width+m.RowState)
			table := place.Table(g)
			want = Difference{Tensor: m.Tables[table].Name, Row: g - place.Base[table], Rank: int(g % int64(a.Ranks)), Index: int64(float)}
			if float >= m.Width {
				want.Index, want.State = int64(float-m.Width), true
			}
			want.A = binary.LittleEndian.Uint32(bytes[4*float:])
			want.B = want.A ^ bit
			binary.LittleEndian.PutUint32(bytes[4*float:], want.B)
			if err := h.StoreRaw([]int32{slot}, bytes); err != nil {
				t.Fatal(err)
			}
		} else {
			specs, all := m.denseSpecs(), append(append([]byte{}, other.weights...), other.state...)
			k := rnd.IntN(len(specs))
			at := 0
			for _, s := range specs[:k] {
				n, _ := s.Bytes()
				at += int(n)
			}
			n, _ := specs[k].Bytes()
			want.Tensor, want.Index = specs[k].Name, rnd.Int64N(n/4)
			at += 4 * int(want.Index)
			want.A = binary.LittleEndian.Uint32(all[at:])
			want.B = want.A ^ bit
			binary.LittleEndian.PutUint32(all[at:], want.B)
			other.weights, other.state = all[:len(other.weights)], all[len(other.weights):]
		}
		b = saved(t, other, Save{Dir: t.TempDir(), Step: 7})
		c, err := Compare(a, b)
		if err != nil || c.Equal() || len(c.First) != 1 || c.First[0] != want || c.Rows+c.Dense != 1 || c.Tables != int(c.Rows) {
			t.Errorf("%+v, %v; want %+v", c, err, want)
		}
		if text := want.String(); !strings.Contains(text, want.Tensor) || !strings.Contains(text, "which differ in bit ") {
			t.Errorf("described as %q", text)
		}
		w.close()
		other.close()
	}
}

// rowOf returns the bytes of a global row, those of its initial value if it is not touched.
func rowOf(t *testing.T, w *world, g int64) []byte {
	t.Helper()
	owners := int64(len(w.shards))
	h, slot := w.shards[g%owners], int32(g/owners)
	if h.TouchedBits()[slot/64]>>(slot%64)&1 == 0 {
		row := make([]float32, w.model.Width+w.model.RowState)
		init := h.Init()
		init.Row(row[:w.model.Width], g)
		return kernels.BytesOf(row)
	}
	row := make([]byte, w.model.rowBytes())
	if err := h.ReadBytes(row, []int32{slot}); err != nil {
		t.Fatal(err)
	}
	return row
}

// TestCompareCountsRows checks the counts, and that a row that only one checkpoint holds is compared with
// its initial value.
func TestCompareCountsRows(t *testing.T) {
	rnd := random(t)
	m := randomModel(rnd)
	m.Tables = []Table{{"one", 50}, {"two", 60}}
	w, other := newWorld(m, 3), newWorld(m, 2)
	defer w.close()
	defer other.close()
	w.fill(rnd, 1)
	a := saved(t, w, Save{Dir: t.TempDir(), Step: 7})
	if err := other.load(a); err != nil {
		t.Fatal(err)
	}
	for g := int64(40); g < 60; g++ {
		row := rowOf(t, other, g)
		binary.LittleEndian.PutUint32(row, math.Float32bits(12345)^uint32(g))
		if err := other.shards[g%2].StoreRaw([]int32{int32(g / 2)}, row); err != nil {
			t.Fatal(err)
		}
	}
	b := saved(t, other, Save{Dir: t.TempDir(), Step: 7})
	c, err := Compare(a, b)
	if err != nil || c.Rows != 20 || c.Tables != 2 || c.Dense != 0 || len(c.First) != mostFirst ||
		c.First[0].Tensor != "one" || c.First[0].Row != 40 {
		t.Errorf("%+v, %v", c, err)
	}

	empty, drawn := newWorld(m, 2), newWorld(m, 1)
	defer empty.close()
	defer drawn.close()
	if err := drawn.shards[0].TouchAll(); err != nil { // writes nothing
		t.Fatal(err)
	}
	a, b = saved(t, empty, Save{Dir: t.TempDir(), Step: 7}), saved(t, drawn, Save{Dir: t.TempDir(), Step: 7})
	if c, err = Compare(a, b); err != nil || c.Rows != 0 {
		t.Errorf("untouched rows and rows that equal their init: %+v, %v", c, err)
	}
	m.Tables = m.Tables[:1]
	small := newWorld(m, 1)
	defer small.close()
	if _, err := Compare(a, saved(t, small, Save{Dir: t.TempDir(), Step: 7})); err == nil {
		t.Error("checkpoints of two models were compared")
	}
}
