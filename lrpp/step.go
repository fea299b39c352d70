package lrpp

import (
	"github.com/ecrec/ecrec/oracle"
)

// Step says which rows move around one step, seen from one rank as requester and
// as owner. It is reused: the next Planner.Fill of it overwrites it.
type Step struct {
	// Plan is what this rank's slice needs; PerOwner says how many of its rows the
	// owner on each rank has.
	Plan     oracle.Plan
	PerOwner []int
	// Wanted lists the slots that ranks want of this owner, rank 0's first; PerRank
	// says how many each wants.
	Wanted  []int32
	PerRank []int
	// Owned lists the distinct ones of Wanted, ascending, and OwnedStart and
	// OwnedPos where each occurs in Wanted, in rank order.
	Owned                []int32
	OwnedStart, OwnedPos []int32

	// Index says for each lookup which row it reads of the step's matrix: the
	// rows that Early brings, then those of Late.
	Index []int32
	// Early may come while the step before computes, for that does not update
	// these rows; Late comes after it.
	Early, Late Fetch
	// Now goes out before the next step, which reads these rows; Later goes out
	// while that computes.
	Now, Later Push

	counts, wants []int32
	sendBytes     []int
	recvBytes     []int
	none          []int
	class         classes
	number        int64
	before        []int64 // of Owned: the step that used it before, 0 if none did; nil where that is not checked

	// cache is the plan in mode Cached, where only Plan and this are set.
	cache *cachePlan
}

// Fetch is rows that go from owners to requesters in one all-to-all.
type Fetch struct {
	PerOwner []int   // requester: how many come from each owner
	Slots    []int32 // owner: which go out, rank 0's first
	PerRank  []int   // owner: how many to each rank
	rows     int     // requester: the sum of PerOwner
	none     bool    // nothing moves, on no rank

	before []int64 // of Slots, as in Step
}

// Push is gradients that go from requesters to owners in one all-to-all.
type Push struct {
	// Requester: the lookups of each row, as in oracle.Plan; how many rows go to
	// each owner.
	Start, Pos []int32
	PerOwner   []int
	// Owner: the distinct slots, ascending; where the gradients of each stand among
	// those received, in rank order; how many come from each rank.
	Slots              []int32
	SlotStart, SlotPos []int32
	PerRank            []int
	received           int  // the sum of PerRank
	none               bool // nothing moves, on no rank

	before []int64 // of Slots, as in Step
}

// class is what a row's neighbour steps make of it.
type class = uint8

const (
	usedBefore class = 1 << iota // by the step before, which updates it
	usedAfter                    // by the next step, which reads it
)

// classes is the scratch of splitting a step's lists.
type classes struct {
	owned  []class // of Owned
	wanted []class // of Wanted
	mine   []class // of Plan.Slots
	at     []int32 // new places
}

// allCritical makes a step whose rows all come late and whose gradients all go
// now: cache mode "none".
func (st *Step) allCritical() {
	st.Index = st.Plan.Index
	st.Late = Fetch{PerOwner: st.PerOwner, Slots: st.Wanted, PerRank: st.PerRank, rows: len(st.Plan.Slots), before: st.beforeWanted()}
	st.Now = Push{Start: st.Plan.Start, Pos: st.Plan.Pos, PerOwner: st.PerOwner,
		Slots: st.Owned, SlotStart: st.OwnedStart, SlotPos: st.OwnedPos, PerRank: st.PerRank, received: len(st.Wanted), before: st.before}
	st.none = resize(st.none, len(st.PerRank)) // stays all zero
	st.Early = Fetch{PerOwner: st.none, PerRank: st.none, none: true}
	st.Later = Push{PerOwner: st.none, PerRank: st.none, none: true}
}

// beforeWanted spreads before over Wanted.
func (st *Step) beforeWanted() []int64 {
	if st.before == nil {
		return nil
	}
	out := make([]int64, len(st.Wanted))
	for o := range st.Owned {
		for _, p := range st.OwnedPos[st.OwnedStart[o]:st.OwnedStart[o+1]] {
			out[p] = st.before[o]
		}
	}
	return out
}

// classify fills the classes of Owned and Wanted from the lists of the steps
// around; nil where there is none.
func (st *Step) classify(prev, next *Step) {
	c := &st.class
	c.owned = resize(c.owned, len(st.Owned))
	clear(c.owned)
	if prev != nil {
		oracle.MarkCommon(c.owned, st.Owned, prev.Owned, usedBefore)
	}
	if next != nil {
		oracle.MarkCommon(c.owned, st.Owned, next.Owned, usedAfter)
	}
	c.wanted = resize(c.wanted, len(st.Wanted))
	for o, k := range c.owned {
		for _, p := range st.OwnedPos[st.OwnedStart[o]:st.OwnedStart[o+1]] {
			c.wanted[p] = k
		}
	}
}

