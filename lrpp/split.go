package lrpp

import (
	"slices"

	"github.com/ecrec/ecrec/oracle"
)

// The lists of a step have millions of entries if its samples have many ids. They are split in
// segments, on the threads of the planner: a first pass counts the entries of each class in each
// segment, which gives the places of the segment's entries in all lists.

// classifyRows computes the classes of Owned and Requested from the lists of the
// neighbouring steps, which are nil if there is none. Each class has the bits of always.
func (st *Step) classifyRows(x splitter, prev, next *Step, always class) {
	c := &st.class
	c.owned, c.requested = resize(c.owned, len(st.Owned)), resize(c.requested, len(st.Requested))
	c.ofOwned = x.cut(c.ofOwned, len(st.Owned))
	x.run(c.ofOwned, func(g *segment) {
		classes, slots := c.owned[g.first:g.end], st.Owned[g.first:g.end]
		clear(classes)
		markUses(classes, slots, prev, usedBefore)
		markUses(classes, slots, next, usedAfter)
		for i := range classes {
			classes[i] |= always
			k, o := classes[i], g.first+i
			from, to := st.OwnedStart[o], st.OwnedStart[o+1]
			g.rows[k]++
			g.positions[k] += to - from
			for _, p := range st.OwnedPos[from:to] {
				c.requested[p] = k
			}
		}
	})
}

// markUses sets bit in the classes of those slots that a step uses, if there is one.
func markUses(classes []class, slots []int32, by *Step, bit class) {
	if by != nil {
		first, _ := slices.BinarySearch(by.Owned, slots[0])
		oracle.MarkCommon(classes, slots, by.Owned[first:], bit)
	}
}

// splitLists derives Early, Late, Now and Later from the classes.
func (st *Step) splitLists(x splitter) {
	st.countClasses(x)
	rows, cells := placeSegments(st.class.ofMine)
	st.Early.rows, st.Late.rows = int(sumOf(rows, usedBefore, 0)), int(sumOf(rows, usedBefore, usedBefore))
	st.Now.sizeSums(int(sumOf(rows, usedAfter, usedAfter)), int(sumOf(cells, usedAfter, usedAfter)), len(st.Plan.Factors) > 0)
	st.Later.sizeSums(int(sumOf(rows, usedAfter, 0)), int(sumOf(cells, usedAfter, 0)), len(st.Plan.Factors) > 0)
	st.class.at = resize(st.class.at, len(st.Plan.Slots))
	x.run(st.class.ofMine, st.splitMine)
	st.Index = resize(st.Index, len(st.Plan.Index))
	st.class.ofIndex = x.cut(st.class.ofIndex, len(st.Index))
	x.run(st.class.ofIndex, func(g *segment) {
		lookUp(st.Index[g.first:g.end], st.class.at, st.Plan.Index[g.first:g.end])
	})

	sent, _ := placeSegments(st.class.ofRequested)
	st.Early.Slots = resize(st.Early.Slots, int(sumOf(sent, usedBefore, 0)))
	st.Late.Slots = resize(st.Late.Slots, int(sumOf(sent, usedBefore, usedBefore)))
	st.Now.received, st.Later.received = int(sumOf(sent, usedAfter, usedAfter)), int(sumOf(sent, usedAfter, 0))
	st.class.received = resize(st.class.received, len(st.Requested))
	x.run(st.class.ofRequested, st.splitRequested)
	owned, grads := placeSegments(st.class.ofOwned)
	st.Now.sizeUpdates(int(sumOf(owned, usedAfter, usedAfter)), int(sumOf(grads, usedAfter, usedAfter)))
	st.Later.sizeUpdates(int(sumOf(owned, usedAfter, 0)), int(sumOf(grads, usedAfter, 0)))
	x.run(st.class.ofOwned, st.splitOwned)
	st.splitBefore()
}

// countClasses counts the rows of each class, in each segment and of each rank and owner.
func (st *Step) countClasses(x splitter) {
	c, start := &st.class, st.Plan.Start
	c.ofMine, c.ofRequested = x.cut(c.ofMine, st.PerOwner...), x.cut(c.ofRequested, st.PerRank...)
	x.run(c.ofMine, func(g *segment) {
		for i, k := range c.mine[g.first:g.end] {
			u := g.first + i
			g.rows[k&(classValues-1)]++
			g.positions[k&(classValues-1)] += start[u+1] - start[u]
		}
	})
	x.run(c.ofRequested, func(g *segment) {
		for _, k := range c.requested[g.first:g.end] {
			g.rows[k&(classValues-1)]++
		}
	})
	for _, l := range []struct {
		counts    *[]int
		of        []segment
		mask, bit class
	}{
		{&st.Early.PerOwner, c.ofMine, usedBefore, 0}, {&st.Late.PerOwner, c.ofMine, usedBefore, usedBefore},
		{&st.Later.PerOwner, c.ofMine, usedAfter, 0}, {&st.Now.PerOwner, c.ofMine, usedAfter, usedAfter},
		{&st.Early.PerRank, c.ofRequested, usedBefore, 0}, {&st.Late.PerRank, c.ofRequested, usedBefore, usedBefore},
		{&st.Later.PerRank, c.ofRequested, usedAfter, 0}, {&st.Now.PerRank, c.ofRequested, usedAfter, usedAfter},
	} {
		*l.counts = resize(*l.counts, len(st.PerRank))
		clear(*l.counts)
		for i := range l.of {
			(*l.counts)[l.of[i].of] += int(sumOf(l.of[i].rows, l.mask, l.bit))
		}
	}
}

