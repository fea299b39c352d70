package oracle

import (
	"math"
	"testing"
)

// TestMostLookahead checks that a window which looks as far ahead as it may has at most so many uses, and not many fewer.
func TestMostLookahead(t *testing.T) {
	for _, rows := range []int{1, 64, 100, 500} {
		const most = 1 << 15
		ahead, perStep := mostLookahead(most, int64(rows)), (rows+63)/64*64
		w := NewWindow(WindowOptions{Trainers: 1, Lookahead: ahead})
		slots, start, pos := make([]int32, rows), make([]int32, rows+1), make([]int32, rows)
		for i := range rows {
			slots[i], start[i+1], pos[i] = int32(i), int32(i+1), int32(i)
		}
		kept, d := 0, Decisions{}
		for range 4 * ahead {
			for !w.Ready() {
				w.Add(slots, start, pos, []int{rows})
			}
			if err := w.Next(&d); err != nil {
				t.Fatal(err)
			}
			kept = max(kept, int(w.uses.end-w.stepAt(w.next-1).oldest))
		}
		if kept > most || kept <= most-2*perStep {
			t.Errorf("%d rows in a step, %d steps ahead: %d uses, want %d at most, and more than %d", rows, ahead, kept, most, most-2*perStep)
		}
	}
	for rows, want := range map[int64]int{0: MaxLookahead, 1: MaxLookahead, 1 << 22: 127, 1 << 30: 1, math.MaxInt32: 1} {
		if got := MostLookahead(rows); got != want {
			t.Errorf("%d rows in a step: %d steps ahead, want %d", rows, got, want)
		}
	}
}

// TestManyTrainers plans steps of as many trainers as there may be: the last one holds a row alone, and all share another.
func TestManyTrainers(t *testing.T) {
	w := NewWindow(WindowOptions{Trainers: MaxTrainers, Self: -1, Lookahead: 1})
	perTrainer, pos := make([]int, MaxTrainers), make([]int32, MaxTrainers+1)
	for q := range perTrainer { // slot 5 is used by all, slot 9 by the last
		perTrainer[q], pos[q] = 1, int32(q)
	}
	perTrainer[MaxTrainers-1], pos[MaxTrainers] = 2, MaxTrainers
	for range 3 {
		w.Add([]int32{5, 9}, []int32{0, MaxTrainers, MaxTrainers + 1}, pos, perTrainer)
	}
	w.End()
	for w.Ready() {
		var d Decisions
		if err := w.Next(&d); err != nil {
			t.Fatal(err)
		}
		if d.Holder[0] != Shared || d.Holder[1] != MaxTrainers-1 || d.By[MaxTrainers] != MaxTrainers-1 {
			t.Errorf("step %d: holders %v, the second row is used by %d", d.Step, d.Holder, d.By[MaxTrainers])
		}
	}
}
