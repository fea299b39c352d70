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

	device deviceLists

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

	copied *pushCopies // of the lists above on the device; nil: there are none
	before []int64     // of Slots, as in Step
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
	at        []int32 // of Plan.Slots: the row of the step's matrix
	received  []int32 // of Requested: the position of its gradient among those of its Push

	ofMine, ofRequested, ofOwned, ofIndex []segment
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
