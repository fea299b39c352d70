package kernels

import (
	"fmt"
	"math"
	"math/bits"
)

// rowCopy copies src row index[i*t + c] to dst row i, columns c*d to c*d+d, for
// i < rows and c < t. index is longer than rows*t if more rows follow: they are
// prefetched.
type rowCopy struct {
	dst, src             []float32
	index                []int32
	rows, t, d           int
	dstStride, srcStride int // floats
	ahead                int // the distance of the lookup that is prefetched
	bypass               int // 1: write past the caches, see bypassCaches
}

// aheadFor returns the number of rows of d floats to prefetch: enough bytes to keep
// every line fill buffer of a core busy.
func aheadFor(d int) int { return max(aheadBytes/(4*d), 4) }

const aheadBytes = 4096

// bypassCaches returns 1 if dst is better written past the caches: it is too large
// to stay in them, and its rows of d floats fill cache lines exactly. An ordinary
// write first reads the line that it overwrites, which doubles the traffic.
func bypassCaches(dst Matrix, d int) int {
	lines := (uintptr(dst.Buf.ptr)|uintptr(4*d)|uintptr(4*dst.Stride))%64 == 0
	if lines && 4*dst.Rows*dst.Cols >= bypassBytes {
		return 1
	}
	return 0
}

const bypassBytes = 8 << 20

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
		rowCopy: rowCopy{out, x, ids, dst.Rows, t, d, dst.Stride, src.Stride, aheadFor(d), bypassCaches(dst, d)},
		limit:   src.Rows,
		grain:   grainFor(4 * dst.Cols),
	}
	s.pool.runTask(partsOf(dst.Rows, s.gathering.grain), &s.gathering)
	s.gathering = gatherTask{}
}

type gatherTask struct {
	stream *stream
	rowCopy
	limit, grain int
}

func (t *gatherTask) runPart(worker, i int) {
	lo, hi := partSpan(i, t.grain, t.rows)
	checkIndexes("GatherRows", "index", t.index[lo*t.t:hi*t.t], t.limit)
	c := &t.stream.workers[worker].copy
	*c = t.rowCopy
	c.dst, c.index, c.rows = c.dst[lo*c.dstStride:], c.index[lo*c.t:], hi-lo
	t.stream.gather(c)
	*c = rowCopy{} // no operand outlives its operation
}

// rowSum computes segment sums: dst row s = the sum, p from start[s] to
// start[s+1]-1 ascending, of lookup pos[p] of src, from zero, for s < n. An empty
// sum is +0.0. Lookup l is the d floats of src row l/t at column (l mod t)*d. If
// there are factors, each lookup is multiplied by factors[p] and rounded first.
type rowSum struct {
	dst, src        []float32
	start, pos      []int32
	factors         []float32
	zero            float32 // +0.0 or -0.0
	n, d, dstStride int
	step, gap       int // lookup l begins at float l*step + l/t*gap of src
	ahead           int // the distance of the lookup that is prefetched

	// l/t is the high word of l*magic, for t > 1 and 0 <= l < 2^31 (Granlund and
	// Montgomery, "Division by invariant integers using multiplication", 1994).
	magic uint64
}

// setLookups sets step, gap and magic for t lookups in each row of src.
func (s *rowSum) setLookups(t, srcStride int) {
	if t == 1 {
		s.step, s.gap, s.magic = srcStride, 0, 0
		return
	}
	s.step, s.gap, s.magic = s.d, srcStride-t*s.d, math.MaxUint64/uint64(t)+1
}

func sumRowsPlain(s *rowSum) {
	if len(s.factors) > 0 {
		sumWeightedPlain(s)
		return
	}
	for i := range s.n {
		dst := s.dst[i*s.dstStride:][:s.d]
		s.beginSum(dst, i)
		for _, l := range s.pos[s.start[i]:s.start[i+1]] {
			addPlain(dst, s.lookup(l))
		}
	}
}

// beginSum sets dst to the beginning of the sum of segment i.
func (s *rowSum) beginSum(dst []float32, i int) {
	clear(dst)
	if s.start[i] < s.start[i+1] {
		for j := range dst {
			dst[j] = s.zero
		}
	}
}

// lookup is the floats of lookup l.
func (s *rowSum) lookup(l int32) []float32 {
	row, _ := bits.Mul64(uint64(l), s.magic)
	return s.src[int(l)*s.step+int(row)*s.gap:][:s.d]
}

func (s *stream) SumRows(dst, src Matrix, start, pos Buffer) {
	const op = "SumRows"
	if dst.Rows == 0 || dst.Cols == 0 {
		return
	}
	t := &s.sums.rows
	*t = sumTask{stream: s}
	t.setSources(op, src, dst.Cols, start, pos, dst.Rows)
	t.dst, t.dstStride = elementsOf(op, "dst", dst, dst.Rows, dst.Cols), dst.Stride
	s.pool.runTask(t.partCount(), t)
	*t = sumTask{}
}

type sumTask struct {
	stream *stream
	rowSum
	op    string
	limit int
}

// setSources sets the operands of n segment sums over d floats.
func (t *sumTask) setSources(op string, src Matrix, d int, start, pos Buffer, n int) {
	t.op = op
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

// sumGrain is the number of lookups and segments in a part.
const sumGrain = 1024

func (t *sumTask) partCount() int { return partsOf(t.n+int(t.start[t.n]), sumGrain) }

// segmentsOf returns the segments [lo, hi) of part i. Parts hold about equal numbers
// of segments and lookups together, because the lengths of segments differ by a
// factor of ten thousand.
func (t *sumTask) segmentsOf(i int) (lo, hi int) {
	lo, hi = t.segmentAt(i*sumGrain), t.segmentAt((i+1)*sumGrain)
	return lo, hi
}

// segmentAt returns the first segment that at least work segments and lookups
// precede.
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

func (t *sumTask) runPart(worker, i int) {
	lo, hi := t.segmentsOf(i)
	if lo == hi {
		return // lo may be n, whose row lies outside dst
	}
	s := &t.stream.workers[worker].sum
	*s = t.rowSum
	s.dst = s.dst[lo*s.dstStride:]
	t.sumSegments(s, lo, hi)
	*s = rowSum{}
}

// sumSegments sums segments [lo, hi), one at least, to the first rows of s.dst.
func (t *sumTask) sumSegments(s *rowSum, lo, hi int) {
	s.start, s.n = t.start[lo:], hi-lo
	checkIndexes(t.op, "pos", t.pos[t.start[lo]:t.start[hi]], t.limit)
	t.stream.sumRows(s)
}
