package shard

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// TestPacked runs the tests of shards with packed ones.
func TestPacked(t *testing.T) {
	inPacked = true
	defer func() { inPacked = false }()
	for name, test := range map[string]func(*testing.T){
		"Journal": TestJournal, "JournalOfHashes": TestJournalOfHashes, "DigestChange": TestDigestChange,
		"Pin": TestPin, "PinnedRowsAreNotSetWithoutARecord": TestPinnedRowsAreNotSetWithoutARecord,
		"InitIsAFunctionOfTheRow": TestInitIsAFunctionOfTheRow, "DigestDoesNotDependOnPlacement": TestDigestDoesNotDependOnPlacement,
		"StoreReplacesWeightsAndState": TestStoreReplacesWeightsAndState, "WholeRowsComeBack": TestWholeRowsComeBack,
		"OwnerWithoutRows": TestOwnerWithoutRows, "ReadDrawsARowOnce": TestReadDrawsARowOnce, "WrittenRows": TestWrittenRows,
		"CountAsWritten": TestCountAsWritten, "FirstWrites": TestFirstWrites, "ResetOfAnEpoch": TestResetOfAnEpoch,
		"DenseAdam": TestDenseAdam,
	} {
		t.Run(name, test)
	}
}

// checkPlaces checks the places of packed rows: a row has one if and only if it was touched, only rows that may differ from their inits
// have differsMark, and the epochs of the journal have the places of their rows.
func checkPlaces(t *testing.T, h *Shard) {
	t.Helper()
	if h.packed == nil {
		return
	}
	for slot := range int32(h.Slots()) {
		if has := h.packed.places[slot] != 0; has != isSet(h.touched, slot) {
			t.Fatalf("slot %d has a place: %v, was touched: %v", slot, has, !has)
		}
		if h.packed.isMarked(slot) && !isSet(h.hold.differs, slot) {
			t.Fatalf("slot %d has the mark of rows that differ from their inits", slot)
		}
	}
	if h.journal == nil || h.journal.keep != KeepRows {
		return
	}
	for _, e := range h.journal.allEpochs() {
		if len(e.where) != len(e.Slots) || len(e.drawn) != len(e.Slots) {
			t.Fatalf("an epoch of %d rows has %d places, and notes of %d rows", len(e.Slots), len(e.where), len(e.drawn))
		}
		for i, slot := range e.Slots {
			if got := h.packed.placeOf(slot); got != int(e.where[i]) {
				t.Fatalf("slot %d is at %d, in its epoch at %d", slot, got, e.where[i])
			}
		}
	}
}

// TestSorted sorts slots of all lengths in bits.
func TestSorted(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for length := range 32 {
		for _, n := range []int{0, 1, 500} {
			e := &Epoch{}
			for len(e.Slots) < n {
				e.Slots = append(e.Slots, int32(r.Int64N(1<<length)))
			}
			slots, places := e.Sorted([]int32{-1}, nil)
			if want := slices.Sorted(slices.Values(e.Slots)); slots[0] != -1 || !slices.Equal(slots[1:], want) {
				t.Fatalf("%d slots below 2^%d are not sorted: %v", n, length, slots)
			}
			for i, place := range places {
				if e.Slots[place] != slots[1+i] {
					t.Fatalf("slot %d of %d below 2^%d is not at place %d", slots[1+i], n, length, place)
				}
			}
			if len(places) != n {
				t.Fatalf("%d slots have %d places", n, len(places))
			}
		}
	}
}

// Packed rows are at the beginning of the memory, in the order of their first use. Rows that are only peeked at have no place, and after Reset none has.
func TestPlaces(t *testing.T) {
	inPacked = true
	defer func() { inPacked = false }()
	h := shards(t, 1, 1)[0]
	_, dst := matrix(3)
	for _, slots := range [][]int32{{400, 7, 70}, {7, 3, 400}} {
		if err := h.Peek(dst, []int32{1, 2, slots[0]}); err != nil {
			t.Fatal(err)
		}
		if err := h.Read(dst, slots); err != nil {
			t.Fatal(err)
		}
	}
	for place, slot := range []int32{400, 7, 70, 3} {
		if got := h.packed.placeOf(slot); got != place {
			t.Errorf("slot %d is at %d, not %d", slot, got, place)
		}
	}
	if h.packed.used != 4 {
		t.Errorf("%d places are taken, not 4", h.packed.used)
	}
	h.Reset()
	if err := h.Read(dst, []int32{3, 3, 3}); err != nil {
		t.Fatal(err)
	}
	if h.packed.used != 1 || h.packed.placeOf(3) != 0 {
		t.Errorf("after Reset and a read of a row, %d places are taken", h.packed.used)
	}
}

// Bytes that are stored, in any order, are those that are read in the order of slots, also with memory that was taken ahead.
func TestStoredBytesOfPackedRows(t *testing.T) {
	inPacked = true
	defer func() { inPacked = false }()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	h := shards(t, 1, 1)[0]
	stride, want := h.RowBytes(), map[int32][]byte{}
	for range 30 {
		var slots []int32
		for slot := range int32(h.Slots()) {
			if r.IntN(8) == 0 {
				slots = append(slots, slot)
			}
		}
		h.Populate(r.Int64N(h.Slots()), 1, r.IntN(200)) // past the last row too
		rows := make([]byte, len(slots)*stride)
		for i := range rows {
			rows[i] = byte(r.Uint32())
		}
		if err := h.StoreRaw(slots, rows); err != nil {
			t.Fatal(err)
		}
		for i, slot := range slots {
			want[slot] = rows[i*stride : (i+1)*stride]
		}
		if r.IntN(4) == 0 {
			first, n := int32(r.IntN(500)), 1+r.IntN(70)
			weights, m := matrix(n)
			for i := range weights {
				weights[i] = r.Float32()
			}
			if err := h.Store(int64(first), m); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				row := make([]byte, stride)
				copy(row, kernels.BytesOf(weights[i*width:(i+1)*width]))
				want[first+int32(i)] = row
			}
		}
	}
	all := make([]byte, int(h.Slots())*stride)
	n, _, err := h.ReadTouched(all, 0)
	if err != nil || n != len(want) {
		t.Fatalf("%d rows are read, not %d; %v", n, len(want), err)
	}
	slots := make([]int32, 0, n)
	for slot := range want {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	for i, slot := range slots {
		if !slices.Equal(all[i*stride:(i+1)*stride], want[slot]) {
			t.Fatalf("the bytes of slot %d are not those that were stored", slot)
		}
	}
}
