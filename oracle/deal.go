package oracle

import "math/bits"

// The loops over the lookups of a chunk: they count them by bucket, deal them to the buckets,
// and collect their rows. A block of samples is dealt to one table after another. There are
// loops for columns, where each sample has one id, for bags with one owner, and for all else.
// Each loop is a function that is never inlined, so that its variables stay in registers.

// bags are the lookups of some samples.
type bags struct {
	offsets  []int32 // from the first cell on; nil: each cell has one lookup
	first    int     // the first cell
	features int
	samples  int
}

// block returns the samples from first on, up to end or as many as a block has.
func (x *Filler) block(first, end int) bags {
	g := bags{first: first * x.features, features: x.features, samples: min(x.blockSamples, end-first)}
	if x.lookups.Offsets != nil {
		g.offsets = x.lookups.Offsets[g.first:]
	}
	return g
}

// cut returns the lookups of a feature in sample i.
func (g *bags) cut(i, feature int) (lo, hi, cell int) {
	at := i*g.features + feature
	cell = g.first + at
	if g.offsets == nil {
		return cell, cell + 1, cell
	}
	return int(g.offsets[at]), int(g.offsets[at+1]), cell
}

// kind is the loop for a table.
type kind int

const (
	mixed   kind = iota // several features, or weights, or bags with several owners
	column              // one id in each sample
	ownBags             // bags of one feature, with one owner
)

func (x *Filler) kindOf(c *buckets) kind {
	switch {
	case len(c.from) != 1 || len(x.weight) > 0:
		return mixed
	case x.lookups.Offsets == nil:
		return column
	case x.owners == 1:
		return ownBags
	}
	return mixed
}

// ranges finds the bucket of an id, and the id's row in the bucket.
type ranges struct {
	owners, inverse, offset uint64
	perOwner, first         uint64
	shift                   uint8
}

func (x *Filler) rangesOf(c *buckets) ranges {
	owners := uint64(x.owners)
	return ranges{owners, (1<<63 + owners - 1) / owners, c.offset, uint64(x.perOwner), uint64(c.first), c.shift & 63}
}

// findBucket returns the bucket, and the distance of the row's slot from the owner's first of the table.
func (r *ranges) findBucket(id uint32) (bucket, behind uint64) {
	number := uint64(id) + r.offset
	behind, _ = bits.Mul64(2*number, r.inverse) // number / owners: exact while number * owners < 1<<63
	return (number-behind*r.owners)*r.perOwner + r.first + behind>>(r.shift&63), behind
}

// countLookupsOf counts the lookups of a chunk by bucket.
func (x *Filler) countLookupsOf(chunk int) {
	n, ids := x.places[chunk*x.all:][:x.all], x.lookups.IDs
	clear(n)
	for first, end := x.chunk(chunk); first < end; first += x.blockSamples {
		g := x.block(first, end)
		for t := range x.tables {
			c := &x.tables[t]
			r := x.rangesOf(c)
			switch x.kindOf(c) {
			case column:
				countColumn(n, ids[g.first+c.from[0]:], &g, r)
			case ownBags:
				countBags(n[c.first:], ids, &g, c)
			default:
				countMixed(n, ids, &g, c, r)
			}
		}
	}
}

//go:noinline
func countColumn(n, ids []uint32, g *bags, r ranges) {
	at, features := 0, g.features
	for range g.samples {
		b, _ := r.findBucket(ids[at])
		n[b]++
		at += features
	}
}

//go:noinline
func countBags(n, ids []uint32, g *bags, c *buckets) {
	shift, f := c.shift&63, c.from[0]
	for s := range g.samples {
		lo, hi, _ := g.cut(s, f)
		for _, id := range ids[lo:hi] {
			n[uint64(id)>>shift]++
		}
	}
}

//go:noinline
func countMixed(n, ids []uint32, g *bags, c *buckets, r ranges) {
	for s := range g.samples {
		for _, f := range c.from {
			lo, hi, _ := g.cut(s, f)
			for _, id := range ids[lo:hi] {
				b, _ := r.findBucket(id)
				n[b]++
			}
		}
	}
}

// cutNear sets next to the places of the buckets among the lookups of a chunk alone.
func (x *Filler) cutNear(w *worker, chunk int) {
	w.next = resize(w.next, x.all)
	sum := uint32(0)
	for b := range w.next {
		_, n := x.part(chunk, b)
		w.next[b] = sum
		sum += n
	}
	w.near = resize(w.near, 2*int(sum))
}

// part returns the place of a chunk's lookups in a bucket, and their number.
func (x *Filler) part(chunk, b int) (place, n uint32) {
	place = x.places[chunk*x.all+b]
	if chunk+1 == x.chunks {
		return place, x.begin[b+1] - place
	}
	return place, x.places[(chunk+1)*x.all+b] - place
}

