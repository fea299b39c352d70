package baseline

import "github.com/ecrec/ecrec/lrpp"

// HETProgram lists the rows that ranks exchange if their caches may be stale (HET, section 3.2 and algorithm 1).
//
// The clock of a row at its owner counts the updates that were pushed. A trainer keeps each row that it has used. It updates its copy
// at once and adds the gradient to its unpushed ones. Before a step it reads the copy again if its unpushed updates, and the
// updates of the owner since the copy was fetched, are each at most the bound; else it pushes the sum of the
// gradients and fetches the row. To compare clocks, the trainer sends the number and the clock of each row, 8 bytes.
//
// Two parts are left out: the limit of the cache and its eviction (stronger), and the asynchronous mode. All ranks take their
// steps together.
type HETProgram struct {
	Ranks     int
	Steps     [][]HETStep // by step and rank
	StoreRows int
	// Preload are the rows that are cached before the first step.
	Preload []Moves
	// Final pushes all gradients that are left.
	Final []HETStep
}

// HETStep is one rank's part of a step.
type HETStep struct {
	// Slots are those of the rows of the slice, in the store.
	Slots []int32
	// SentClocks is the number of clocks that the rank sends to each owner, and GotClocks the number that it receives from each reader.
	SentClocks, GotClocks []int
	// PushSlots are the slots of the rows that the rank pushes gradients of: Items of Push, by owner.
	PushSlots []int32
	Push      Part
	Fetch     Moves
}

// clockBytes are those of the number of a row and its clock.
const clockBytes = 8

// hetState is the planner's view of all caches.
type hetState struct {
	s      *Stream
	bound  int
	clock  []int32   // of each row: updates at its owner
	start  [][]int32 // by rank and row: the clock at the last fetch, -1 if the row is not cached
	behind [][]uint8 // by rank and row: updates that were not pushed
	slot   [][]int32 // by rank and row: its slot in the store, -1 for none
	rows   []int32   // slots in use, by rank
}

func newHETState(s *Stream, bound int) *hetState {
	h := &hetState{s: s, bound: bound, clock: make([]int32, s.Place.Rows()), rows: make([]int32, s.Place.Owners)}
	for range s.Place.Owners {
		start, slot := make([]int32, len(h.clock)), make([]int32, len(h.clock))
		for g := range start {
			start[g], slot[g] = -1, -1
		}
		h.start, h.slot, h.behind = append(h.start, start), append(h.slot, slot), append(h.behind, make([]uint8, len(h.clock)))
	}
	return h
}

// mustSync reports whether a rank must push and fetch a row before it reads it.
func (h *hetState) mustSync(r int, g int32) bool {
	return h.start[r][g] < 0 || int(h.behind[r][g]) > h.bound || int(h.clock[g]-h.start[r][g]) > h.bound
}

// stepClocks moves all clocks by a step. pushed and fetched list the rows that each rank synchronises.
func (h *hetState) stepClocks(uses [][]int32) (pushed, fetched [][]int32) {
	pushed, fetched = make([][]int32, len(uses)), make([][]int32, len(uses))
	for r, list := range uses {
		for _, g := range list {
			if !h.mustSync(r, g) {
				continue
			}
			fetched[r] = append(fetched[r], g)
			if h.behind[r][g] > 0 {
				pushed[r] = append(pushed[r], g)
			}
		}
	}
	for r := range uses { // all push before any fetches
		for _, g := range pushed[r] {
			h.clock[g] += int32(h.behind[r][g])
			h.behind[r][g] = 0
		}
	}
	for r, list := range uses {
		for _, g := range fetched[r] {
			h.start[r][g] = h.clock[g]
		}
		for _, g := range list {
			h.behind[r][g]++
		}
	}
	return pushed, fetched
}

