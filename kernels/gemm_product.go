package kernels

import "unsafe"

// operand is a matrix of a product. Element (row, col) is at ptr + row*rs + col*cs.
// The steps rs and cs are in bytes, and one of them is 4.
type operand struct {
	ptr        unsafe.Pointer
	rs, cs     uintptr
	transposed bool // stored by columns
}

func (o operand) elementAt(row, col int) unsafe.Pointer {
	return unsafe.Add(o.ptr, uintptr(row)*o.rs+uintptr(col)*o.cs)
}

// spread reports whether neighbouring rows, or columns if o is transposed, lie in
// different sets of a cache. They share a set if they are about a multiple of 4 KiB
// apart; then a tile's rows evict one another.
func (o operand) spread() bool {
	const way, line = 4096, 64
	step := max(o.rs, o.cs) % way
	return step >= line && step <= way-line
}

// product is C (m, n) = A (m, k) B (k, n) with its bias, activation, gate and sums,
// computed in tiles.
//
// It is a blocked product as in Goto and van de Geijn, "Anatomy of
// high-performance matrix multiplication" (2008). B is cut into chunks that fit
// the packing buffer. A chunk is packed once by all threads into panels of nr
// columns; then each thread takes a block of C and runs a micro-kernel on every panel.
// It reads A in place, or packs the rows of A it needs, kc columns at a time, if they
// would evict one another. When no block is left, a thread packs parts of the next
// chunk, so that no thread waits for a chunk's last block. If C has few rows, a panel
// of B is used once only, and is read in place.
//
// Invariant: blocks of C are disjoint, and one block's kc steps run in order, so
// each element is one chain over k ascending.
type product struct {
	g       *gemm
	m, n, k int
	a, b, c operand // c.cs is 4
	bias    unsafe.Pointer
	gate    operand // ptr nil: none
	relu    int
	load    int            // 1: chains continue from C
	sum     unsafe.Pointer // not nil: gets the sums over k of each row of A (a.rs is 4)

	j0, j1           int   // the columns of the chunk
	now, next        chunk // in use, being packed
	directA, directB bool  // read in place, not packed
	mTiles, panels   int   // in a chunk
	mBlocks, nBlocks int
}

// chunk is rows [k0, k1) of B, packed from float at of the buffer on.
type chunk struct{ k0, k1, at int }

// maxPacked is the number of floats of B that are packed for each thread, for up to
// 4 threads: 1 MiB, which is about a core's own cache.
const maxPacked = 1 << 18

// maxColumns is the number of columns of B in a chunk.
const maxColumns = 1024

func (p *product) runPanels() {
	s := p.g.shape
	p.mTiles = (p.m + s.mr - 1) / s.mr
	p.directB = p.b.cs == 4 && p.mTiles <= 2
	for p.j0 = 0; p.j0 < p.n; p.j0 = p.j1 {
		p.j1 = min(p.j0+maxColumns, p.n)
		p.panels = (p.j1 - p.j0 + s.nr - 1) / s.nr
		p.chooseBlocks()
		p.directA = p.a.spread() || p.a.cs == 4 && (p.panels <= 2 || p.k <= 64)
		p.runChunks()
	}
}

// runChunks runs the chunks of columns [j0, j1).
func (p *product) runChunks() {
	s, threads, cols := p.g.shape, p.g.pool.threads, p.panels*p.g.shape.nr
	buffers := min(threads, 2) // a single thread packs a chunk after it has used the one before
	rows := maxPacked * min(threads, 4) / buffers / cols
	rows = min(max(rows-rows%s.kc, s.kc), p.k)
	if !p.directB {
		p.g.growB(min(rows*buffers, p.k) * cols)
	}
	p.next = chunk{k1: rows}
	p.g.pool.runTask(p.packParts(), (*packPhase)(p))
	for {
		p.now = p.next
		p.next = chunk{k0: p.now.k1, k1: min(p.now.k1+rows, p.k)}
		if buffers > 1 && p.now.at == 0 {
			p.next.at = rows * cols
		}
		p.g.pool.runTask(p.mBlocks*p.nBlocks+p.packParts(), (*tilePhase)(p))
		if p.now.k1 == p.k {
			return
		}
	}
}

