package lrpp

// expectation is the rows of an owner that the next steps use.
type expectation struct {
	after *Step     // given to Expect
	lists [][]int32 // for the next delayed work
}

// Expect declares the step that follows the next one of the coming Begin, nil if it is unknown. If some rows of this owner are on a disk,
// the rows of these steps leave memory last, and are read in the background.
func (x *Exchange) Expect(after *Step) { x.expected.after = after }

// Expect is as in Exchange.
func (c *Cache) Expect(after *Step) { c.x.Expect(after) }

// listRows lists the rows of this owner that a step and the two after it use, as far as they are known. If all rows are in memory, it lists
// none.
func (x *Exchange) listRows(st, next *Step) {
	e := &x.expected
	if x.shard.Frames() > 0 {
		for _, s := range []*Step{st, next, e.after} {
			if s != nil {
				e.lists = s.appendOwned(e.lists)
			}
		}
	}
	e.after = nil
}

// takeLists returns the lists, once.
func (e *expectation) takeLists() [][]int32 {
	lists := e.lists
	e.lists = nil
	return lists
}

// appendOwned appends the lists of this owner's rows that a step reads or writes, in the order of their uses.
func (st *Step) appendOwned(lists [][]int32) [][]int32 {
	if c := st.cache; c != nil {
		return append(lists, c.evictForRoom.slots, c.early.slots, c.critical.slots, c.evictNow.slots, c.evictLater.slots)
	}
	return append(lists, st.Owned)
}
