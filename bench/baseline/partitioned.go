package baseline

// Partitioned plans the steps of a cache that has one home for each row: see the package doc. The home of a row is one of the ranks
// that use it first; it fetches the row from its owner before that step, and returns it after the last use that the lookahead shows.
func Partitioned(s *Stream, steps, lookahead int) *Program {
	p, w := &Program{Ranks: s.Place.Owners, InStore: true}, newWindow(s, lookahead)
	for t := range steps {
		uses := w.nextUses(t)
		all := usersOf(uses)
		fetched := w.placeNew(&all)
		step := p.addParts(planParts(uses, func(g int32) (int, int32) {
			at := w.placed[g]
			return at.rank, at.slot
		}), (*Part).groupRows)
		evicted := w.evictUnused(&all, t)
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

// placeNew chooses the homes of the rows that have none.
func (w *window) placeNew(all *users) (fetched []move) {
	for i, g := range all.rows {
		if _, ok := w.placed[g]; ok {
			continue
		}
		owner, slot := w.stream.ownerOf(g)
		home := homeAmong(all.of(i), slot)
		at := placed{home, w.slots[home].takeSlot()}
		w.placed[g] = at
		fetched = append(fetched, move{from: owner, to: home, sends: slot, becomes: at.slot})
	}
	return fetched
}

// homeAmong is the home of a row among the ranks that use it first.
func homeAmong(by []uint16, slot int32) int { return int(by[int(slot)%len(by)]) }

// evictUnused returns the rows to their owners that the window has no further use of.
func (w *window) evictUnused(all *users, step int) (evicted []move) {
	for _, g := range all.rows {
		if !w.isLastUse(g, step) {
			continue
		}
		at := w.placed[g]
		delete(w.placed, g)
		owner, slot := w.stream.ownerOf(g)
		evicted = append(evicted, move{from: at.rank, to: owner, sends: at.slot, becomes: slot})
		w.leaving[1] = append(w.leaving[1], at)
	}
	w.evicted = evicted
	return evicted
}

// endStores plans the return of all rows that are left, those evicted after the last step among them, and sets the size of stores.
func (p *Program) endStores(w *window) {
	left := w.evicted
	for g := range w.last { // in the order of rows, not of the map
		if at, ok := w.placed[int32(g)]; ok {
			owner, slot := w.stream.ownerOf(int32(g))
			left = append(left, move{from: at.rank, to: owner, sends: at.slot, becomes: slot})
		}
	}
	p.Final = planMoves(p.Ranks, left)
	for _, c := range w.slots {
		p.StoreRows = max(p.StoreRows, int(c.end))
	}
}