// chooseBlocks sets the number of blocks of C. One thread gets blocks that fit its
// caches. Several threads get sixteen blocks each, down to a third of that size, so
// that a core disturbed by other processes delays the rest only briefly.
func (p *product) chooseBlocks() {
	threads, mc := p.g.pool.threads, p.g.shape.mc
	p.mBlocks = (p.mTiles + mc - 1) / mc
	if threads > 1 {
		p.mBlocks = max(p.mBlocks, min(16*threads, p.mTiles/(mc/3)))
		p.mBlocks = (p.mBlocks + threads - 1) / threads * threads
	}
	p.mBlocks = min(p.mBlocks, p.mTiles)
	p.nBlocks = 1
	if p.mBlocks%threads != 0 {
		p.nBlocks = min(threads, p.panels)
	}
}

// share returns the beginning of part i of n equal parts of all.
func share(i, n, all int) int { return i * all / n }

// panelColumns returns the columns of panel i of the chunk and the width of its tiles.
func (p *product) panelColumns(i int) (from, to, width int) {
	s := p.g.shape
	from = p.j0 + i*s.nr
	to = min(from+s.nr, p.j1)
	if to-from <= s.half {
		return from, to, s.half
	}
	return from, to, s.nr
}

// packedPanel returns the beginning of panel i of a packed chunk.
func (p *product) packedPanel(c chunk, i int) unsafe.Pointer {
	return unsafe.Pointer(&p.g.packedB[c.at+i*(c.k1-c.k0)*p.g.shape.nr])
}

// slab is the number of rows that are copied together: few enough for the CPU's
// prefetcher to follow each row, so that rows are read once and from end to end.
const slab = 32

// packParts returns the number of parts in which the next chunk is packed: slabs if B
// is row-major, panels if it is column-major.
func (p *product) packParts() int {
	rows := p.next.k1 - p.next.k0
	switch {
	case rows == 0 || p.directB:
		return 0
	case p.b.cs == 4:
		return (rows + slab - 1) / slab
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
	k := i * slab
	rows := min(slab, c.k1-c.k0-k)
	for j := range p.panels {
		from, to, width := p.panelColumns(j)
		step := uintptr(4 * width)
		copyRows(p.g.isa, unsafe.Add(p.packedPanel(c, j), uintptr(k)*step), p.b.elementAt(c.k0+k, from), step, p.b.rs, rows, to-from)
	}
}

// tilePhase computes blocks of C, then packs the next chunk.
type tilePhase product

func (q *tilePhase) runPart(worker, i int) {
	p := (*product)(q)
	if blocks := p.mBlocks * p.nBlocks; i >= blocks {
		(*packPhase)(q).runPart(worker, i-blocks)
		return
	}
	s := p.g.shape
	mb, nb := i%p.mBlocks, i/p.mBlocks
	i0 := share(mb, p.mBlocks, p.mTiles) * s.mr
	i1 := min(share(mb+1, p.mBlocks, p.mTiles)*s.mr, p.m)
	for k0 := p.now.k0; ; k0 += s.kc {
		k1 := min(k0+s.kc, p.now.k1)
		p.addSums(i0, i1, nb, k0, k1)
		r := p.readyA(worker, i0, i1, k0, k1)
		for j := share(nb, p.nBlocks, p.panels); j < share(nb+1, p.nBlocks, p.panels); j++ {
			p.computePanel(&r, worker, j, k0, k1)
		}
		if k1 == p.now.k1 {
			return
		}
	}
}

// runSums computes the sums alone.
func (p *product) runSums() {
	p.g.pool.runTask((p.m+sumColumns-1)/sumColumns, (*sumPhase)(p))
}

// sumColumns is the number of sums in one part.
const sumColumns = 64

type sumPhase product

func (q *sumPhase) runPart(_, i int) {
	p := (*product)(q)
	p.addSums(i*sumColumns, min((i+1)*sumColumns, p.m), 0, 0, p.k)
}

// addSums adds columns [k0, k1) of A to the sums of rows [i0, i1), in order. nb is
// the block's column: only the first one adds, so that each sum is computed once.
func (p *product) addSums(i0, i1, nb, k0, k1 int) {
	if p.sum == nil || nb > 0 || p.j0 > 0 {
		return
	}
	dst := unsafe.Add(p.sum, 4*i0)
	if k0 == 0 {
		clear(unsafe.Slice((*float32)(dst), i1-i0))
	}
	if k0 < k1 {
		addRows(p.g.isa, dst, p.a.elementAt(i0, k0), p.a.cs, k1-k0, i1-i0)
	}
}

// band is rows [from, to) of A, ready for a micro-kernel: complete tiles, or fewer
// rows than one tile has.
type band struct {
	operand          // from row from, column k0
	step     uintptr // from tile to tile
	rows     int     // of a tile
	from, to int
}

// readyA prepares rows [i0, i1) and columns [k0, k1) of A as three bands: tiles of mr
// rows, tiles of tail rows, and an incomplete tile. The incomplete tile is always
// copied, the others unless directA is set.
func (p *product) readyA(worker, i0, i1, k0, k1 int) (r [3]band) {
	s := p.g.shape
	mid := i0 + (i1-i0)/s.mr*s.mr
	end := mid + (i1-mid)/s.tail*s.tail
	r = [3]band{{rows: s.mr, from: i0, to: mid}, {rows: s.tail, from: mid, to: end}, {rows: s.tail, from: end, to: i1}}
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
		copyRows(p.g.isa, o.ptr, p.a.elementAt(i0, k0), o.rs, p.a.rs, i1-i0, k1-k0)
		return
	}
	for k := k0; k < k1; k += slab {
		for i := i0; i < i1; i += s.mr {
			// A strip is wider than a tile; its last columns are not used.
			dst := unsafe.Add(o.ptr, uintptr((i-i0)/s.mr)*strip+uintptr(k-k0)*o.cs)
			copyRows(p.g.isa, dst, p.a.elementAt(i, k), o.cs, p.a.cs, min(slab, k1-k), min(s.strip, p.m-i))
		}
	}
}