// sizeSums makes room for the rows of a requester and their cells.
func (p *Push) sizeSums(rows, cells int, weighted bool) {
	p.Start, p.Pos, p.Factors = resize(p.Start, rows+1), resize(p.Pos, cells), p.Factors[:0]
	if weighted {
		p.Factors = resize(p.Factors, cells)
	}
	p.Start[0] = 0
}

// sizeUpdates makes room for the rows of an owner and their gradients.
func (p *Push) sizeUpdates(rows, grads int) {
	p.Slots, p.SlotStart, p.SlotPos = resize(p.Slots, rows), resize(p.SlotStart, rows+1), resize(p.SlotPos, grads)
	p.SlotStart[0] = 0
}

// splitMine numbers the rows of a segment of this rank's plan anew, and lists their cells.
func (st *Step) splitMine(g *segment) {
	c, plan := &st.class, &st.Plan
	early, late := sumOf(g.rows, usedBefore, 0), int32(st.Early.rows)+sumOf(g.rows, usedBefore, usedBefore) // late rows follow all early ones
	now := pushing{&st.Now, sumOf(g.rows, usedAfter, usedAfter), sumOf(g.positions, usedAfter, usedAfter)}
	later := pushing{&st.Later, sumOf(g.rows, usedAfter, 0), sumOf(g.positions, usedAfter, 0)}
	for i, k := range c.mine[g.first:g.end] {
		u := g.first + i
		if k&usedBefore == 0 {
			c.at[u] = early
			early++
		} else {
			c.at[u] = late
			late++
		}
		to := &later
		if k&usedAfter != 0 {
			to = &now
		}
		from, end := plan.Start[u], plan.Start[u+1]
		copyShort(to.Pos[to.at:], plan.Pos[from:end])
		if len(plan.Factors) > 0 {
			copy(to.Factors[to.at:], plan.Factors[from:end])
		}
		to.at += end - from
		to.row++
		to.Start[to.row] = to.at
	}
}

// pushing is the place of the next row in the lists of a Push.
type pushing struct {
	*Push
	row, at int32
}

// copyShort copies a list that mostly has one or two entries, for which a call costs more than they do.
func copyShort(to, from []int32) {
	switch len(from) {
	case 1:
		to[0] = from[0]
	case 2:
		to[0], to[1] = from[0], from[1]
	default:
		copy(to, from)
	}
}

// lookUp sets to[i] to list[at[i]].
//
//go:noinline
func lookUp(to, list, at []int32) {
	to = to[:len(at)]
	for i, u := range at {
		to[i] = list[u]
	}
}

// splitRequested lists the slots of a segment of the requests, and numbers their gradients anew.
func (st *Step) splitRequested(g *segment) {
	c := &st.class
	early, late := sumOf(g.rows, usedBefore, 0), sumOf(g.rows, usedBefore, usedBefore)
	now, later := sumOf(g.rows, usedAfter, usedAfter), sumOf(g.rows, usedAfter, 0)
	for i, k := range c.requested[g.first:g.end] {
		slot := st.Requested[g.first+i]
		if k&usedBefore == 0 {
			st.Early.Slots[early] = slot
			early++
		} else {
			st.Late.Slots[late] = slot
			late++
		}
		if k&usedAfter == 0 {
			c.received[g.first+i] = later
			later++
		} else {
			c.received[g.first+i] = now
			now++
		}
	}
}

// splitOwned lists the slots of a segment of this owner's rows, and their gradients.
func (st *Step) splitOwned(g *segment) {
	c := &st.class
	now := pushing{&st.Now, sumOf(g.rows, usedAfter, usedAfter), sumOf(g.positions, usedAfter, usedAfter)}
	later := pushing{&st.Later, sumOf(g.rows, usedAfter, 0), sumOf(g.positions, usedAfter, 0)}
	for i, k := range c.owned[g.first:g.end] {
		to, o := &later, g.first+i
		if k&usedAfter != 0 {
			to = &now
		}
		to.Slots[to.row] = st.Owned[o]
		for _, p := range st.OwnedPos[st.OwnedStart[o]:st.OwnedStart[o+1]] {
			to.SlotPos[to.at] = c.received[p]
			to.at++
		}
		to.row++
		to.SlotStart[to.row] = to.at
	}
}

// splitBefore lists the steps before of all rows, if they are checked.
func (st *Step) splitBefore() {
	st.Early.before, st.Late.before, st.Now.before, st.Later.before = nil, nil, nil, nil
	if st.before == nil {
		return
	}
	for i, b := range st.beforeRequested() {
		f := &st.Early
		if st.class.requested[i]&usedBefore != 0 {
			f = &st.Late
		}
		f.before = append(f.before, b)
	}
	for o, b := range st.before {
		p := &st.Later
		if st.class.owned[o]&usedAfter != 0 {
			p = &st.Now
		}
		p.before = append(p.before, b)
	}
}
