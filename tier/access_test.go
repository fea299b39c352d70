package tier

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestAccess compares Access with the events that it stands for, on two policies. With slots in any order and twice, the same
// rows have the same bytes to be moved.
func TestAccess(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	spilled, refused := 0, 0
	for range 300 {
		o := Options{Slots: 1 + r.IntN(60), Window: 1, Step: r.Int64N(5)}
		o.Frames = 1 + r.IntN(o.Slots+3)
		if n := min(o.Slots, o.Frames); r.IntN(3) == 0 {
			first := r.IntN(o.Slots)
			o.Pinned = []Range{{int32(first), int32(min(o.Slots, first+r.IntN(n)))}}
		}
		a, err := New(o)
		b, err2 := New(o)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		logged := o.Step
		for step := o.Step + 1; step < o.Step+100; {
			slots := make([]int32, 0, o.Slots)
			for slot := range int32(o.Slots) {
				if r.IntN(o.Slots) < 5 {
					slots = append(slots, slot)
				}
			}
			writes := r.IntN(2) == 0
			var got, want Moves
			frames := make([]int32, len(slots))
			errA := a.Access(step, slots, frames, writes, &got)
			b.Expect(step, slots)
			errB := b.Hold(step, &want)
			if (errA == nil) != (errB == nil) {
				t.Fatalf("step %d: %v, want %v", step, errA, errB)
			}
			if errA != nil {
				ca, cb := new(CapacityError), new(CapacityError)
				if !errors.As(errA, &ca) || !errors.As(errB, &cb) || *ca != *cb {
					t.Fatalf("%v, want %v", errA, errB)
				}
				refused++
				break
			}
			if writes {
				b.Wrote(step, slots)
			}
			b.Release(step)
			if !slices.Equal(got.Spill, want.Spill) || !slices.Equal(got.Read, want.Read) || !slices.Equal(got.Draw, want.Draw) ||
				got.Dropped != want.Dropped {
				t.Fatalf("step %d: moves %+v, want %+v", step, got, want)
			}
			spilled += len(got.Spill)
			for i, slot := range slots {
				if f, ok := b.FrameOf(slot); !ok || f != frames[i] {
					t.Fatalf("step %d: slot %d is in frame %d, want %d", step, slot, frames[i], f)
				}
			}
			for slot := range int32(o.Slots) {
				fa, oka := a.FrameOf(slot)
				fb, okb := b.FrameOf(slot)
				if fa != fb && (oka || okb) || oka != okb || a.IsFresh(slot) != b.IsFresh(slot) {
					t.Fatalf("step %d: slot %d differs", step, slot)
				}
			}
			if r.IntN(6) == 0 {
				logged += r.Int64N(step - logged + 1)
				a.Logged(logged)
				b.Logged(logged)
			}
			step++
		}
	}
	if spilled == 0 || refused == 0 {
		t.Errorf("%d rows were spilled, %d accesses refused", spilled, refused)
	}
}

// TestAccessInAnyOrder: rows that are listed twice get one frame.
func TestAccessInAnyOrder(t *testing.T) {
	p, err := New(Options{Slots: 10, Frames: 3, Window: 1})
	if err != nil {
		t.Fatal(err)
	}
	var m Moves
	frames := make([]int32, 6)
	if err := p.Access(1, []int32{7, 2, 7, 5, 2, 7}, frames, true, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Draw) != 3 || frames[0] != frames[2] || frames[0] != frames[5] || frames[1] != frames[4] || frames[0] == frames[1] ||
		frames[3] == frames[0] {
		t.Fatalf("frames %d, %d rows drawn", frames, len(m.Draw))
	}
	p.Logged(1)
	if err := p.Access(2, []int32{1, 5, 1}, frames[:3], false, &m); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.FrameOf(7); ok || len(m.Spill) > 0 || m.Dropped != 1 { // it was listed first
		t.Fatalf("moves %+v; the first row is still there: %t", m, ok)
	}
	if err := p.Access(3, []int32{1, 2, 3, 4}, make([]int32, 4), false, &m); err == nil {
		t.Fatal("4 rows fit in 3 frames")
	}
	for _, slot := range []int32{1, 2, 5} { // nothing has changed
		if _, ok := p.FrameOf(slot); !ok {
			t.Errorf("row %d has left", slot)
		}
	}
}
