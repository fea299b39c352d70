package kernels

import "unsafe"

// slab is the number of rows that are copied together: few enough for the CPU's
// prefetcher to follow each row, so that rows are read once and from end to end. A copy prefetches the next slab meanwhile.
const slab = 8

// nearRows is how many rows ahead a copy prefetches, unless its next rows are a slab ahead.
const nearRows = 8

// packParts returns the number of parts in which the next chunk is packed: slabs if B
// is row-major, for each of packs, and panels if it is column-major.
func (p *product) packParts() int {
	rows := p.next.k1 - p.next.k0
	switch {
	case rows == 0 || p.directB:
		return 0
	case p.b.cs == 4:
		return (rows + slab - 1) / slab * p.packs
	default:
		return p.panels
	}
}

// packPhase packs parts of the next chunk. A row of a packed panel has width floats.
type packPhase product

func (q *packPhase) runPart(_, i int) {
	p, c := (*product)(q), q.next
	if p.b.cs != 4 {
		from, to, width := p.panelColumns(i)
		transpose(p.g.isa, p.packedPanel(c, i), p.b.elementAt(c.k0, from), uintptr(4*width), p.b.cs, to-from, c.k1-c.k0)
		return
	}
	slabs := p.packParts() / p.packs
	k, pack := i%slabs*slab, i/slabs
	rows := min(slab, c.k1-c.k0-k)
	for j := shareOf(pack, p.packs, p.panels); j < shareOf(pack+1, p.packs, p.panels); j++ {
		from, to, width := p.panelColumns(j)
		step := uintptr(4 * width)
		copyRows(p.g.isa, unsafe.Add(p.packedPanel(c, j), uintptr(k)*step), p.b.elementAt(c.k0+k, from), step, p.b.rs, rows, to-from, slab)
	}
}

// band is rows [from, to) of A, ready for a micro-kernel: complete tiles, or fewer
// rows than one tile has.
type band struct {
	operand          // from row from, column k0
	step     uintptr // from tile to tile
	rows     int     // of a tile
	from, to int
	cold     bool // no panel was computed yet, so that the next tile is in no cache
}

// readyA prepares rows [i0, i1) and columns [k0, k1) of A as three bands: tiles of mr
// rows, tiles of tail rows, and an incomplete tile of either. The incomplete tile is always
// copied, the others unless directA is set.
func (p *product) readyA(worker, i0, i1, k0, k1 int) (r [3]band) {
	s := p.g.shape
	mid := i0 + (i1-i0)/s.mr*s.mr
	end, last := mid+(i1-mid)/s.tail*s.tail, s.tail
	if i1-mid > s.mr/s.tail*s.tail { // one tile of mr rows, of which C has most, takes less than tiles of tail rows
		end, last = mid, s.mr
	}
	r = [3]band{{rows: s.mr, from: i0, to: mid, cold: true}, {rows: s.tail, from: mid, to: end}, {rows: last, from: end, to: i1}}
	if k0 == k1 {
		return r
	}
	packFrom := i0
	if p.directA {
		packFrom = end
	}
	if packFrom < i1 {
		p.packA(worker, packFrom, i1, k0, k1)
	}
	for i := range r {
		b := &r[i]
		var strip uintptr // from strip to strip
		switch {
		case b.from == b.to: // no pointer past the end of A
			continue
		case b.from < packFrom:
			b.operand, strip = operand{ptr: p.a.elementAt(b.from, k0), rs: p.a.rs, cs: p.a.cs}, uintptr(s.mr)*p.a.rs
		default:
			b.operand, strip = p.packedRows(worker, k1-k0)
			at := b.from - packFrom
			b.ptr = unsafe.Add(b.ptr, uintptr(at/s.mr)*strip+uintptr(at%s.mr)*b.rs)
		}
		b.step = uintptr(b.rows) * b.rs
		if b.rows == s.mr {
			b.step = strip
		}
	}
	return r
}

// packedRows returns the layout in which k columns of A are packed for worker: row by
// row if A is row-major, else column by column in strips of mr rows, strip bytes
// apart.
func (p *product) packedRows(worker, k int) (o operand, strip uintptr) {
	s, ptr := p.g.shape, unsafe.Pointer(&p.g.packedA[worker][0])
	if p.a.cs == 4 {
		o = operand{ptr: ptr, rs: uintptr(4 * (s.kc + s.strip)), cs: 4}
		return o, uintptr(s.mr) * o.rs
	}
	o = operand{ptr: ptr, rs: 4, cs: uintptr(4 * s.strip)}
	return o, uintptr(k) * o.cs
}

// packA copies rows [i0, i1) and columns [k0, k1) of A.
func (p *product) packA(worker, i0, i1, k0, k1 int) {
	s := p.g.shape
	p.g.growA(worker, i1-i0)
	o, strip := p.packedRows(worker, k1-k0)
	if p.a.cs == 4 {
		copyRows(p.g.isa, o.ptr, p.a.elementAt(i0, k0), o.rs, p.a.rs, i1-i0, k1-k0, nearRows)
		return
	}
	for k := k0; k < k1; k += slab {
		for i := i0; i < i1; i += s.mr {
			// A strip is wider than a tile; its last columns are not used.
			dst := unsafe.Add(o.ptr, uintptr((i-i0)/s.mr)*strip+uintptr(k-k0)*o.cs)
			copyRows(p.g.isa, dst, p.a.elementAt(i, k), o.cs, p.a.cs, min(slab, k1-k), min(s.strip, p.m-i), slab)
		}
	}
}
