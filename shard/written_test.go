package shard

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestWrittenRows: the rows of a shard are those of its last full save, with the rows of each increment since in their
// place, although rows are read, written and rolled back, and saves fail.
func TestWrittenRows(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range 60 {
		h := shards(t, 2, 1)[1]
		if n%2 > 0 {
			h.OpenJournal(KeepRows, func() time.Duration { return 0 })
		}
		views := []*Shard{h, h.On(h.s)}
		change(t, r, views[0])
		h.ListWritten(false)
		saved, full := map[int][]byte{}, true // by slot; the next save is full
		for range 8 {
			for range r.IntN(4) {
				change(t, r, views[r.IntN(2)])
			}
			if j := h.Journal(); j != nil && r.IntN(3) == 0 {
				if err := h.Rollback(0); err != nil {
					t.Fatal(err)
				}
				full = true // as after a loss: rows may be their init again
			}
			p := h.Pin
			if !full && r.IntN(4) > 0 {
				p = h.PinWritten
			}
			failed := r.IntN(3) == 0
			next := maps.Clone(saved)
			if full {
				clear(next)
			}
			readPin(t, p(), failed, next)
			if r.IntN(2) == 0 {
				change(t, r, views[r.IntN(2)])
			}
			h.EndSave(failed)
			if failed {
				continue
			}
			saved, full = next, false
			readPin(t, h.PinWritten(), false, saved) // nothing may be missing now
			h.EndSave(false)
			want := stateOf(t, h)
			i, rows := 0, 0
			for slot := range h.count {
				if want.touched[slot/64]>>(slot%64)&1 == 0 {
					continue
				}
				if row := want.rows[i*h.RowBytes() : (i+1)*h.RowBytes()]; !slices.Equal(saved[slot], row) {
					t.Fatalf("slot %d is saved as %v, and is %v", slot, saved[slot], row)
				}
				i, rows = i+1, rows+1
			}
			if rows != len(saved) {
				t.Fatalf("%d rows are saved, and %d touched", len(saved), rows)
			}
		}
	}
}

// readPin reads the rows of a pin. A save that does not fail has them.
func readPin(t *testing.T, p *Pin, failed bool, saved map[int][]byte) {
	t.Helper()
	defer p.Close()
	for at := int64(0); ; {
		row := make([]byte, p.h.RowBytes())
		n, next, err := p.ReadTouched(row, at)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		if at = next; !failed {
			saved[int(next)-1] = row
		}
	}
}

// Rows that count as written keep their bytes and digest, and a pin has all of them.
func TestCountAsWritten(t *testing.T) {
	h := shards(t, 2, 1)[1]
	before := total(t, []*Shard{h})
	if n := len(stateOf(t, h).rows); n != 0 {
		t.Fatalf("%d bytes of rows were written at first", n)
	}
	if err := CountAsWritten(h); err != nil {
		t.Fatal(err)
	}
	if n, want := len(stateOf(t, h).rows), h.count*h.RowBytes(); n != want {
		t.Errorf("%d bytes of rows count as written, want %d", n, want)
	}
	if total(t, []*Shard{h}) != before {
		t.Error("the digest of the rows has changed")
	}
}

// TestFirstWrites writes random rows of a shard with a journal and of one without, among them rows that were never touched. Both have the
// same rows and digests, and each row that may differ from its init was touched.
func TestFirstWrites(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		with, without := shards(t, 2, 1)[1], shards(t, 2, 1)[1]
		with.OpenJournal([]Keep{KeepRows, KeepHashes}[r.IntN(2)], func() time.Duration { return 0 })
		for range 12 {
			again := r.Uint64()
			for _, h := range []*Shard{with, without} {
				update(t, rand.New(rand.NewPCG(again, 1)), h)
			}
			if r.IntN(3) == 0 {
				with.Journal().Seal()
			}
			if with.Journal().Sealed() > 0 && r.IntN(2) == 0 {
				with.Journal().Commit()
			}
			for i, word := range with.hold.differs {
				if word != without.hold.differs[i] || word&^with.touched[i] != 0 || word&^without.touched[i] != 0 {
					t.Fatalf("slots from %d: %x differ with a journal, %x without; touched %x, %x", 64*i, word, without.hold.differs[i],
						with.touched[i], without.touched[i])
				}
			}
			if total(t, []*Shard{with}) != total(t, []*Shard{without}) {
				t.Fatal("a journal changes the rows")
			}
		}
	}
}

// An epoch that was reset has written nothing, whether it wrote few rows or most.
func TestResetOfAnEpoch(t *testing.T) {
	for _, every := range []int{1, 3, 64, 1000, 5000} {
		e := &Epoch{wrote: make([]uint64, 1000)}
		for slot := 0; slot < 64*len(e.wrote); slot += every {
			e.Slots = append(e.Slots, int32(slot))
			setBit(e.wrote, int32(slot))
		}
		e.reset()
		for slot := range int32(64 * len(e.wrote)) {
			if _, ok := e.findSlot(slot); ok || len(e.Slots) > 0 {
				t.Fatalf("one slot in %d: slot %d is still written", every, slot)
			}
		}
	}
}