// split makes Early, Late, Now and Later of the classes.
func (st *Step) split() {
	st.splitFetch()
	st.splitPush(&st.Now, usedAfter)
	st.splitPush(&st.Later, 0)
}

func (st *Step) splitFetch() {
	c, p := &st.class, &st.Plan
	c.at = resize(c.at, len(p.Slots))
	early, late := int32(0), int32(0)
	for _, k := range c.mine {
		if k&usedBefore == 0 {
			late++ // late rows begin after all early ones
		}
	}
	for u, k := range c.mine {
		if k&usedBefore == 0 {
			c.at[u] = early
			early++
		} else {
			c.at[u] = late
			late++
		}
	}
	st.Index = resize(st.Index, len(p.Index))
	for l, u := range p.Index {
		st.Index[l] = c.at[u]
	}
	st.Early.split(st, 0)
	st.Late.split(st, usedBefore)
}

// split takes the rows whose usedBefore bit is the one given.
func (f *Fetch) split(st *Step, bit class) {
	c := &st.class
	f.PerOwner = resize(f.PerOwner, len(st.PerOwner))
	f.rows = 0
	u := 0
	for o, n := range st.PerOwner {
		f.PerOwner[o] = count(c.mine[u:u+n], usedBefore, bit)
		f.rows += f.PerOwner[o]
		u += n
	}
	f.PerRank = resize(f.PerRank, len(st.PerRank))
	f.Slots = f.Slots[:0]
	i := 0
	for r, n := range st.PerRank {
		first := len(f.Slots)
		for _, slot := range st.Wanted[i : i+n] {
			if c.wanted[i]&usedBefore == bit {
				f.Slots = append(f.Slots, slot)
			}
			i++
		}
		f.PerRank[r] = len(f.Slots) - first
	}
	f.before = nil
	if st.before != nil {
		for i, b := range st.beforeWanted() {
			if c.wanted[i]&usedBefore == bit {
				f.before = append(f.before, b)
			}
		}
	}
}

func count(classes []class, mask, bit class) int {
	n := 0
	for _, k := range classes {
		if k&mask == bit {
			n++
		}
	}
	return n
}

// splitPush takes the rows whose usedAfter bit is the one given.
func (st *Step) splitPush(p *Push, bit class) {
	c, plan := &st.class, &st.Plan
	p.PerOwner = resize(p.PerOwner, len(st.PerOwner))
	p.Start, p.Pos = append(p.Start[:0], 0), p.Pos[:0]
	u := 0
	for o, n := range st.PerOwner {
		first := len(p.Start)
		for ; n > 0; n-- {
			if c.mine[u]&usedAfter == bit {
				p.Pos = append(p.Pos, plan.Pos[plan.Start[u]:plan.Start[u+1]]...)
				p.Start = append(p.Start, int32(len(p.Pos)))
			}
			u++
		}
		p.PerOwner[o] = len(p.Start) - first
	}
	st.splitOwned(p, bit)
}

func (st *Step) splitOwned(p *Push, bit class) {
	c := &st.class
	p.PerRank = resize(p.PerRank, len(st.PerRank))
	c.at = resize(c.at, len(st.Wanted))
	i, received := 0, int32(0)
	for r, n := range st.PerRank {
		first := received
		for ; n > 0; n-- {
			c.at[i] = received
			if c.wanted[i]&usedAfter == bit {
				received++
			}
			i++
		}
		p.PerRank[r] = int(received - first)
	}
	p.received = int(received)
	p.Slots, p.SlotPos, p.SlotStart = p.Slots[:0], p.SlotPos[:0], append(p.SlotStart[:0], 0)
	p.before = nil
	for o, slot := range st.Owned {
		if c.owned[o]&usedAfter != bit {
			continue
		}
		p.Slots = append(p.Slots, slot)
		for _, w := range st.OwnedPos[st.OwnedStart[o]:st.OwnedStart[o+1]] {
			p.SlotPos = append(p.SlotPos, c.at[w])
		}
		p.SlotStart = append(p.SlotStart, int32(len(p.SlotPos)))
		if st.before != nil {
			p.before = append(p.before, st.before[o])
		}
	}
}

// resize returns s with length n, contents undefined.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
