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

// transpose returns the transpose of o, in the same memory.
func (o operand) transpose() operand { return operand{o.ptr, o.cs, o.rs, !o.transposed} }

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
	sum     unsafe.Pointer // not nil: gets the sums over k of each row of A (a.rs is 4), or of each column of B
	sumsOfB bool           // those of B (b.cs is 4)

	j0, j1           int   // the columns of the chunk
	now, next        chunk // in use, being packed
	directA, directB bool  // read in place, not packed
	mTiles, panels   int   // in a chunk
	mBlocks, nBlocks int
	packs            int // parts in which a slab of a row-major B is packed: threads that split columns pack their own
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
	if p.isNarrow() {
		p.runTransposed()
		return
	}
	p.mTiles = (p.m + s.mr - 1) / s.mr
	p.directB = p.readsB()
	for p.j0 = 0; p.j0 < p.n; p.j0 = p.j1 {
		p.j1 = min(p.j0+maxColumns, p.n)
		p.panels = (p.j1 - p.j0 + s.nr - 1) / s.nr
		p.chooseBlocks()
		p.directA = p.readsA()
		p.runChunks()
	}
}

// readsA reports whether A is read in place.
func (p *product) readsA() bool {
	switch {
	case p.panels <= 2*p.nBlocks:
		return true
	case p.a.cs == 4:
		return p.a.spread() || p.k <= 64
	default:
		return p.a.spread() && p.g.shape.byColumn
	}
}

// lowRows is the number of rows of C up to which packing B costs more than lines of it that are far apart. A taller C may read B in
// place, up to mostRows, if all of B stays in a cache, nearBytes, or its rows lie in different sets of one: their distance is no multiple of setBytes.
const (
	lowRows   = 84
	mostRows  = 280
	nearBytes = 4 << 20
	setBytes  = 1 << 10
)

// readsB reports whether B is read in place: C has few rows, so that an element of a packed B would be used a few times only. With more
// than two tiles below one another a row of a panel must not take more lines than it would if it were packed.
func (p *product) readsB() bool {
	const line = 64
	near := p.m <= lowRows || p.m <= mostRows && (4*p.k*p.n <= nearBytes || p.b.rs%setBytes != 0)
	return p.b.cs == 4 && (p.mTiles <= 2 || near && p.b.rs%line == 0)
}

// narrowColumns is the most columns of a narrow C: vectors of 16 would be partly empty.
const narrowColumns = 14

// isNarrow reports whether C has so few columns that its transpose is computed instead: A is stored by columns, and
// read in place as a row-major B then. A tile is as wide as registers allow, and A is read once, whole lines at a time.
func (p *product) isNarrow() bool {
	return p.n <= narrowColumns && p.n < p.m && p.a.rs == 4 && p.b.cs == 4 && p.bias == nil && p.relu == 0 && p.gate.ptr == nil && p.load == 0
}

// runTransposed computes Cᵀ = Bᵀ Aᵀ, the same chains, and transposes it.
func (p *product) runTransposed() {
	g, c, rows, cols := p.g, p.c, p.m, p.n
	if len(g.narrow) < rows*cols {
		g.narrow = make([]float32, rows*cols)
	}
	p.m, p.n, p.a, p.b = cols, rows, p.b.transpose(), p.a.transpose()
	p.c = operand{ptr: unsafe.Pointer(&g.narrow[0]), rs: uintptr(4 * rows), cs: 4}
	p.sumsOfB = true
	p.runPanels()
	transpose(g.isa, c.ptr, p.c.ptr, c.rs, p.c.rs, cols, rows)
}

// runChunks runs the chunks of columns [j0, j1).
func (p *product) runChunks() {
	s, threads, cols := p.g.shape, p.g.pool.threads, p.panels*p.g.shape.nr
	buffers := min(threads, 2) // a single thread packs a chunk after it has used the one before
	rows := maxPacked * min(threads, 4) / buffers / cols
	rows = min(max(rows-rows%s.kc, s.kc), p.k)
	if p.directB {
		rows = p.k
	} else {
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
		p.g.pool.runShares(p.mBlocks*p.nBlocks+p.packParts(), p.g.blocks, (*tilePhase)(p))
		if p.now.k1 == p.k {
			return
		}
	}
}

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

