package kernels

// splitColumns is the least number of columns of a thread that computes all rows of a low C, and splitDirect that of one that reads B in place.
const splitColumns, splitDirect = 512, 128

// splitsColumns reports whether each thread computes all rows of some columns. Blocks of rows would each read all of B: of a packed one that
// is larger than a core's own cache, or of one that is read in place. A low C has few rows, which every thread reads or packs.
func (p *product) splitsColumns() bool {
	threads, cols := p.g.pool.threads, p.j1-p.j0
	switch {
	case threads == 1 || p.m > mostRows:
		return false
	case p.directB:
		return p.m > lowRows && cols >= splitDirect*threads
	}
	return cols >= splitColumns*threads && min(p.k, p.g.shape.kc)*cols > maxPacked
}

// chooseBlocks sets the blocks of C: bounds, in tiles, of blocks of rows, the number of blocks of columns, and the workers' shares of the
// blocks. If blocks have all columns, each worker has the same share of the rows in all products with as many rows.
func (p *product) chooseBlocks() {
	g, threads, mc := p.g, p.g.pool.threads, p.g.shape.mc
	g.bounds, g.blocks = append(g.bounds[:0], 0), append(g.blocks[:0], 0)
	p.mBlocks, p.nBlocks, p.packs = 1, 1, 1
	if p.splitsColumns() {
		g.bounds = append(g.bounds, p.mTiles)
		p.nBlocks, p.packs = threads, threads
		p.shareBlocks()
		return
	}
	for w := range threads {
		for at, end := g.bounds[len(g.bounds)-1], shareOf(w+1, threads, p.mTiles); at < end; {
			at += blockSize(end-at, mc, threads)
			g.bounds = append(g.bounds, at)
		}
		g.blocks = append(g.blocks, len(g.bounds)-1)
	}
	p.mBlocks = len(g.bounds) - 1
	switch {
	case p.directB && p.m <= lowRows && threads > 1:
		p.nBlocks = min(8*threads, p.panels)
	case p.mBlocks < threads:
		p.nBlocks = min(threads, p.panels)
	}
	if p.nBlocks > 1 {
		p.shareBlocks()
	}
}

// shareBlocks gives each worker as many blocks as the others.
func (p *product) shareBlocks() {
	g, threads := p.g, p.g.pool.threads
	g.blocks = g.blocks[:0]
	for w := range threads + 1 {
		g.blocks = append(g.blocks, shareOf(w, threads, p.mBlocks*p.nBlocks))
	}
}

// blockSize returns how many of the tiles that are left to a worker are its next block of rows. One thread gets blocks that fit its caches.
// Several threads get blocks that become smaller, as in guided self-scheduling (Polychronopoulos and Kuck, 1987): large ones
// first, which read a packed B less often, and single tiles at the end, so that no thread waits long for another, or for one that
// other processes disturb.
func blockSize(left, mc, threads int) int {
	if threads == 1 {
		blocks := (left + mc - 1) / mc
		return (left + blocks - 1) / blocks
	}
	return min(max(left/2, 1), mc)
}
