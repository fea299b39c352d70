package data

// blockCache is the blocks of files that a Reader read last. A shuffle spreads the samples of a block over many steps: a rank that
// takes few of them in each step would else read each sample by itself, or the block again in each step. The zero value is ready.
type blockCache struct {
	blocks [cachedBlocks]cachedBlock
	clock  int64
}

// cachedBlock is a block of the cache, or one of which some samples were read by themselves.
type cachedBlock struct {
	file    any   // identifies the file; nil: the place is free
	block   int64 // its number
	records int64
	used    int64 // the cache's clock at the last use
	single  int64 // samples that were read by themselves
	loaded  bool
	body    []byte    // as in the file
	rows    numpyRows // in place of body, of criteo-numpy
}

const (
	cachedBlocks = 16 // also of files with few records each
	// cachedRecords bounds the records of all blocks in a cache. A block of the shuffle lies in one or two of a large file.
	cachedRecords = 2 * shuffleBlock
	// singleBytes is how many bytes the storage reads for a sample by itself: a page.
	singleBytes = 4096
)

// findPlace returns the place of a block. The block may not be loaded yet. The place is valid until the next call.
func (c *blockCache) findPlace(file any, block, records int64) *cachedBlock {
	c.clock++
	total, free := records, -1
	for i := range c.blocks {
		b := &c.blocks[i]
		switch {
		case b.file == file && b.block == block:
			b.used = c.clock
			return b
		case b.file == nil:
			free = i
		}
		total += b.records
	}
	var evicted cachedBlock
	for total > cachedRecords || free < 0 {
		oldest := c.oldest()
		if oldest < 0 {
			break
		}
		b := &c.blocks[oldest]
		total -= b.records
		evicted = *b
		*b, free = cachedBlock{}, oldest
	}
	b := &c.blocks[free]
	*b = cachedBlock{file: file, block: block, records: records, used: c.clock, body: evicted.body, rows: evicted.rows}
	return b
}

// oldest is the index of the block that was used least recently, or -1.
func (c *blockCache) oldest() int {
	oldest := -1
	for i := range c.blocks {
		if b := &c.blocks[i]; b.file != nil && (oldest < 0 || b.used < c.blocks[oldest].used) {
			oldest = i
		}
	}
	return oldest
}

// wants counts n more samples that are read from the block, and reports whether to load it: once the samples by themselves would
// have cost as much. Until the block leaves the cache, its reads then cost at most about twice those of the cheaper way.
func (b *cachedBlock) wants(n int, blockBytes int64) bool {
	b.single += int64(n)
	return b.single*singleBytes >= blockBytes
}
