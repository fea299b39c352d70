package store

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestHeldEpochs: epochs that are held end as one with the newest value of each row. Their memory is less than twice that of the distinct
// rows, and each row is copied a logarithmic number of times.
func TestHeldEpochs(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	const rowBytes, rows, epochs, each = 8, 20_000, 400, 200
	var h heldEpochs
	newest, added, copied := map[int32]uint64{}, 0, 0
	released := func(*epoch) {}
	for step := range epochs {
		e := &epoch{step: int64(step)}
		for range each {
			e.slots = append(e.slots, r.Int32N(rows))
		}
		slices.Sort(e.slots)
		e.slots = slices.Compact(e.slots)
		for _, slot := range e.slots {
			value := uint64(step)<<32 | uint64(slot)
			newest[slot] = value
			e.rows = binary.LittleEndian.AppendUint64(e.rows, value)
		}
		added += len(e.slots)
		h.addEpoch(e, rowBytes, func(*epoch) { copied += len(h[len(h)-1].slots) }) // of the merged one
		total := 0
		for _, x := range h {
			total += len(x.slots)
		}
		if total >= 2*len(newest)+each {
			t.Fatalf("after %d epochs %d rows are held, of %d distinct ones", step+1, total, len(newest))
		}
	}
	if most := float64(added) * (1 + math.Log2(rows/each)); float64(copied) > most {
		t.Errorf("%d rows were copied for %d that were added, more than %.0f", copied, added, most)
	}
	e := h.takeAll(rowBytes, released)
	if e.step != epochs-1 || len(e.slots) != len(newest) || !slices.IsSorted(e.slots) || h.takeAll(rowBytes, released) != nil {
		t.Fatalf("step %d with %d rows, want %d with %d", e.step, len(e.slots), epochs-1, len(newest))
	}
	for i, slot := range e.slots {
		if value := binary.LittleEndian.Uint64(e.rows[i*rowBytes:]); value != newest[slot] {
			t.Fatalf("slot %d: the value of step %d, want %d", slot, value>>32, newest[slot]>>32)
		}
	}
}

// TestBeginForgets: a seal before a return to an older step is no reason to append all rows again after a loss: epochs that are held would
// replace newer rows.
func TestBeginForgets(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(1, 1)))
	s := m.open()
	defer s.Close()
	s.Begin(0, true)
	s.allAt = 200
	s.Begin(100, false)
	s.Roll(110)
	if s.all {
		t.Error("all rows are appended again")
	}
}

// TestSpareEpochs: epochs whose memory is used again are few, and have that of one epoch each, however often epochs were held and merged.
func TestSpareEpochs(t *testing.T) {
	const rowBytes, each = 8, 100
	var spare []*epoch
	release := func(e *epoch) { spare = addSpare(spare, e) }
	step := int32(0)
	for range 20 { // outages
		var h heldEpochs
		for range 50 {
			e := new(epoch)
			if n := len(spare); n > 0 {
				e, spare = spare[n-1], spare[:n-1]
			}
			if len(e.slots)+len(e.rows)+len(e.extra) > 0 || e.wide || e.held {
				t.Fatalf("an epoch that is used again has contents: %+v", e)
			}
			for i := range int32(each) {
				e.slots = append(e.slots, step*each+i)
			}
			e.rows = append(e.rows, make([]byte, rowBytes*each)...)
			e.step = int64(step)
			h.addEpoch(e, rowBytes, release)
			step++
		}
		e := h.takeAll(rowBytes, release)
		if len(e.slots) != 50*each {
			t.Fatalf("%d rows, want %d", len(e.slots), 50*each)
		}
		release(e)
	}
	if len(spare) > mostSpare {
		t.Errorf("%d epochs keep their memory", len(spare))
	}
	for _, e := range spare {
		if cap(e.rows) > 2*rowBytes*each {
			t.Errorf("an epoch keeps %d bytes of rows, those of an epoch are %d", cap(e.rows), rowBytes*each)
		}
	}
}
