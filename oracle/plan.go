package oracle

import (
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

	keys   []uint64
	groups Groups
}

// Fill plans a slice: ids is (samples, tables), each below its table's rows.
func (p *Plan) Fill(m placement.Map, ids []uint32) {
	span := uint64(m.Slots(0)) // owner 0 has the most slots
	p.keys = resize(p.keys, len(ids))
	p.ownerMajor(m, ids, span)
	p.groups.Group(p.keys, span*uint64(m.Owners))
	p.Start, p.Pos = p.groups.Start, p.groups.Pos

	rows := len(p.groups.Keys)
	p.Slots = resize(p.Slots, rows)
	p.PerOwner = resize(p.PerOwner, m.Owners)
	u := 0
	for o := range p.PerOwner {
		first, base := u, uint64(o)*span
		for ; u < rows && p.groups.Keys[u] < base+span; u++ {
			p.Slots[u] = int32(p.groups.Keys[u] - base)
		}
		p.PerOwner[o] = u - first
	}
	p.Index = resize(p.Index, len(ids))
	for u := range rows {
		for _, l := range p.Pos[p.Start[u]:p.Start[u+1]] {
			p.Index[l] = int32(u)
		}
	}
}

// ownerMajor fills keys with owner*span + slot of each lookup's row.
func (p *Plan) ownerMajor(m placement.Map, ids []uint32, span uint64) {
	tables := m.Tables()
	owners := uint64(m.Owners)
	if bits.OnesCount64(owners) == 1 {
		shift, mask := bits.TrailingZeros64(owners), owners-1
		for l := 0; l < len(ids); l += tables {
			for t, id := range ids[l : l+tables] {
				g := uint64(m.Base[t]) + uint64(id)
				p.keys[l+t] = (g&mask)*span + g>>shift
			}
		}
		return
	}
	for l := 0; l < len(ids); l += tables {
		for t, id := range ids[l : l+tables] {
			g := uint64(m.Base[t]) + uint64(id)
			p.keys[l+t] = g%owners*span + g/owners
		}
	}
}
