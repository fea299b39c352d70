package tier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// story drives a policy step by step. All rows of a step are written.
type story struct {
	t *testing.T
	*Policy
	moves Moves
}

func newStory(t *testing.T, o Options) *story {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &story{t: t, Policy: p}
}

func (s *story) expectSteps(first int64, steps ...[]int32) {
	for i, slots := range steps {
		s.Expect(first+int64(i), slots)
	}
}

// train holds a step, which must move these rows, writes its rows and releases it.
func (s *story) train(step int64, slots []int32, draw, read, spill []int32, dropped int) {
	s.t.Helper()
	if err := s.Hold(step, &s.moves); err != nil {
		s.t.Fatal(err)
	}
	m := s.moves
	if !slices.Equal(rowSlots(m.Draw), draw) || !slices.Equal(rowSlots(m.Read), read) || !slices.Equal(rowSlots(m.Spill), spill) || m.Dropped != dropped {
		s.t.Fatalf("step %d: %+v; want draws %v, reads %v, spills %v, %d dropped", step, m, draw, read, spill, dropped)
	}
	s.Wrote(step, slots)
	s.Release(step)
}

// Clean rows without a next use leave first, the least recently used before others. Then the furthest next use decides. Dirty
// rows stay while there is a clean one.
func TestOrderOfVictims(t *testing.T) {
	steps := [][]int32{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {1, 2}, {0}, {8, 9}}
	s := newStory(t, Options{Slots: 10, Frames: 6, Window: 7})
	s.expectSteps(1, steps...)
	s.train(1, steps[0], []int32{0, 1}, nil, nil, 0)
	s.train(2, steps[1], []int32{2, 3}, nil, nil, 0)
	s.train(3, steps[2], []int32{4, 5}, nil, nil, 0)
	s.Logged(2)
	// Row 3 has no next use and is clean. Row 0 is used after rows 1 and 2. Rows 4 and 5 are dirty.
	s.train(4, steps[3], []int32{6, 7}, nil, nil, 2)
	for slot, want := range []bool{false, true, true, false, true, true, true, true, false, false} {
		if _, ok := s.FrameOf(int32(slot)); ok != want {
			t.Fatalf("row %d is resident: %t", slot, ok)
		}
	}
	s.train(5, steps[4], nil, nil, nil, 0)
	s.train(6, steps[5], nil, []int32{0}, []int32{4}, 0) // every row is dirty: the least recently used is spilled
	s.Logged(6)
	s.train(7, steps[6], []int32{8, 9}, nil, nil, 2) // rows 5 and 6
	for slot, want := range []bool{true, true, true, false, false, false, false, true, true, true} {
		if _, ok := s.FrameOf(int32(slot)); ok != want {
			t.Fatalf("row %d is resident: %t", slot, ok)
		}
	}
}

// Steps that are held ahead keep their rows until the last of them is released.
func TestHeldAhead(t *testing.T) {
	s := newStory(t, Options{Slots: 10, Frames: 4, Window: 4})
	s.expectSteps(1, []int32{0, 1}, []int32{0, 2}, []int32{0, 3}, []int32{4, 5})
	for step := range int64(3) {
		if err := s.Hold(step+1, &s.moves); err != nil {
			t.Fatal(err)
		}
	}
	var full *CapacityError
	err := s.Hold(4, &s.moves)
	if !errors.As(err, &full) || *full != (CapacityError{Step: 4, Needed: 6, Frames: 4}) {
		t.Fatalf("%v", err)
	}
	s.Release(1) // row 1 may leave, but row 0 is held by steps 2 and 3
	if err := s.Hold(4, &s.moves); !errors.As(err, &full) || full.Needed != 5 {
		t.Fatalf("%v", err)
	}
	s.Release(2)
	if err := s.Hold(4, &s.moves); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.FrameOf(0); !ok || s.moves.Dropped != 2 {
		t.Errorf("row 0 is held by step 3 and resident: %t, %d left", ok, s.moves.Dropped)
	}
}

func TestPinnedRowsStay(t *testing.T) {
	s := newStory(t, Options{Slots: 10, Frames: 4, Window: 2, Pinned: []Range{{2, 4}}})
	for step, slots := range [][]int32{{2, 3}, {0, 1}, {4, 5}, {6, 7}} {
		s.Expect(int64(step+1), slots)
		if err := s.Hold(int64(step+1), &s.moves); err != nil {
			t.Fatal(err)
		}
		s.Release(int64(step + 1))
	}
	for _, slot := range []int32{2, 3} {
		if _, ok := s.FrameOf(slot); !ok {
			t.Errorf("row %d left", slot)
		}
	}
	s.Expect(5, []int32{2, 8, 9})
	if err := s.Hold(5, &s.moves); err != nil {
		t.Error(err)
	}
	s.Release(5)
	s.Expect(6, []int32{2, 7, 8, 9})
	err := s.Hold(6, &s.moves)
	const want = "tier: step 6 needs 5 rows in memory, 1 of them pinned, but only 4 fit; raise store.dram_bytes or use smaller batches"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = New(Options{Slots: 10, Frames: 4, Window: 1, Pinned: []Range{{0, 2}, {3, 6}}})
	var full *CapacityError
	if !errors.As(err, &full) || full.Needed != 5 {
		t.Errorf("5 pinned rows in 4 frames: %v", err)
	}
}

