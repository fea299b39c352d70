package oracle

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/placement"
)

// Filler fills plans. It holds the memory that a plan needs only while it is filled.
//
// The rows of each table at each owner are cut into buckets of consecutive slots, so that
// the rows of a plan are those of bucket 0, then those of bucket 1, and so on. The samples
// are cut into chunks. All lookups are dealt to the buckets in lookup order: first each
// chunk counts its lookups of each bucket, which gives the places of the lookups of all
// chunks. Then each bucket lists its rows alone, and each chunk collects its lookups' rows.
// No two parts write the same memory, so that they can run on any number of threads.
type Filler struct {
	threads   Threads
	hugePages func([]uint32)
	// The parts as functions, made once so that no call allocates.
	countFeatures, countChunk, dealChunk, listBucket, finish func(worker, i int)

	plan    *Plan // being filled, of these lookups
	lookups Lookups

	samples, features   int
	chunks, chunkLength int       // their number, and the samples of each
	blockSamples        int       // dealt to one table after another
	ofFeature           []uint32  // of each chunk and feature: lookups
	tables              []buckets // of each table
	perOwner, all       int       // the number of buckets of an owner, and of all
	owners              int

	// places has, for each chunk and bucket, the number of lookups, and then the place of the
	// first among those of all buckets. begin is where the lookups of each bucket begin, and
	// where the last ends.
	places []uint32
	begin  []uint32

	// dealt has the lookups by bucket, two words each: the row's number within the bucket, and
	// the cell. Once a bucket is listed, its first half has the row's position among the rows
	// of the bucket, one word each. weight has the weights.
	dealt  []uint32
	weight []float32

	full    []int32  // buckets with lookups, large ones first
	room    []uint32 // of each bucket: where in slots and start its rows are listed
	rows    []uint32 // of each bucket: the number of its rows
	firstOf []uint32 // of each bucket: the position in Slots of its first row
	copies  int      // parts that copy slots and start to the plan
	slots   []int32
	start   []int32

	workers []worker
	columns tableByTable
}

// buckets are those of a table at one owner.
type buckets struct {
	from []int // the features that look the table up, ascending
	n    int   // lookups

	// Row id has the number id + offset, counted from owner 0's slot `slot`. That number
	// modulo owners is the row's owner. The number divided by owners is the distance of
	// the row's slot from that slot.
	slot, offset uint64
	span         uint64 // at least the number of slots of an owner
	// The table's buckets at the first owner begin with bucket first. Each has 1<<shift slots.
	first int
	shift uint8
}

// worker is the scratch memory of a thread.
type worker struct {
	// The lookups of a chunk, or their rows, by bucket, and the next place of each bucket. They
	// stay in the cache, while each bucket's lookups of all chunks are far apart.
	near, next []uint32
	weight     []float32
	// cells is, of each row of a bucket, the number of lookups, and then its position among
	// the rows << 32 | the position of its next lookup. words are lookups to be sorted.
	cells, words []uint64
	sort         sorter
}

const (
	// bucketRows is at least the number of slots of a bucket, as bits, so that the counters of
	// its rows stay in the cache.
	bucketRows = 15
	// bucketLookups is the least number of lookups of a table for each bucket.
	bucketLookups = 1 << 12
	// largeBucket is the number of lookups from which on a bucket is begun before others, so
	// that no thread is left alone with one.
	largeBucket = 1 << 16
	// chunkLookups is about the number of lookups of a chunk.
	chunkLookups = 1 << 16
	// blockLookups is about the number of lookups of a block of samples: their ids fit the
	// innermost cache.
	blockLookups = 1 << 12
	// bucketsCopied is how many buckets one part copies.
	bucketsCopied = 8
)

// FillerOptions configure a Filler.
type FillerOptions struct {
	// Threads run the parts of a plan; nil: the thread of the caller.
	Threads Threads
	// HugePages is as in WindowOptions.
	HugePages func(memory []uint32)
}

