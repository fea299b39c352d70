package lrpp

import (
	"github.com/ecrec/ecrec/oracle"
)

// Step lists the rows sent around one step, from the view of one rank as requester and as
// owner. The next Planner.Fill of the same Step overwrites it.
type Step struct {
	// Plan lists the rows of this rank's slice. PerOwner is the number of its rows at the
	// owner on each rank.
	Plan     oracle.Plan
	PerOwner []int
	// Requested lists the slots that ranks request from this owner, those of rank 0
	// first. PerRank is the number of slots of each rank.
	Requested []int32
	PerRank   []int
	// Owned lists the distinct slots of Requested, ascending. OwnedStart and OwnedPos
	// list the positions of each in Requested, in rank order.
	Owned                []int32
	OwnedStart, OwnedPos []int32

	// Index is the row of the step's matrix that each lookup reads. The matrix has the
	// rows of Early, then those of Late.
	Index []int32
	// Early rows may be sent while the previous step computes, because that step does not
	// update them. Late rows are sent after it.
	Early, Late Fetch
	// Now is sent before the next step, which reads these rows. Later is sent while the
	// next step computes.
	Now, Later Push

	counts, requests []int32
	sendBytes        []int
	recvBytes        []int
	none             []int
	class            classes
	number           int64
	before           []int64 // of Owned: the previous step that used it, 0 if none did; nil if that is not checked

	// cache is the plan in mode Cached, in which only Plan and cache are set.
	cache *cachePlan
}

// Fetch lists the rows sent from owners to requesters in one all-to-all.
type Fetch struct {
	PerOwner []int   // requester: number of rows from each owner
	Slots    []int32 // owner: slots to send, those for rank 0 first
	PerRank  []int   // owner: number of rows for each rank
	rows     int     // requester: the sum of PerOwner
	none     bool    // no rank sends anything

	before []int64 // of Slots, as in Step
}

// Push lists the gradients sent from requesters to owners in one all-to-all.
type Push struct {
	// Requester: the cells of the lookups of each row and their weights, as in oracle.Plan,
	// and the number of rows for each owner.
	Start, Pos []int32
	Factors    []float32
	PerOwner   []int
	// Owner: the distinct slots, ascending. The positions of each slot's gradients among
	// those received, in rank order. The number of gradients from each rank.
	Slots              []int32
	SlotStart, SlotPos []int32
	PerRank            []int
	received           int  // the sum of PerRank
	none               bool // no rank sends anything

	before []int64 // of Slots, as in Step
}

// class is the set of neighbouring steps that use a row.
type class = uint8

const (
	usedBefore class = 1 << iota // by the previous step, which updates it
	usedAfter                    // by the next step, which reads it
)

// classes is scratch memory for splitting a step's lists.
type classes struct {
	owned     []class // of Owned
	requested []class // of Requested
	mine      []class // of Plan.Slots
	at        []int32 // new positions
}

// allCritical makes all rows of the step late and sends all gradients now, as in cache
// mode "none".
func (st *Step) allCritical() {
	st.Index = st.Plan.Index
	st.Late = Fetch{PerOwner: st.PerOwner, Slots: st.Requested, PerRank: st.PerRank, rows: len(st.Plan.Slots), before: st.beforeRequested()}
	st.Now = Push{Start: st.Plan.Start, Pos: st.Plan.Pos, Factors: st.Plan.Factors, PerOwner: st.PerOwner,
		Slots: st.Owned, SlotStart: st.OwnedStart, SlotPos: st.OwnedPos, PerRank: st.PerRank, received: len(st.Requested), before: st.before}
	st.none = resize(st.none, len(st.PerRank)) // stays all zero
	st.Early = Fetch{PerOwner: st.none, PerRank: st.none, none: true}
	st.Later = Push{PerOwner: st.none, PerRank: st.none, none: true}
}

// beforeRequested returns before for each entry of Requested.
func (st *Step) beforeRequested() []int64 {
	if st.before == nil {
		return nil
	}
	out := make([]int64, len(st.Requested))
	for o := range st.Owned {
		for _, p := range st.OwnedPos[st.OwnedStart[o]:st.OwnedStart[o+1]] {
			out[p] = st.before[o]
		}
	}
	return out
}

// classifyRows computes the classes of Owned and Requested from the lists of the
// neighbouring steps, which are nil if there is none.
func (st *Step) classifyRows(prev, next *Step) {
	c := &st.class
	c.owned = resize(c.owned, len(st.Owned))
	clear(c.owned)
	if prev != nil {
		oracle.MarkCommon(c.owned, st.Owned, prev.Owned, usedBefore)
	}
	if next != nil {
		oracle.MarkCommon(c.owned, st.Owned, next.Owned, usedAfter)
	}
	c.requested = resize(c.requested, len(st.Requested))
	for o, k := range c.owned {
		for _, p := range st.OwnedPos[st.OwnedStart[o]:st.OwnedStart[o+1]] {
			c.requested[p] = k
		}
	}
}

// splitLists derives Early, Late, Now and Later from the classes.
func (st *Step) splitLists() {
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
			late++ // late rows follow all early ones
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
	st.Early.splitRows(st, 0)
	st.Late.splitRows(st, usedBefore)
}

// splitRows selects the rows whose usedBefore bit equals bit.
func (f *Fetch) splitRows(st *Step, bit class) {
	c := &st.class
	f.PerOwner = resize(f.PerOwner, len(st.PerOwner))
	f.rows = 0
	u := 0
	for o, n := range st.PerOwner {
		f.PerOwner[o] = countClass(c.mine[u:u+n], usedBefore, bit)
		f.rows += f.PerOwner[o]
		u += n
	}
	f.PerRank = resize(f.PerRank, len(st.PerRank))
	f.Slots = f.Slots[:0]
	i := 0
	for r, n := range st.PerRank {
		first := len(f.Slots)
		for _, slot := range st.Requested[i : i+n] {
			if c.requested[i]&usedBefore == bit {
				f.Slots = append(f.Slots, slot)
			}
			i++
		}
		f.PerRank[r] = len(f.Slots) - first
	}
	f.before = nil
	if st.before != nil {
		for i, b := range st.beforeRequested() {
			if c.requested[i]&usedBefore == bit {
				f.before = append(f.before, b)
			}
		}
	}
}

func countClass(classes []class, mask, bit class) int {
	n := 0
	for _, k := range classes {
		if k&mask == bit {
			n++
		}
	}
	return n
}

// splitPush selects the rows whose usedAfter bit equals bit.
func (st *Step) splitPush(p *Push, bit class) {
	c, plan := &st.class, &st.Plan
	p.PerOwner = resize(p.PerOwner, len(st.PerOwner))
	p.Start, p.Pos, p.Factors = append(p.Start[:0], 0), p.Pos[:0], p.Factors[:0]
	u := 0
	for o, n := range st.PerOwner {
		first := len(p.Start)
		for ; n > 0; n-- {
			if c.mine[u]&usedAfter == bit {
				p.Pos = append(p.Pos, plan.Pos[plan.Start[u]:plan.Start[u+1]]...)
				if len(plan.Factors) > 0 {
					p.Factors = append(p.Factors, plan.Factors[plan.Start[u]:plan.Start[u+1]]...)
				}
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
	c.at = resize(c.at, len(st.Requested))
	i, received := 0, int32(0)
	for r, n := range st.PerRank {
		first := received
		for ; n > 0; n-- {
			c.at[i] = received
			if c.requested[i]&usedAfter == bit {
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
