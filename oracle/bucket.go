package oracle

import "math/bits"

// bucket is the lookups of consecutive slots, and where they are listed. Each loop is a
// function that is never inlined, so that its variables stay in registers.
type bucket struct {
	n               int
	dealt           []uint32 // as in Filler
	pos             []int32
	weight, factors []float32
	slots, start    []int32
	slot            int32 // the first
	begin           int32 // the position in Pos of the first lookup
	rows            int   // slots that there are
}

// listRows lists the rows of a bucket and the lookups of each. If the bucket has few rows, its
// lookups are counted row by row; otherwise they are sorted by row.
func (x *Filler) listRows(w *worker, b int) {
	in, c := x.tableOf(b)
	begin, end, before := x.begin[b], x.begin[b+1], uint64(in)<<c.shift
	g := bucket{
		n: int(end - begin), dealt: x.dealt[2*begin : 2*end], pos: x.plan.Pos[begin:end],
		slots: x.slots[x.room[b]:], start: x.start[x.room[b]:],
		slot: int32(c.slot + before), begin: int32(begin), rows: int(min(1<<c.shift, c.span-before)),
	}
	if len(x.weight) > 0 {
		g.weight, g.factors = x.weight[begin:end], x.plan.Factors[begin:end]
	}
	if g.rows <= 4*g.n { // visiting four rows costs less than sorting a lookup
		w.cells = resize(w.cells, g.rows)
		clear(w.cells)
		g.countLookups(w.cells)
		x.rows[b] = g.listCounted(w.cells)
		if len(g.weight) > 0 {
			g.placeWeighted(w.cells)
		} else {
			g.placeCounted(w.cells)
		}
		return
	}
	w.words = resize(w.words, g.n)
	g.packLookups(w.words)
	w.words = w.sort.sortWords(w.words, 32, bits.Len(uint(g.rows-1)))
	x.rows[b] = g.listSorted(w.words)
	g.placeSorted(w.words)
}

// countLookups counts the lookups of each row.
//
//go:noinline
func (g *bucket) countLookups(cells []uint64) {
	for d := g.dealt; len(d) >= 2; d = d[2:] {
		cells[d[0]]++
	}
}

// listCounted lists the rows that have lookups, and where the lookups of each begin. It has no
// branch on whether a row has some, because that is random.
//
//go:noinline
func (g *bucket) listCounted(cells []uint64) uint32 {
	slots, start := g.slots, g.start
	row, pos, slot := uint32(0), uint32(0), g.slot
	for i, n := range cells {
		slots[row], start[row] = slot, g.begin+int32(pos)
		cells[i] = uint64(row)<<32 | uint64(pos)
		row += uint32((n + (1<<32 - 1)) >> 32) // one more if n > 0
		pos += uint32(n)
		slot++
	}
	return row
}

// placeCounted lists the lookups of all rows.
//
//go:noinline
func (g *bucket) placeCounted(cells []uint64) {
	pos, dealt := g.pos, g.dealt
	rows := dealt[:len(dealt)/2]
	for i := range rows {
		r, cell := dealt[2*i], dealt[2*i+1]
		next := cells[r]
		cells[r] = next + 1
		rows[i] = uint32(next >> 32)
		pos[uint32(next)] = int32(cell)
	}
}

// placeWeighted is placeCounted for lookups with weights.
//
//go:noinline
func (g *bucket) placeWeighted(cells []uint64) {
	pos, dealt, factors, weight := g.pos, g.dealt, g.factors, g.weight
	for i, w := range weight {
		r, cell := dealt[2*i], dealt[2*i+1]
		next := cells[r]
		cells[r] = next + 1
		dealt[i] = uint32(next >> 32)
		pos[uint32(next)], factors[uint32(next)] = int32(cell), w
	}
}

// packLookups writes the words to be sorted: row << 32 | the lookup's number in the bucket.
//
//go:noinline
func (g *bucket) packLookups(words []uint64) {
	for i := range words {
		words[i] = uint64(g.dealt[2*i])<<32 | uint64(i)
	}
}

// listSorted lists the rows and where the lookups of each begin. The words become the row's
// position among the rows << 32 | the lookup. It has no branch on whether two lookups name the
// same row, because that is random.
//
//go:noinline
func (g *bucket) listSorted(words []uint64) uint32 {
	slots, start := g.slots, g.start
	row, last := int32(-1), int64(-1)
	start[0] = g.begin
	for i, w := range words {
		r := int64(w >> 32)
		row -= int32((last - r) >> 63) // one more if r is not last
		last = r
		words[i] = uint64(row)<<32 | w&(1<<32-1)
		slots[row], start[row+1] = g.slot+int32(r), g.begin+int32(i+1)
	}
	return uint32(row + 1)
}

// placeSorted lists the lookups of sorted words.
//
//go:noinline
func (g *bucket) placeSorted(words []uint64) {
	pos, dealt, weighted := g.pos[:len(words)], g.dealt, len(g.weight) > 0
	for i, w := range words {
		n := uint32(w)
		pos[i] = int32(dealt[2*n+1])
		if weighted {
			g.factors[i] = g.weight[n]
		}
	}
	for _, w := range words {
		dealt[2*uint32(w)] = uint32(w >> 32)
	}
	for i := range words {
		dealt[i] = dealt[2*i]
	}
}