// slotOf returns the slot of a row in the store of a rank.
func (h *hetState) slotOf(r int, g int32) int32 {
	if h.slot[r][g] < 0 {
		h.slot[r][g] = h.rows[r]
		h.rows[r]++
	}
	return h.slot[r][g]
}

// HET plans some steps. past has the rows that each rank used before, step by step, which fill the caches; its last result is nil.
func HET(s *Stream, steps, bound int, past func() [][]int32) *HETProgram {
	h := newHETState(s, bound)
	for uses := past(); uses != nil; uses = past() {
		h.stepClocks(uses)
	}
	p := &HETProgram{Ranks: s.Place.Owners}
	for t := range steps {
		uses := s.usesOf(t)
		if t == 0 {
			p.planPreload(h, steps)
		}
		p.Steps = append(p.Steps, p.planStep(h, uses))
	}
	left := make([][]int32, p.Ranks)
	for r := range left {
		for g, n := range h.behind[r] {
			if n > 0 && h.slot[r][g] >= 0 {
				left[r] = append(left[r], int32(g))
			}
		}
	}
	p.Final = h.planSync(left, make([][]int32, p.Ranks))
	for _, n := range h.rows {
		p.StoreRows = max(p.StoreRows, int(n))
	}
	return p
}

// planPreload gives slots to the rows that are cached and that the steps use.
func (p *HETProgram) planPreload(h *hetState, steps int) {
	var moves []move
	for t := range steps {
		for r, list := range h.s.usesOf(t) {
			for _, g := range list {
				if h.start[r][g] >= 0 && h.slot[r][g] < 0 {
					owner, slot := h.s.ownerOf(g)
					moves = append(moves, move{from: owner, to: r, sends: slot, becomes: h.slotOf(r, g)})
				}
			}
		}
	}
	p.Preload = planMoves(p.Ranks, moves)
}

func (p *HETProgram) planStep(h *hetState, uses [][]int32) []HETStep {
	asked := make([][]int, p.Ranks)
	for r, list := range uses {
		asked[r] = make([]int, p.Ranks)
		for _, g := range list {
			if h.start[r][g] >= 0 {
				owner, _ := h.s.ownerOf(g)
				asked[r][owner]++
			}
		}
	}
	pushed, fetched := h.stepClocks(uses)
	step := h.planSync(pushed, fetched)
	for r := range step {
		step[r].SentClocks, step[r].GotClocks = asked[r], make([]int, p.Ranks)
		for q := range asked {
			step[r].GotClocks[q] = asked[q][r]
		}
		for _, g := range uses[r] {
			step[r].Slots = append(step[r].Slots, h.slotOf(r, g))
		}
	}
	return step
}

// planSync plans pushes and fetches.
func (h *hetState) planSync(pushed, fetched [][]int32) []HETStep {
	n := len(pushed)
	step := make([]HETStep, n)
	parts := planParts(pushed, h.s.ownerOf)
	var moves []move
	for r := range step {
		parts[r].groupRows()
		step[r].Push = parts[r]
		for _, i := range parts[r].Items {
			step[r].PushSlots = append(step[r].PushSlots, h.slotOf(r, pushed[r][i]))
		}
		for _, g := range fetched[r] {
			owner, slot := h.s.ownerOf(g)
			moves = append(moves, move{from: owner, to: r, sends: slot, becomes: h.slotOf(r, g)})
		}
	}
	for r, m := range planMoves(n, moves) {
		step[r].Fetch = m
	}
	return step
}

// Moved is the traffic that a rank receives in a step. Clocks count as bytes alone. All is critical.
func (p *HETProgram) Moved(step, rank, width int) (m lrpp.Moved) {
	s := &p.Steps[step][rank]
	addRows(&m.Critical, s.Fetch.From, rank, width)
	addRows(&m.Critical, s.Push.To, rank, width)
	for r, n := range s.GotClocks {
		if r != rank {
			m.Critical.Bytes += int64(clockBytes * n)
		}
	}
	return m
}
