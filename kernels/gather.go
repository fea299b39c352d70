package kernels

import (
	"fmt"
	"math"
	"math/bits"
)

// rowCopy copies rows src row index[i*t + c] to dst row i, columns c*d to c*d+d,
// for i < rows and c < t. index goes on after them, so that what is read next
// can be asked for early.
type rowCopy struct {
	dst, src             []float32
	index                []int32
	rows, t, d           int
	dstStride, srcStride int // floats
	ahead                int // the lookup to ask for while one is copied
	stream               int // 1: write past the caches, see streams
}

// aheadFor is how many rows of d floats to ask for before they are used: enough
// bytes to keep every line fill buffer of a core busy.
func aheadFor(d int) int { return max(aheadBytes/(4*d), 4) }

const aheadBytes = 4096

// streams is 1 where dst is better written past the caches: it is too large to be
// found there, and its rows of d floats are whole cache lines. Half of the traffic
// of an ordinary write is the read of what it overwrites.
func streams(dst Matrix, d int) int {
	lines := (uintptr(dst.Buf.ptr)|uintptr(4*d)|uintptr(4*dst.Stride))%64 == 0
	if lines && 4*dst.Rows*dst.Cols >= streamBytes {
		return 1
	}
	return 0
}

const streamBytes = 8 << 20

func gatherPlain(c *rowCopy) {
	for i := range c.rows {
		for j, x := range c.index[i*c.t : i*c.t+c.t] {
			copy(c.dst[i*c.dstStride+j*c.d:][:c.d], c.src[int(x)*c.srcStride:])
		}
	}
}

func (s *stream) GatherRows(dst, src Matrix, index Buffer) {
	const op = "GatherRows"
	d := src.Cols
	if d == 0 || dst.Cols%d != 0 {
		panic(fmt.Sprintf("kernels: %s: dst has %d columns, no multiple of src's %d", op, dst.Cols, d))
	}
	t := dst.Cols / d
	out := elementsOf(op, "dst", dst, dst.Rows, dst.Cols)
	if len(out) == 0 {
		return
	}
	x := elementsOf(op, "src", src, src.Rows, d)
	ids := indexesOf(op, "index", index, dst.Rows*t)
	s.gathering = gatherTask{
		stream:  s,
		rowCopy: rowCopy{out, x, ids, dst.Rows, t, d, dst.Stride, src.Stride, aheadFor(d), streams(dst, d)},
		limit:   src.Rows,
		grain:   grainFor(4 * dst.Cols),
	}
	s.pool.run(tiles(dst.Rows, s.gathering.grain), &s.gathering)
	s.gathering = gatherTask{}
}

type gatherTask struct {
	stream *stream
	rowCopy
	limit, grain int
}

func (t *gatherTask) tile(worker, i int) {
	lo, hi := span(i, t.grain, t.rows)
	checkIndexes("GatherRows", "index", t.index[lo*t.t:hi*t.t], t.limit)
	c := &t.stream.workers[worker].copy
	*c = t.rowCopy
	c.dst, c.index, c.rows = c.dst[lo*c.dstStride:], c.index[lo*c.t:], hi-lo
	t.stream.gather(c)
	*c = rowCopy{} // no operand outlives its operation
}

// rowSum computes segment sums: dst row s = the sum, p from start[s] to
// start[s+1]-1 ascending, of lookup pos[p] of src, from +0.0, for s < n. Lookup l
// is the d floats of src row l/t at column (l mod t)*d.
type rowSum struct {
	dst, src        []float32
	start, pos      []int32
	n, d, dstStride int
	step, gap       int // lookup l begins at float l*step + l/t*gap of src
	ahead           int // the lookup to ask for while one is added

	// l/t is the high word of l*magic, for t > 1 and 0 <= l < 2^31 (Granlund and
	// Montgomery, "Division by invariant integers using multiplication", 1994).
	magic uint64
}

// setLookups sets what finds a lookup among t of them in each row of src.
func (s *rowSum) setLookups(t, srcStride int) {
	if t == 1 {
		s.step, s.gap, s.magic = srcStride, 0, 0
		return
	}
	s.step, s.gap, s.magic = s.d, srcStride-t*s.d, math.MaxUint64/uint64(t)+1
}

func sumRowsPlain(s *rowSum) {
	for i := range s.n {
		dst := s.dst[i*s.dstStride:][:s.d]
		clear(dst)
		for _, l := range s.pos[s.start[i]:s.start[i+1]] {
			row, _ := bits.Mul64(uint64(l), s.magic)
			addPlain(dst, s.src[int(l)*s.step+int(row)*s.gap:][:s.d])
		}
	}
}

func (s *stream) SumRows(dst, src Matrix, start, pos Buffer) {
	const op = "SumRows"
	if dst.Rows == 0 || dst.Cols == 0 {
		return
	}
	t := &s.summing
	*t = sumTask{stream: s}
	t.set(op, src, dst.Cols, start, pos, dst.Rows)
	t.dst, t.dstStride = elementsOf(op, "dst", dst, dst.Rows, dst.Cols), dst.Stride
	s.pool.run(t.tiles(), t)
	*t = sumTask{}
}

type sumTask struct {
	stream *stream
	rowSum
	limit int
}

// set takes the sources of n segments of sums over d floats.
func (t *sumTask) set(op string, src Matrix, d int, start, pos Buffer, n int) {
	if src.Cols%d != 0 {
		panic(fmt.Sprintf("kernels: %s: src has %d columns, no multiple of %d", op, src.Cols, d))
	}
	t.start = indexesOf(op, "start", start, n+1)
	checkStarts(op, t.start)
	t.pos = indexesOf(op, "pos", pos, int(t.start[n]))
	t.src, t.d, t.n, t.ahead = elementsOf(op, "src", src, src.Rows, src.Cols), d, n, aheadFor(d)
	lookups := max(src.Cols/d, 1)
	t.setLookups(lookups, src.Stride)
	t.limit = src.Rows * lookups
}

// sumGrain is how many lookups and segments a tile holds.
const sumGrain = 1024

func (t *sumTask) tiles() int { return tiles(t.n+int(t.start[t.n]), sumGrain) }

// segments is the segments [lo, hi) of tile i: tiles hold about the same number
// of segments and lookups together, for segments differ ten thousandfold.
func (t *sumTask) segments(i int) (lo, hi int) {
	lo, hi = t.segmentAt(i*sumGrain), t.segmentAt((i+1)*sumGrain)
	return lo, hi
}

// segmentAt is the first segment that at least so many segments and lookups precede.
func (t *sumTask) segmentAt(work int) int {
	lo, hi := 0, t.n
	for lo < hi {
		if mid := (lo + hi) / 2; mid+int(t.start[mid]) < work {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (t *sumTask) tile(worker, i int) {
	lo, hi := t.segments(i)
	s := &t.stream.workers[worker].sum
	*s = t.rowSum
	s.dst = s.dst[lo*s.dstStride:]
	t.sumSegments(s, "SumRows", lo, hi)
	*s = rowSum{}
}

// sumSegments sums segments [lo, hi) to the first rows of s.dst.
func (t *sumTask) sumSegments(s *rowSum, op string, lo, hi int) {
	if lo == hi {
		return
	}
	s.start, s.n = t.start[lo:], hi-lo
	checkIndexes(op, "pos", t.pos[t.start[lo]:t.start[hi]], t.limit)
	t.stream.sumRows(s)
}