// aheadOfA is how many steps of k a micro-kernel prefetches A that is stored by columns: each step reads another line, which
// the CPU's own prefetcher does not foresee.
const aheadOfA = 24

// shortChain is the length of chains up to which a tile of C is prefetched while the tile before it is computed: its own chains end
// before memory has answered.
const shortChain = 32

// lateC is how many steps before the end of a long chain a tile of C is prefetched. If all of it were at once, as for short chains, the
// steps that follow would wait: a core has few requests to memory under way. If it were early, A and B would evict it from the first cache.
// The micro-kernel needs at least 60: it prefetches in 14 passes of four steps, and makes another pass after them.
const lateC = 96

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
	i0 := p.g.bounds[mb] * s.mr
	i1 := min(p.g.bounds[mb+1]*s.mr, p.m)
	for k0 := p.now.k0; ; k0 += s.kc {
		k1 := min(k0+s.kc, p.now.k1)
		p.addBlockSums(mb, nb, i0, i1, k0, k1)
		r := p.readyA(worker, i0, i1, k0, k1)
		for j := shareOf(nb, p.nBlocks, p.panels); j < shareOf(nb+1, p.nBlocks, p.panels); j++ {
			p.computePanel(&r, worker, j, k0, k1)
			r[0].cold = false
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
	p.addSums(i*sumColumns, min((i+1)*sumColumns, p.m), p.a.transpose(), 0, p.k)
}

// addBlockSums adds rows or columns [k0, k1) of a block to their sums, in order, if it is the first block of these rows of A,
// or of these columns of B: each sum is computed once.
func (p *product) addBlockSums(mb, nb, i0, i1, k0, k1 int) {
	switch {
	case p.sum == nil:
	case p.sumsOfB && mb == 0:
		nr := p.g.shape.nr
		p.addSums(p.j0+shareOf(nb, p.nBlocks, p.panels)*nr, min(p.j0+shareOf(nb+1, p.nBlocks, p.panels)*nr, p.j1), p.b, k0, k1)
	case !p.sumsOfB && nb == 0 && p.j0 == 0:
		p.addSums(i0, i1, p.a.transpose(), k0, k1)
	}
}

// addSums adds rows [k0, k1) of columns [from, to) of a row-major operand to their sums, in order.
func (p *product) addSums(from, to int, of operand, k0, k1 int) {
	dst := unsafe.Add(p.sum, 4*from)
	if k0 == 0 {
		clear(unsafe.Slice((*float32)(dst), to-from))
	}
	if k0 < k1 {
		addRows(p.g.isa, dst, of.elementAt(k0, from), of.rs, k1-k0, to-from)
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
		t.next = p.g.shape.ahead * int(p.b.rs) // rows are far apart: prefetch one that is used soon
	default:
		t.b, t.bs = unsafe.Pointer(&e.b), uintptr(4*width)
		copyRows(p.g.isa, t.b, p.b.elementAt(k0, from), t.bs, p.b.rs, t.k, t.cols, nearRows)
	}
	t.fetch = uintptr(t.b) + uintptr(t.next)
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
		switch {
		case r.rs == 4: // each step reads another line
			q.ahead, q.aheadStep = aheadOfA*int(r.cs), int(r.cs)
		case r.cold && int(r.rs) == 4*(k1-k0): // the next tile follows in memory
			q.ahead, q.aheadStep = int(r.step), 4*r.rows
		}
		if p.g.isa == isaAVX512 && q.k >= lateC+4 && q.prefetchesLate(width) {
			q.lateC = lateC
		}
		q.c, q.tiles = p.c.elementAt(r.from, from), (r.to-r.from)/r.rows
		if t.k <= shortChain && t.load == 0 {
			q.aheadC = uintptr(r.rows) * t.ldc
		}
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
		copyRows(i, t.c, c, step, ldc, rows, t.cols, nearRows)
	}
	if t.gate != nil {
		gate := unsafe.Pointer(&e.gate)
		copyRows(i, gate, t.gate, step, t.ldg, rows, t.cols, nearRows)
		t.gate, t.ldg = gate, step
	}
	cols := t.cols
	runTiles(i, t, width)
	for r := range uintptr(rows) {
		copy(unsafe.Slice((*float32)(unsafe.Add(c, r*ldc)), cols), unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(&e.c), r*step)), cols))
	}
}