// After a cut the rows that undone steps changed are read again. Fresh rows are drawn again, and the other rows are resident.
func TestCut(t *testing.T) {
	s := newStory(t, Options{Slots: 10, Frames: 10, Window: 3})
	steps := [][]int32{{0, 1, 2}, {2, 3}, {0, 4}}
	s.expectSteps(1, steps...)
	s.train(1, steps[0], []int32{0, 1, 2}, nil, nil, 0)
	s.Logged(1)
	s.train(2, steps[1], []int32{3}, nil, nil, 0)
	if err := s.Hold(3, &s.moves); err != nil {
		t.Fatal(err)
	}
	s.Cut(1, []int32{3})
	s.Expect(2, []int32{0, 1, 2, 3, 4})
	s.train(2, []int32{0, 1, 2, 3, 4}, []int32{3, 4}, []int32{2}, nil, 0)
}

func TestMisuseIsNoticed(t *testing.T) {
	for name, misuse := range map[string]func(*story){
		"slots must ascend":      func(s *story) { s.Expect(2, []int32{1, 1}) },
		"with a window of":       func(s *story) { s.expectSteps(2, nil, nil, nil) },
		"step 3 is expected":     func(s *story) { s.Expect(3, nil) },
		"step 3 is held":         func(s *story) { s.Expect(2, nil); _ = s.Hold(3, &s.moves) },
		"step 2 is held":         func(s *story) { _ = s.Hold(2, &s.moves) },
		"step 2 is released":     func(s *story) { s.Release(2) },
		"which is not held":      func(s *story) { s.Wrote(1, []int32{2}) },
		"writes of step 2":       func(s *story) { s.Wrote(2, nil) },
		"writes of step 1":       func(s *story) { s.Logged(1); s.Wrote(1, nil) },
		"step 2 is logged":       func(s *story) { s.Logged(2) },
		"cut to step 1":          func(s *story) { s.Cut(1, nil) },
		"was first written":      func(s *story) { s.Wrote(1, []int32{0}); s.Logged(1); s.Cut(1, []int32{0}) },
		"rows are kept":          func(s *story) { s.Keep(nil) },
		"invalid options":        func(*story) { _, _ = New(Options{Slots: 1, Frames: 1}) },
		"pinned slots 3 to 5":    func(*story) { _, _ = New(Options{Slots: 4, Frames: 9, Window: 1, Pinned: []Range{{3, 5}}}) },
		"pinned slots 1 to 3 fo": func(*story) { _, _ = New(Options{Slots: 4, Frames: 9, Window: 1, Pinned: []Range{{0, 2}, {1, 3}}}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t, Options{Slots: 4, Frames: 4, Window: 3})
			s.Expect(1, []int32{0, 1})
			if err := s.Hold(1, &s.moves); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, name) {
					t.Errorf("panic: %s", got)
				}
			}()
			misuse(s)
		})
	}
}

// newLongJob returns a function that does the next step of a long job, with every event. 64 steps take turns.
func newLongJob(slots, frames, rows, window, every int) (*Policy, func()) {
	r := rand.New(rand.NewPCG(1, 2))
	p, err := New(Options{Slots: slots, Frames: frames, Window: window})
	if err != nil {
		panic(err)
	}
	lists := make([][]int32, 64)
	for i := range lists {
		for range rows {
			u := r.Float64()
			lists[i] = append(lists[i], int32(u*u*u*u*float64(slots)))
		}
		slices.Sort(lists[i])
		lists[i] = slices.Compact(lists[i])
	}
	listOf := func(step int64) []int32 { return lists[step%int64(len(lists))] }
	for step := range int64(window) {
		p.Expect(step+1, listOf(step+1))
	}
	step, moves := int64(0), Moves{}
	return p, func() {
		step++
		if err := p.Hold(step, &moves); err != nil {
			panic(err)
		}
		p.Wrote(step, listOf(step))
		p.Release(step)
		if step%int64(every) == 0 {
			p.Logged(step)
		}
		p.Expect(step+int64(window), listOf(step+int64(window)))
	}
}

func TestNoStepAllocates(t *testing.T) {
	p, next := newLongJob(10_000, 2000, 300, 8, 4)
	for range 100 {
		next()
	}
	if n := testing.AllocsPerRun(100, next); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
	if n := unsafe.Sizeof(frame{}); n != 20 {
		t.Errorf("a frame has %d bytes, Bytes counts 20", n)
	}
	if most := int64(4*10_000 + 20*(2000+unordered+16) + 6*4096 + 16*8 + 4*1024); p.Bytes() > most {
		t.Errorf("%d bytes, more than %d", p.Bytes(), most)
	}
}

func BenchmarkStep(b *testing.B) {
	for _, window := range []int{1, 4, 50} {
		b.Run(fmt.Sprintf("window=%d", window), func(b *testing.B) {
			p, next := newLongJob(10_000_000, 640_000, 20_000, window, 10)
			for range 100 {
				next()
			}
			first := p.uses.end
			b.ResetTimer()
			for range b.N {
				next()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(p.uses.end-first), "ns/use")
		})
	}
}
