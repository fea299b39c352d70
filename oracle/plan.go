package oracle

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/ecrec/ecrec/internal/placement"
)

// Plan is what one rank's slice of one batch needs. Its slices are reused by the
// next call that fills it.
type Plan struct {
	// Slots lists the distinct rows: those of owner 0 by ascending slot, then those
	// of owner 1, and so on. PerOwner says how many each owner has.
	Slots    []int32
	PerOwner []int
	// Index says for each lookup which row, a position in Slots, it reads.
	Index []int32
	// Start and Pos list the lookups of each row in sample order: those of row u are
	// Pos[Start[u]:Start[u+1]].
	Start, Pos []int32

	numbers numbering
	sort    sorter
}

// Fill plans a slice: ids is (samples, tables), each below its table's rows.
func (p *Plan) Fill(m placement.Map, ids []uint32) {
	if rows := m.Slots(0) * int64(m.Owners); rows > maxRows || len(ids) >= math.MaxInt32 {
		panic(fmt.Sprintf("oracle: %d lookups of %d rows; at most %d of %d can be planned", len(ids), rows, math.MaxInt32-1, maxRows))
	}
	p.Index = resize(p.Index, len(ids))
	p.numbers.fill(m, ids, p.Index)
	p.order(m)
	p.place(m)
	p.list(p.Index, p.Pos)
	p.Pos = p.Pos[:len(ids)]
}

// order sorts the distinct rows by owner, then slot: words are owner*span + slot
// above the row's number.
func (p *Plan) order(m placement.Map) {
	owners, span := uint64(m.Owners), uint64(m.Slots(0)) // owner 0 has the most slots
	p.sort.words = resize(p.sort.words, p.numbers.n)
	inverse := ^uint64(0) / owners
	for i, g := range p.numbers.found[:p.numbers.n] {
		slot, _ := bits.Mul64(g, inverse) // g / owners, or one less
		owner := g - slot*owners
		if owner >= owners {
			owner -= owners
			slot++
		}
		p.sort.words[i] = (owner*span+slot)<<numberBits | uint64(i)
	}
	p.sort.run(numberBits, bits.Len64(span*owners-1))
}

// place lists the sorted rows with their first lookups, and replaces what was
// seen of each by its position in Slots, above the position in Pos where its next
// lookup goes. Most rows have one lookup only; the position after the last takes
// it again then, which saves list from writing all over Pos.
func (p *Plan) place(m placement.Map) {
	words, seen := p.sort.words, p.numbers.seen
	p.Slots = resize(p.Slots, len(words))
	p.Start = resize(p.Start, len(words)+1)
	p.Pos = resize(p.Pos, len(p.Index)+1)
	p.PerOwner = resize(p.PerOwner, m.Owners)
	span := uint64(m.Slots(0))
	u, start := 0, uint64(0)
	for o := range p.PerOwner {
		first, base := u, uint64(o)*span
		for end := (base + span) << numberBits; u < len(words) && words[u] < end; u++ {
			w := words[u]
			p.Slots[u] = int32(w>>numberBits - base)
			p.Start[u] = int32(start)
			n := w & (1<<numberBits - 1)
			at := seen[n]
			p.Pos[start] = int32(at >> 32)
			lookups := uint64(uint32(at))
			next := start
			if lookups == 1 {
				next = uint64(len(p.Index))
			}
			seen[n] = uint64(u)<<32 | next
			start += lookups
		}
		p.PerOwner[o] = u - first
	}
	p.Start[u] = int32(start)
}

// list replaces the number of each lookup by its row and lists the lookups of rows.
//
//go:noinline
func (p *Plan) list(index, pos []int32) {
	seen := p.numbers.seen
	for l, c := range index {
		next := seen[c]
		seen[c] = next + 1
		index[l] = int32(next >> 32)
		pos[uint32(next)] = int32(l)
	}
}