// NewFiller returns a Filler.
func NewFiller(o FillerOptions) *Filler {
	threads := o.Threads
	if threads == nil {
		threads = Caller{}
	}
	if o.HugePages == nil {
		o.HugePages = func([]uint32) {}
	}
	x := &Filler{threads: threads, hugePages: o.HugePages, workers: make([]worker, threads.Count())}
	x.countFeatures = func(_, chunk int) { x.countFeaturesOf(chunk) }
	x.countChunk = func(_, chunk int) { x.countLookupsOf(chunk) }
	x.dealChunk = func(w, chunk int) { x.dealLookupsOf(&x.workers[w], chunk) }
	x.listBucket = func(w, i int) { x.listRows(&x.workers[w], int(x.full[i])) }
	x.finish = func(w, i int) {
		if i -= x.chunks; i < 0 { // chunks take longer
			x.collectRowsOf(&x.workers[w], i+x.chunks)
		} else {
			x.copyBuckets(i)
		}
	}
	return x
}

// cutChunks cuts the samples into chunks, and checks the lookups.
func (x *Filler) cutChunks(m placement.Map) {
	l := x.lookups
	x.features = m.Tables()
	if l.TableOf != nil {
		x.features = len(l.TableOf)
	}
	cells := len(l.IDs)
	if l.Offsets != nil {
		cells = len(l.Offsets) - 1
	}
	if cells%x.features != 0 || l.Offsets != nil && int(l.Offsets[cells]) != len(l.IDs) || l.Weights != nil && len(l.Weights) != len(l.IDs) {
		panic(fmt.Sprintf("oracle: %d cells of %d features with %d ids and %d weights", cells, x.features, len(l.IDs), len(l.Weights)))
	}
	x.samples = cells / x.features
	each := float64(x.samples) / float64(max(1, len(l.IDs))) // samples of a lookup
	x.blockSamples = max(1, int(blockLookups*each))
	x.chunkLength = max(1, int(chunkLookups*each))
	x.chunks = max(1, (x.samples+x.chunkLength-1)/x.chunkLength)
	x.ofFeature = resize(x.ofFeature, x.chunks*x.features)
}

// chunk returns the samples of a chunk.
func (x *Filler) chunk(i int) (first, end int) {
	return i * x.chunkLength, min((i+1)*x.chunkLength, x.samples)
}

// countFeaturesOf counts the lookups of each feature in a chunk.
func (x *Filler) countFeaturesOf(chunk int) {
	first, end := x.chunk(chunk)
	of := x.ofFeature[chunk*x.features:][:x.features]
	if x.lookups.Offsets == nil {
		for f := range of {
			of[f] = uint32(end - first)
		}
		return
	}
	clear(of)
	for s := first; s < end; s++ {
		offsets := x.lookups.Offsets[s*x.features:][:len(of)+1]
		last := offsets[0]
		for f := range of {
			next := offsets[f+1]
			of[f] += uint32(next - last)
			last = next
		}
	}
}

// cutTables cuts the rows of the tables into buckets.
func (x *Filler) cutTables(m placement.Map) {
	x.tables = resize(x.tables, m.Tables())
	for t := range x.tables {
		x.tables[t].from, x.tables[t].n = x.tables[t].from[:0], 0
	}
	for f := range x.features {
		c := &x.tables[x.lookups.tableOf(f)]
		c.from = append(c.from, f)
		for chunk := range x.chunks {
			c.n += int(x.ofFeature[chunk*x.features+f])
		}
	}
	x.owners, x.perOwner = m.Owners, 0
	for t := range x.tables {
		c := &x.tables[t]
		base, owners := uint64(m.Base[t]), uint64(m.Owners)
		c.slot, c.offset, c.first, c.shift = base/owners, base%owners, x.perOwner, bucketRows
		c.span = (uint64(m.TableRows(t))+c.offset)/owners + 1
		most := uint64(max(1, c.n/m.Owners/bucketLookups))
		for c.span>>c.shift >= most {
			c.shift++
		}
		x.perOwner += int(c.span>>c.shift) + 1
	}
	x.all = x.perOwner * m.Owners
	n := len(x.lookups.IDs)
	x.places, x.begin = resize(x.places, x.chunks*x.all), resize(x.begin, x.all+1)
	if cap(x.dealt) < 2*n {
		x.dealt = make([]uint32, 2*n+n/2)
		x.hugePages(x.dealt)
	}
	x.dealt, x.weight = x.dealt[:2*n], resize(x.weight, len(x.lookups.Weights))
	x.room, x.rows, x.firstOf = resize(x.room, x.all), resize(x.rows, x.all), resize(x.firstOf, x.all)
}

