package tier

import (
	"cmp"
	"maps"
	"slices"
)

// twin decides as a Policy does, by looking at all rows for each decision.
type twin struct {
	o                                  Options
	window                             map[int64][]int32 // the slots of the steps that are not released
	released, heldTo, expected, logged int64
	rows                               map[int32]*twinRow // resident ones
	written                            map[int32]bool
	clock                              int
}

type twinRow struct {
	slot             int32
	changed, dirtyAt int64 // dirtyAt is 0 if it was not written since it was read
	kept             bool
	class            twinClass
	since            int // when it entered its class
}

// twinClass decides when a row leaves.
type twinClass struct {
	held, dirty bool
	next        int64 // 0: none
	kept        bool
}

func newTwin(o Options) *twin {
	return &twin{o: o, window: map[int64][]int32{}, released: o.Step, heldTo: o.Step, expected: o.Step, logged: o.Step,
		rows: map[int32]*twinRow{}, written: map[int32]bool{}}
}

func (w *twin) classOf(r *twinRow) (c twinClass) {
	c.dirty, c.kept = r.dirtyAt > w.logged, r.kept
	for s := w.released + 1; s <= w.expected; s++ {
		if !slices.Contains(w.window[s], r.slot) {
			continue
		}
		if s <= w.heldTo {
			return twinClass{held: true}
		}
		if c.next == 0 {
			c.next = s
		}
	}
	return c
}

func (w *twin) isPinned(slot int32) bool {
	return slices.ContainsFunc(w.o.Pinned, func(r Range) bool { return r.First <= slot && slot < r.End })
}

// settle gives rows their classes, and a place behind the others to each row whose class changed.
func (w *twin) settle(slots []int32) {
	for _, slot := range slots {
		r := w.rows[slot]
		if r == nil {
			continue
		}
		if c := w.classOf(r); c != r.class {
			w.clock++
			r.class, r.since = c, w.clock
		}
	}
}

// leavingList lists the rows that may leave, in their order.
func (w *twin) leaving() (all []*twinRow) {
	for _, r := range w.rows {
		if !r.class.held && !w.isPinned(r.slot) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *twinRow) int {
		if a.class.kept != b.class.kept {
			return map[bool]int{false: -1, true: 1}[a.class.kept]
		}
		if a.class.dirty != b.class.dirty {
			return map[bool]int{false: -1, true: 1}[a.class.dirty]
		}
		if a.class.next != b.class.next {
			if a.class.next == 0 {
				return -1
			}
			if b.class.next == 0 {
				return 1
			}
			return cmp.Compare(b.class.next, a.class.next)
		}
		return cmp.Compare(a.since, b.since)
	})
	return all
}

func (w *twin) expect(step int64, slots []int32) {
	w.window[step], w.expected = slots, step
	for _, slot := range slots {
		if r := w.rows[slot]; r != nil {
			r.kept = false
		}
	}
	w.settle(slots)
}

// hold returns the victims, the spilled victims, the rows that are read and the rows that are drawn. If the step does
// not fit, it returns the number of frames that it needs.
func (w *twin) hold(step int64) (victims, spilled, read, drawn []int32, needed int) {
	must := map[int32]bool{}
	for _, slot := range w.window[step] {
		must[slot] = true
	}
	for _, r := range w.rows {
		if r.class.held || w.isPinned(r.slot) {
			must[r.slot] = true
		}
	}
	if len(must) > w.o.Frames {
		return nil, nil, nil, nil, len(must)
	}
	w.heldTo = step
	w.settle(w.window[step])
	for _, slot := range w.window[step] {
		if w.rows[slot] != nil {
			continue
		}
		if len(w.rows) == w.o.Frames {
			v := w.leaving()[0]
			victims = append(victims, v.slot)
			if v.class.dirty {
				spilled = append(spilled, v.slot)
			}
			delete(w.rows, v.slot)
		}
		w.rows[slot] = &twinRow{slot: slot, changed: step, class: twinClass{held: true}}
		if w.written[slot] {
			read = append(read, slot)
		} else {
			drawn = append(drawn, slot)
		}
	}
	return victims, spilled, read, drawn, 0
}

func (w *twin) wrote(step int64, slots []int32) {
	for _, slot := range slots {
		w.written[slot] = true
		w.rows[slot].changed, w.rows[slot].dirtyAt = step, step
	}
}

func (w *twin) release(step int64) {
	w.released = step
	w.settle(w.window[step])
	delete(w.window, step)
}

func (w *twin) log(step int64) {
	w.logged = step
	w.settle(slotsOf(w.leaving()))
}

func (w *twin) cut(step int64, fresh []int32) {
	order := slotsOf(w.leaving())
	for s := w.released + 1; s <= w.heldTo; s++ {
		order = append(order, w.window[s]...)
	}
	clear(w.window)
	w.released, w.heldTo, w.expected, w.logged = step, step, step, step
	for _, r := range slices.Collect(maps.Values(w.rows)) {
		if r.changed > step {
			delete(w.rows, r.slot)
		}
		r.class.next = -1 // all rows change their class
		r.kept = false
	}
	for _, slot := range fresh {
		delete(w.written, slot)
	}
	w.settle(order)
}

// keep declares rows that are used soon. No step is expected.
func (w *twin) keep(slots []int32) {
	for _, slot := range slots {
		if r := w.rows[slot]; r != nil && !w.isPinned(slot) {
			r.kept, r.class.next = true, -1
			w.settle([]int32{slot})
		}
	}
}

func (w *twin) unkeep() {
	for _, r := range w.leaving() {
		if r.kept {
			r.kept = false
			w.settle([]int32{r.slot})
		}
	}
}

func slotsOf(rows []*twinRow) (slots []int32) {
	for _, r := range rows {
		slots = append(slots, r.slot)
	}
	return slots
}
