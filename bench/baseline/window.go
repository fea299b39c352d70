package baseline

import "slices"

// window has the rows that the next steps use: a row stays where it is while one of them does, as in package oracle.
type window struct {
	stream    *Stream
	lookahead int
	filled    int           // steps that are in last
	last      []int32       // of each row: the last step of the window that uses it, -1 for none
	known     [][][]int32   // uses of the steps from now on
	slots     []slotCounter // of each rank's store
	placed    map[int32]placed
	// leaving are the places of rows evicted after the last two steps. Rows of the next step arrive before those of the step
	// before this one leave, so that a place is free for the step after it.
	leaving [2][]placed
	evicted []move // after the last step
}

// placed is where a row is that is not at its owner.
type placed struct {
	rank int
	slot int32
}

// slotCounter hands out the slots of a store.
type slotCounter struct {
	free []int32
	end  int32
}

func (c *slotCounter) takeSlot() int32 {
	if n := len(c.free); n > 0 {
		slot := c.free[n-1]
		c.free = c.free[:n-1]
		return slot
	}
	c.end++
	return c.end - 1
}

func newWindow(s *Stream, lookahead int) *window {
	w := &window{stream: s, lookahead: lookahead, last: make([]int32, s.Place.Rows()), slots: make([]slotCounter, s.Place.Owners),
		placed: map[int32]placed{}}
	for g := range w.last {
		w.last[g] = -1
	}
	return w
}

// nextUses returns the uses of a step by rank. Steps follow each other.
func (w *window) nextUses(step int) [][]int32 {
	for _, at := range w.leaving[0] {
		w.slots[at.rank].free = append(w.slots[at.rank].free, at.slot)
	}
	w.leaving = [2][]placed{w.leaving[1], nil}
	for ; w.filled <= step+w.lookahead && w.filled < w.stream.Steps; w.filled++ {
		uses := w.stream.usesOf(w.filled)
		for _, list := range uses {
			for _, g := range list {
				w.last[g] = int32(w.filled)
			}
		}
		w.known = append(w.known, uses)
	}
	uses := w.known[0]
	w.known = w.known[1:]
	return uses
}

// isLastUse reports whether no step of the window after a step uses a row.
func (w *window) isLastUse(g int32, step int) bool { return w.last[g] <= int32(step) }

// users are the rows of a step, ascending, with the ranks that use each, ascending.
type users struct {
	rows  []int32
	start []int32
	by    []uint16
}

// usersOf transposes the uses of a step.
func usersOf(uses [][]int32) (u users) {
	var keys []uint64
	for r, list := range uses {
		for _, g := range list {
			keys = append(keys, uint64(g)<<16|uint64(r))
		}
	}
	slices.Sort(keys)
	for i, k := range keys {
		if g := int32(k >> 16); len(u.rows) == 0 || u.rows[len(u.rows)-1] != g {
			u.rows, u.start = append(u.rows, g), append(u.start, int32(i))
		}
		u.by = append(u.by, uint16(k))
	}
	u.start = append(u.start, int32(len(keys)))
	return u
}

func (u *users) of(i int) []uint16 { return u.by[u.start[i]:u.start[i+1]] }