// placeBuckets places the lookups of all buckets, and within a bucket those of all chunks.
func (x *Filler) placeBuckets() {
	next := x.begin[:x.all]
	clear(next)
	for i := range x.chunks {
		for b, n := range x.places[i*x.all:][:len(next)] {
			next[b] += n
		}
	}
	sum := uint32(0)
	for b, n := range next {
		next[b] = sum
		sum += n
	}
	x.begin[x.all] = sum
	for i := range x.chunks {
		places := x.places[i*x.all:][:len(next)]
		for b, n := range places {
			places[b] = next[b]
			next[b] += n
		}
	}
	copy(x.begin[1:], next) // each has advanced to the begin of the next
	x.begin[0] = 0
}

// orderBuckets lists the buckets that have lookups, and makes room for their rows.
func (x *Filler) orderBuckets() {
	x.full = x.full[:0]
	for b := range x.all {
		if x.begin[b+1]-x.begin[b] >= largeBucket {
			x.full = append(x.full, int32(b))
		}
	}
	room := uint32(0)
	for b := range x.all {
		n := x.begin[b+1] - x.begin[b]
		x.room[b], x.rows[b] = room, 0
		if n > 0 && n < largeBucket {
			x.full = append(x.full, int32(b))
		}
		if n > 0 {
			_, c := x.tableOf(b)
			room += uint32(min(uint64(n), 1<<c.shift)) + 1 // rows are listed without a branch
		}
	}
	x.slots, x.start = resize(x.slots, int(room)), resize(x.start, int(room))
}

// tableOf returns the table of a bucket, and the number of the bucket among those of the table
// at its owner.
func (x *Filler) tableOf(b int) (in int, c *buckets) {
	b %= x.perOwner
	lo, hi := 0, len(x.tables)
	for hi-lo > 1 { // tables[lo].first <= b
		if mid := (lo + hi) / 2; x.tables[mid].first <= b {
			lo = mid
		} else {
			hi = mid
		}
	}
	return b - x.tables[lo].first, &x.tables[lo]
}

// numberRows numbers the rows of all buckets, and returns how many there are.
func (x *Filler) numberRows(owners int) int {
	x.plan.PerOwner = resize(x.plan.PerOwner, owners)
	sum, b := uint32(0), 0
	for o := range owners {
		first := sum
		for range x.perOwner {
			x.firstOf[b] = sum
			sum += x.rows[b]
			b++
		}
		x.plan.PerOwner[o] = int(sum - first)
	}
	x.copies = (len(x.full) + bucketsCopied - 1) / bucketsCopied
	return int(sum)
}

// copyBuckets copies the rows of some buckets to the plan.
func (x *Filler) copyBuckets(part int) {
	for _, b := range x.full[part*bucketsCopied : min((part+1)*bucketsCopied, len(x.full))] {
		from, to, n := x.room[b], x.firstOf[b], x.rows[b]
		copy(x.plan.Slots[to:], x.slots[from:from+n])
		copy(x.plan.Start[to:], x.start[from:from+n])
	}
}
