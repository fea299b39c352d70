package kernels

import (
	"fmt"
	"math"
)

// Bags: a cell of a matrix (b, f*d) is the d columns of a sample and a feature. The lookups of
// cell c, which are its bag, are numbers offsets[c] to offsets[c+1]-1.

// negativeZero is the number that changes nothing when another is added to it: a sum that starts
// there has the bits of its first addend.
var negativeZero = float32(math.Copysign(0, -1))

// checkBags panics unless m is cells of d columns with ascending offsets. It returns the number of
// features and the offsets.
func checkBags(op string, m Matrix, d int, offsets Buffer) (features int, at []int32) {
	features = checkCells(op, m, d)
	at = indexesOf(op, "offsets", offsets, m.Rows*features+1)
	checkStarts(op, at)
	return features, at
}

// checkCells panics unless m is cells of d columns. It returns the number of features.
func checkCells(op string, m Matrix, d int) (features int) {
	if d == 0 || m.Cols%d != 0 {
		panic(fmt.Sprintf("kernels: %s: cells of %d columns in %d", op, d, m.Cols))
	}
	return m.Cols / d
}

// checkWeights panics unless there are no weights or one for each of n lookups.
func checkWeights(op string, weights Buffer, n int) {
	if w := weights.Floats(); w != 0 && w != n {
		panic(fmt.Sprintf("kernels: %s: %d weights for %d lookups", op, w, n))
	}
}

func (s *stream) PoolRows(dst, src Matrix, index, offsets, weights Buffer) {
	const op = "PoolRows"
	d := src.Cols
	features, starts := checkBags(op, dst, d, offsets)
	out := elementsOf(op, "dst", dst, dst.Rows, dst.Cols)
	if len(out) == 0 {
		return
	}
	lookups := int(starts[len(starts)-1])
	checkWeights(op, weights, lookups)
	s.sums.pool = poolTask{
		stream: s,
		rowSum: rowSum{dst: out, src: elementsOf(op, "src", src, src.Rows, d), start: starts,
			pos: indexesOf(op, "index", index, lookups), factors: floatsOf(op, "weights", weights),
			d: d, dstStride: d, step: src.Stride, ahead: aheadFor(d), zero: negativeZero},
		features: features, samples: dst.Rows, stride: dst.Stride, limit: src.Rows,
		grain: grainFor(4 * d * max(features, lookups/dst.Rows)),
	}
	s.pool.runTask(partsOf(dst.Rows, s.sums.pool.grain), &s.sums.pool)
	s.sums.pool = poolTask{}
}

// sumTasks are the tasks of sums of lookups.
type sumTasks struct {
	rows   sumTask
	pool   poolTask
	divide divideTask
}

// poolTask pools the bags of samples. The cells of a sample are segments, whose positions are the
// lookups' rows.
type poolTask struct {
	stream *stream
	rowSum
	features, samples, stride int
	limit, grain              int
}

func (t *poolTask) runPart(worker, i int) {
	lo, hi := partSpan(i, t.grain, t.samples)
	checkIndexes("PoolRows", "index", t.pos[t.start[lo*t.features]:t.start[hi*t.features]], t.limit)
	s := &t.stream.workers[worker].sum
	*s = t.rowSum
	for r := lo; r < hi; r++ {
		s.dst, s.start, s.n = t.dst[r*t.stride:], t.start[r*t.features:], t.features
		t.stream.sumRows(s)
	}
	*s = rowSum{}
}

func sumWeightedPlain(s *rowSum) {
	for i := range s.n {
		dst := s.dst[i*s.dstStride:][:s.d]
		s.beginSum(dst, i)
		for p := s.start[i]; p < s.start[i+1]; p++ {
			f := s.factors[p]
			for j, x := range s.lookup(s.pos[p]) {
				dst[j] += float32(f * x)
			}
		}
	}
}

func (s *stream) SumWeighted(dst, src Matrix, start, pos, factors Buffer) {
	const op = "SumWeighted"
	if dst.Rows == 0 || dst.Cols == 0 {
		return
	}
	t := &s.sums.rows
	*t = sumTask{stream: s}
	t.setSources(op, src, dst.Cols, start, pos, dst.Rows)
	if n := factors.Floats(); n != len(t.pos) {
		panic(fmt.Sprintf("kernels: %s: %d factors for %d positions", op, n, len(t.pos)))
	}
	t.dst, t.dstStride, t.factors = elementsOf(op, "dst", dst, dst.Rows, dst.Cols), dst.Stride, floatsOf(op, "factors", factors)
	s.pool.runTask(t.partCount(), t)
	*t = sumTask{}
}

func (s *stream) DivideCells(m Matrix, d int, offsets, mean Buffer) {
	const op = "DivideCells"
	features, starts := checkBags(op, m, d, offsets)
	x := elementsOf(op, "m", m, m.Rows, m.Cols)
	if len(x) == 0 {
		return
	}
	s.sums.divide = divideTask{x: x, starts: starts, mean: indexesOf(op, "mean", mean, features), d: d, stride: m.Stride, samples: m.Rows,
		grain: grainFor(4 * m.Cols)}
	s.pool.runTask(partsOf(m.Rows, s.sums.divide.grain), &s.sums.divide)
	s.sums.divide = divideTask{}
}

type divideTask struct {
	x                         []float32
	starts, mean              []int32
	d, stride, samples, grain int
}

func (t *divideTask) runPart(_, i int) {
	for r, hi := partSpan(i, t.grain, t.samples); r < hi; r++ {
		starts := t.starts[r*len(t.mean):]
		for f, divide := range t.mean {
			n := starts[f+1] - starts[f]
			if divide == 0 || n < 2 {
				continue
			}
			by := float32(n)
			cell := t.x[r*t.stride+f*t.d:][:t.d]
			for j := range cell {
				cell[j] /= by
			}
		}
	}
}