// computePanel computes links [k0, k1) of the chains of panel j of C, for the rows of
// three bands.
func (p *product) computePanel(rows *[3]band, worker, j, k0, k1 int) {
	from, to, width := p.panelColumns(j)
	e := p.g.edgeOf(worker)
	t := tileRun{cols: to - from, ldc: p.c.rs, k: k1 - k0, load: p.load}
	if k0 > 0 {
		t.load = 1
	}
	switch {
	case k0 == k1:
	case !p.directB:
		t.b, t.bs = unsafe.Add(p.packedPanel(p.now, j), 4*width*(k0-p.now.k0)), uintptr(4*width)
		t.next = 4 * p.g.shape.nr * (p.now.k1 - p.now.k0)
	case t.cols == width:
		t.b, t.bs = p.b.elementAt(k0, from), p.b.rs
		t.next = 16 * int(p.b.rs) // rows are far apart: prefetch one that is used soon
	default:
		t.b, t.bs = unsafe.Pointer(&e.b), uintptr(4*width)
		copyRows(p.g.isa, t.b, p.b.elementAt(k0, from), t.bs, p.b.rs, t.k, t.cols)
	}
	last := k1 == p.k // bias, activation and gate follow
	if last {
		t.relu, t.ldg = p.relu, p.gate.rs
		if p.bias != nil {
			t.bias = unsafe.Add(p.bias, 4*from)
		}
	}
	for i := range rows {
		r, q := &rows[i], t
		if r.from == r.to {
			continue
		}
		q.a, q.rs, q.ks, q.ta, q.rows = r.ptr, r.rs, r.cs, r.step, r.rows
		q.c, q.tiles = p.c.elementAt(r.from, from), (r.to-r.from)/r.rows
		if last && p.gate.ptr != nil {
			q.gate = p.gate.elementAt(r.from, from)
		}
		if q.tiles > 0 {
			runTiles(p.g.isa, &q, width)
		} else {
			e.runTile(p.g.isa, &q, r.to-r.from, width)
		}
	}
}

// edge is scratch for a complete tile, used where C has only some of its rows.
type edge struct {
	c, gate [maxTile]float32
	b       [maxPanel]float32
}

// runTile runs t, one tile of which C has only the first rows.
func (e *edge) runTile(i isa, t *tileRun, rows, width int) {
	step := uintptr(4 * width)
	c, ldc := t.c, t.ldc
	t.tiles, t.c, t.ldc = 1, unsafe.Pointer(&e.c), step
	if t.load != 0 {
		copyRows(i, t.c, c, step, ldc, rows, t.cols)
	}
	if t.gate != nil {
		gate := unsafe.Pointer(&e.gate)
		copyRows(i, gate, t.gate, step, t.ldg, rows, t.cols)
		t.gate, t.ldg = gate, step
	}
	cols := t.cols
	runTiles(i, t, width)
	for r := range uintptr(rows) {
		copy(unsafe.Slice((*float32)(unsafe.Add(c, r*ldc)), cols), unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(&e.c), r*step)), cols))
	}
}
