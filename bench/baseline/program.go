package baseline

import (
	"slices"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/lrpp"
)

// Program lists the rows that all ranks exchange in some steps.
type Program struct {
	Ranks int
	Steps [][]Step // by step from the first one, and rank
	// StoreRows is the number of slots of each rank's store.
	StoreRows int
	// InStore reports whether the rows of Part are in the stores of their homes, instead of in the shards of their owners.
	InStore bool
	// PerLookup reports whether the items of Part are lookups instead of distinct rows.
	PerLookup bool
	// SendsIDs reports whether a rank sends the ids of its items to their homes, and Inline whether it does so before the step that
	// uses them instead of during the step before.
	SendsIDs, Inline bool
	// Final returns the rows of stores to the shards after the last step. By rank.
	Final []Moves
}

// Step is one rank's part of a step.
type Step struct {
	Part Part
	// Copied lists the items that the rank reads in its store, and CopySlots their slots there.
	Copied, CopySlots []int32
	// Summed lists the slots of the copies that get the sum of the gradients of all ranks, and Mine the items that they are on this
	// rank, -1 for none.
	Summed, Mine []int32
	// Fetch brings rows from shards to stores before the step, and Evict back after it. Both are done while a step computes.
	Fetch, Evict Moves
}

// Part is the traffic of items with their homes.
type Part struct {
	// As reader: the number of items of each home, and the items, those of home 0 first.
	From  []int
	Items []int32
	// HomeSlots lists the slots of the items at their homes.
	HomeSlots []int32
	// As home: the number of items of each reader, and their slots, those of reader 0 first.
	To    []int
	Slots []int32
	// Updated lists the distinct slots, ascending. Start and Pos list the positions of each in Slots, in rank order.
	Updated, Start, Pos []int32
	// With PerLookup, gradients are first summed by rank and row: sum i is of positions Pos[Start[i]:Start[i+1]], and Updated row u
	// has sums RankStart[u] to RankStart[u+1]-1.
	RankStart []int32
}

// Moves are rows that change their place. Lists are in rank order.
type Moves struct {
	To   []int // rows for each rank
	Send []int32
	From []int // rows from each rank
	Recv []int32
}

// homeOf returns the home of a row, and its slot there.
type homeOf func(g int32) (home int, slot int32)

// planParts plans the traffic of the items of all ranks. rows are those of the items, by rank. An item with a negative home has no
// part in it.
func planParts(rows [][]int32, home homeOf) []Part {
	n := len(rows)
	parts := make([]Part, n)
	for h := range parts {
		parts[h].From, parts[h].To = make([]int, n), make([]int, n)
	}
	for r, list := range rows {
		items, slots := make([][]int32, n), make([][]int32, n)
		for i, g := range list {
			h, slot := home(g)
			if h < 0 {
				continue
			}
			items[h], slots[h] = append(items[h], int32(i)), append(slots[h], slot)
			parts[h].Slots = append(parts[h].Slots, slot)
			parts[h].To[r]++
		}
		for h := range items {
			parts[r].From[h] = len(items[h])
			parts[r].Items = append(parts[r].Items, items[h]...)
			parts[r].HomeSlots = append(parts[r].HomeSlots, slots[h]...)
		}
	}
	return parts
}

// groupRows lists the updates of each distinct row.
func (p *Part) groupRows() {
	for i, k := range sortedKeys(p.Slots) {
		slot, pos := int32(k>>32), int32(uint32(k))
		if n := len(p.Updated); n == 0 || p.Updated[n-1] != slot {
			p.Updated, p.Start = append(p.Updated, slot), append(p.Start, int32(i))
		}
		p.Pos = append(p.Pos, pos)
	}
	p.Start = append(p.Start, int32(len(p.Pos)))
}

// groupLookups lists the updates of each distinct row of each rank.
func (p *Part) groupLookups() {
	reader, end, last := make([]int32, 0, len(p.Slots)), 0, int32(-1)
	for r, n := range p.To {
		end += n
		for len(reader) < end {
			reader = append(reader, int32(r))
		}
	}
	for i, k := range sortedKeys(p.Slots) {
		slot, pos := int32(k>>32), int32(uint32(k))
		isNew := len(p.Updated) == 0 || p.Updated[len(p.Updated)-1] != slot
		if isNew {
			p.Updated, p.RankStart = append(p.Updated, slot), append(p.RankStart, int32(len(p.Start)))
		}
		if isNew || reader[pos] != last {
			p.Start, last = append(p.Start, int32(i)), reader[pos]
		}
		p.Pos = append(p.Pos, pos)
	}
	p.RankStart = append(p.RankStart, int32(len(p.Start)))
	p.Start = append(p.Start, int32(len(p.Pos)))
}

// sortedKeys returns slot<<32 | position of all slots, ascending.
func sortedKeys(list []int32) []uint64 {
	keys := make([]uint64, len(list))
	for i, slot := range list {
		keys[i] = uint64(slot)<<32 | uint64(i)
	}
	slices.Sort(keys)
	return keys
}

// move is a row that changes its place.
type move struct {
	from, to       int
	sends, becomes int32 // slots
}

// planMoves lists the moves of each rank.
func planMoves(n int, moves []move) []Moves {
	all := make([]Moves, n)
	for r := range all {
		all[r].To, all[r].From = make([]int, n), make([]int, n)
	}
	byEnds := make([][]move, n*n)
	for _, m := range moves {
		byEnds[m.from*n+m.to] = append(byEnds[m.from*n+m.to], m)
	}
	for from := range n {
		for to := range n {
			for _, m := range byEnds[from*n+to] {
				all[from].Send = append(all[from].Send, m.sends)
			}
			all[from].To[to] = len(byEnds[from*n+to])
		}
	}
	for to := range n {
		for from := range n {
			for _, m := range byEnds[from*n+to] {
				all[to].Recv = append(all[to].Recv, m.becomes)
			}
			all[to].From[from] = len(byEnds[from*n+to])
		}
	}
	return all
}

// Moved is the traffic that a rank receives in a step, with rows of some floats. An all-reduce of some rows counts as
// 2 (n-1)/n of them on each rank. Ids are not counted: see the package doc.
func (p *Program) Moved(step, rank, width int) (m lrpp.Moved) {
	s := &p.Steps[step][rank]
	addRows(&m.Critical, s.Part.From, rank, width)
	addRows(&m.Critical, s.Part.To, rank, width)
	if n := len(s.Summed); n > 0 {
		sent := collectives.AllReduceSent(p.Ranks, rank, n*width, false)
		m.Critical.Bytes += sent.Bytes
		m.Critical.Rows += sent.Bytes / int64(4*width)
	}
	addRows(&m.Delayed, s.Fetch.From, rank, width)
	addRows(&m.Delayed, s.Evict.From, rank, width)
	return m
}

// addRows counts rows of other ranks than one.
func addRows(t *lrpp.Traffic, perRank []int, me, width int) {
	for r, n := range perRank {
		if r != me {
			t.Rows += int64(n)
			t.Bytes += int64(4 * width * n)
		}
	}
}

// Total is the mean traffic of all ranks in each of some steps, the first and the last of which are given.
func (p *Program) Total(first, last, width int) (m lrpp.Moved) {
	for step := first; step <= last; step++ {
		for rank := range p.Ranks {
			m.Add(p.Moved(step, rank, width))
		}
	}
	n := int64(last - first + 1)
	m.Critical.Rows, m.Critical.Bytes, m.Delayed.Rows, m.Delayed.Bytes = m.Critical.Rows/n, m.Critical.Bytes/n, m.Delayed.Rows/n,
		m.Delayed.Bytes/n
	return m
}