// dealLookupsOf deals the lookups of a chunk to the buckets.
func (x *Filler) dealLookupsOf(w *worker, chunk int) {
	x.cutNear(w, chunk)
	w.weight = resize(w.weight, min(len(x.weight), len(w.near)/2))
	next, ids := w.next, x.lookups.IDs
	for first, end := x.chunk(chunk); first < end; first += x.blockSamples {
		g := x.block(first, end)
		for t := range x.tables {
			c := &x.tables[t]
			r := x.rangesOf(c)
			switch x.kindOf(c) {
			case column:
				dealColumn(next, ids[g.first+c.from[0]:], w.near, &g, r, g.first+c.from[0])
			case ownBags:
				dealBags(next[c.first:], ids, w.near, &g, c)
			default:
				x.dealMixed(w, &g, c, r)
			}
		}
	}
	from := uint32(0)
	for b, end := range next {
		if end == from {
			continue
		}
		to, _ := x.part(chunk, b)
		copy(x.dealt[2*to:], w.near[2*from:2*end])
		if len(w.weight) > 0 {
			copy(x.weight[to:], w.weight[from:end])
		}
		from = end
	}
}

//go:noinline
func dealColumn(next, ids, dealt []uint32, g *bags, r ranges, cell int) {
	at, features, mask := 0, g.features, uint64(1)<<(r.shift&63)-1
	for range g.samples {
		b, behind := r.findBucket(ids[at])
		i := next[b]
		next[b] = i + 1
		to := dealt[2*uint64(i):][:2]
		to[0], to[1] = uint32(behind&mask), uint32(cell+at)
		at += features
	}
}

//go:noinline
func dealBags(next, ids, dealt []uint32, g *bags, c *buckets) {
	shift, mask, f := c.shift&63, uint32(uint64(1)<<(c.shift&63)-1), c.from[0]
	for s := range g.samples {
		lo, hi, cell := g.cut(s, f)
		for _, id := range ids[lo:hi] {
			b := uint64(id) >> shift
			i := next[b]
			next[b] = i + 1
			to := dealt[2*uint64(i):][:2]
			to[0], to[1] = id&mask, uint32(cell)
		}
	}
}

//go:noinline
func (x *Filler) dealMixed(w *worker, g *bags, c *buckets, r ranges) {
	ids, weights, next, dealt, weight := x.lookups.IDs, x.lookups.Weights, w.next, w.near, w.weight
	mask := uint64(1)<<(r.shift&63) - 1
	for s := range g.samples {
		for _, f := range c.from {
			lo, hi, cell := g.cut(s, f)
			for l := lo; l < hi; l++ {
				b, behind := r.findBucket(ids[l])
				i := next[b]
				next[b] = i + 1
				to := dealt[2*uint64(i):][:2]
				to[0], to[1] = uint32(behind&mask), uint32(cell)
				if len(weights) > 0 {
					weight[i] = weights[l]
				}
			}
		}
	}
}

// collectRowsOf sets Index for the lookups of a chunk. They are in the buckets in the order
// in which they were dealt.
func (x *Filler) collectRowsOf(w *worker, chunk int) {
	x.cutNear(w, chunk)
	next, ids, index := w.next, x.lookups.IDs, x.plan.Index
	for b, to := range next {
		if place, n := x.part(chunk, b); n > 0 {
			at := place + x.begin[b] // the bucket's part of dealt begins at twice begin
			rows, first := w.near[to:to+n], x.firstOf[b]
			for i, r := range x.dealt[at : at+n] {
				rows[i] = r + first
			}
		}
	}
	for first, end := x.chunk(chunk); first < end; first += x.blockSamples {
		g := x.block(first, end)
		for t := range x.tables {
			c := &x.tables[t]
			r := x.rangesOf(c)
			switch x.kindOf(c) {
			case column:
				collectColumn(next, ids[g.first+c.from[0]:], w.near, index[g.first+c.from[0]:], &g, r)
			case ownBags:
				collectBags(next[c.first:], ids, w.near, index, &g, c)
			default:
				collectMixed(next, ids, w.near, index, &g, c, r)
			}
		}
	}
}

//go:noinline
func collectColumn(next, ids, rows []uint32, index []int32, g *bags, r ranges) {
	at, features := 0, g.features
	index = index[:len(ids)]
	for range g.samples {
		b, _ := r.findBucket(ids[at])
		i := next[b]
		next[b] = i + 1
		index[at] = int32(rows[i])
		at += features
	}
}

//go:noinline
func collectBags(next, ids, rows []uint32, index []int32, g *bags, c *buckets) {
	shift, f := c.shift&63, c.from[0]
	for s := range g.samples {
		lo, hi, _ := g.cut(s, f)
		to := index[lo:hi]
		for i, id := range ids[lo:hi] {
			b := uint64(id) >> shift
			at := next[b]
			next[b] = at + 1
			to[i] = int32(rows[at])
		}
	}
}

//go:noinline
func collectMixed(next, ids, rows []uint32, index []int32, g *bags, c *buckets, r ranges) {
	for s := range g.samples {
		for _, f := range c.from {
			lo, hi, _ := g.cut(s, f)
			for l := lo; l < hi; l++ {
				b, _ := r.findBucket(ids[l])
				i := next[b]
				next[b] = i + 1
				index[l] = int32(rows[i])
			}
		}
	}
}
