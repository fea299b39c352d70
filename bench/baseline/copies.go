package baseline

import "slices"

// Replicated plans the steps of a cache that all ranks have a copy of: see the package doc.
func Replicated(s *Stream, steps, lookahead int) *Program {
	p, w := &Program{Ranks: s.Place.Owners}, newWindow(s, lookahead)
	for t := range steps {
		uses := w.nextUses(t)
		all := usersOf(uses)
		var fetched []move
		for _, g := range all.rows {
			if _, ok := w.placed[g]; ok {
				continue
			}
			owner, slot := s.ownerOf(g)
			at := placed{owner, w.slots[0].takeSlot()} // one slot for the copies of all ranks
			w.placed[g] = at
			for r := range p.Ranks {
				fetched = append(fetched, move{from: owner, to: r, sends: slot, becomes: at.slot})
			}
		}
		step := p.addParts(planParts(uses, func(int32) (int, int32) { return -1, 0 }), (*Part).groupRows)
		addCopies(step, uses, all.rows, func(g int32) int32 { return w.placed[g].slot })
		evicted := w.evictUnused(&all, t)
		for i := range w.leaving[1] {
			w.leaving[1][i].rank = 0
		}
		for r, m := range planMoves(p.Ranks, fetched) {
			step[r].Fetch = m
		}
		for r, m := range planMoves(p.Ranks, evicted) {
			step[r].Evict = m
		}
	}
	p.endStores(w)
	return p
}

// addCopies adds the copies of a step. rows lists them, ascending.
func addCopies(step []Step, uses [][]int32, rows []int32, slotOf func(g int32) int32) {
	summed := make([]int32, len(rows))
	for i, g := range rows {
		summed[i] = slotOf(g)
	}
	for r := range step {
		st := &step[r]
		st.Summed, st.Mine = summed, slices.Repeat([]int32{-1}, len(rows))
		for u, g := range uses[r] {
			if i, ok := slices.BinarySearch(rows, g); ok {
				st.Copied, st.CopySlots = append(st.Copied, int32(u)), append(st.CopySlots, summed[i])
				st.Mine[i] = int32(u)
			}
		}
	}
}

// StaticHot plans steps with copies of fixed rows: see the package doc. hot lists them, ascending.
func StaticHot(s *Stream, steps int, hot []int32) *Program {
	p := &Program{Ranks: s.Place.Owners, StoreRows: len(hot)}
	var load, final []move
	for i, g := range hot {
		owner, slot := s.ownerOf(g)
		for r := range p.Ranks {
			load = append(load, move{from: owner, to: r, sends: slot, becomes: int32(i)})
		}
		final = append(final, move{from: owner, to: owner, sends: int32(i), becomes: slot})
	}
	p.Final = planMoves(p.Ranks, final)
	for t := range steps {
		uses := s.usesOf(t)
		all := usersOf(uses)
		used := slices.DeleteFunc(slices.Clone(all.rows), func(g int32) bool { return !isHot(hot, g) })
		step := p.addParts(planParts(uses, func(g int32) (int, int32) {
			if isHot(hot, g) {
				return -1, 0
			}
			return s.ownerOf(g)
		}), (*Part).groupRows)
		addCopies(step, uses, used, func(g int32) int32 {
			i, _ := slices.BinarySearch(hot, g)
			return int32(i)
		})
		if t == 0 {
			for r, m := range planMoves(p.Ranks, load) {
				step[r].Fetch = m
			}
		}
	}
	return p
}

func isHot(hot []int32, g int32) bool {
	_, ok := slices.BinarySearch(hot, g)
	return ok
}

// None plans the steps of cache mode "none": the check of an Exchange.
func None(s *Stream, steps int) *Program { return StaticHot(s, steps, nil) }

// Hottest returns the k rows with the most lookups, ascending; of equals, the first ones. Rows without lookups are never hot.
func Hottest(lookups []int32, k int) []int32 {
	keys := make([]uint64, 0, len(lookups))
	for g, n := range lookups {
		if n > 0 {
			keys = append(keys, uint64(^uint32(n))<<32|uint64(g))
		}
	}
	slices.Sort(keys)
	hot := make([]int32, min(k, len(keys)))
	for i := range hot {
		hot[i] = int32(uint32(keys[i]))
	}
	slices.Sort(hot)
	return hot
}
