package kernels

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/blockcopy"
)

// partBytes is the memory that a part of a simple operation touches, about. It takes
// much longer than claiming a part (50 ns), and much less than an operation worth
// splitting.
const partBytes = 128 << 10

// stream is the CPU backend's Stream. Each operation fills in the field of its task,
// so that the pool can run it without an allocation, and is done when it returns.
type stream struct {
	*innerLoops
	pool    *pool
	gemm    *gemm
	workers []worker

	copying copyTask
	columns columnsTask
	elementTasks
	summed        [][]float32 // scratch of adding
	gathering     gatherTask
	scattering    scatterTask
	xoring        xorTask
	sums          sumTasks
	updatingRows  updateRowsTask
	updatingDense updateDenseTask
	interacting   interactionTask
	losing        lossTask
	drawing       initRowsTask

	norming        normTask
	normed         []float32 // scratch of norming
	scaling        scaleTask
	dropping       dropTask
	factoring      factorTask
	scalingVectors numbersTask
}

// elementTasks are the tasks of operations on each element.
type elementTasks struct {
	adding      addTask
	multiplying mulAddTask
}

// worker is the scratch of one thread.
type worker struct {
	copy  rowCopy
	xor   rowXor
	sum   rowSum
	grads []float32
	inter interaction
	draw  drawer
	init  []float32 // one row's

	dropped rowDraw
	_       [64]byte // keeps the next thread's scratch in other cache lines
}

// Stream makes a stream that computes with this number of threads.
func (c *cpuDevice) Stream(threads int) Stream {
	p := newPool(threads)
	g := newGemm(c.isa, p, c.blas)
	g.pieces.of = c.pieces
	return &stream{innerLoops: loopsFor(c.isa), pool: p, gemm: g, workers: make([]worker, p.threads)}
}

func (s *stream) Close()      { s.pool.stopWorkers() }
func (s *stream) Sync() error { return nil }

func (s *stream) Linear(y, x, w Matrix, b Buffer, act Activation) {
	s.gemm.linearOutput(y, x, w, b, act)
}
func (s *stream) LinearGradInput(dx, dy, w, gate Matrix) { s.gemm.gradInput(dx, dy, w, gate) }
func (s *stream) LinearGradWeight(dw Matrix, db Buffer, dy, x Matrix) {
	s.gemm.gradWeight(dw, db, dy, x)
}

// partsOf returns the number of parts of grain items in n items.
func partsOf(n, grain int) int { return (n + grain - 1) / grain }

// partSpan returns the items [lo, hi) of part i.
func partSpan(i, grain, n int) (lo, hi int) { return i * grain, min((i+1)*grain, n) }

// grainFor returns the number of items of itemBytes in a part.
func grainFor(itemBytes int) int { return max(partBytes/max(itemBytes, 1), 1) }

func (s *stream) Upload(dst Buffer, src []byte) {
	checkHost("Upload", "dst", dst)
	s.copyBytes("Upload", dst.Host(), src)
}

func (s *stream) Download(dst []byte, src Buffer) {
	checkHost("Download", "src", src)
	s.copyBytes("Download", dst, src.Host())
}

func (s *stream) Copy(dst, src Buffer) {
	checkHost("Copy", "dst", dst)
	checkHost("Copy", "src", src)
	s.copyBytes("Copy", dst.Host(), src.Host())
}

func (s *stream) Zero(dst Buffer) {
	checkHost("Zero", "dst", dst)
	s.copying = copyTask{dst: dst.Host()}
	s.pool.runTask(partsOf(dst.bytes, partBytes), &s.copying)
	s.copying = copyTask{}
}

func (s *stream) copyBytes(op string, dst, src []byte) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("kernels: %s of %d bytes to %d", op, len(src), len(dst)))
	}
	s.copying = copyTask{dst, src}
	s.pool.runTask(partsOf(len(dst), partBytes), &s.copying)
	s.copying = copyTask{}
}

// copyTask copies src to dst, or clears dst if src is nil.
type copyTask struct{ dst, src []byte }

func (t *copyTask) runPart(_, i int) {
	lo, hi := partSpan(i, partBytes, len(t.dst))
	if t.src == nil {
		clear(t.dst[lo:hi])
		return
	}
	blockcopy.Copy(t.dst[lo:hi], t.src[lo:hi], len(t.dst))
}

func (s *stream) CopyColumns(dst, src Matrix) {
	const op = "CopyColumns"
	s.runColumns(columnsTask{dst: elementsOf(op, "dst", dst, src.Rows, src.Cols), dstStride: dst.Stride,
		src: elementsOf(op, "src", src, src.Rows, src.Cols), srcStride: src.Stride, rows: src.Rows, vectors: 1, d: src.Cols})
}

func (s *stream) ExtendVectors(dst, vectors, tail Matrix, d int) {
	const op = "ExtendVectors"
	f, rows, e := countVectors(op, vectors, d), vectors.Rows, tail.Cols
	s.runColumns(columnsTask{dst: elementsOf(op, "dst", dst, rows, f*(d+e)), dstStride: dst.Stride,
		src: elementsOf(op, "vectors", vectors, rows, f*d), srcStride: vectors.Stride,
		tail: elementsOf(op, "tail", tail, rows, e), tailStride: tail.Stride, rows: rows, vectors: f, d: d, e: e})
}

// countVectors returns the number of vectors of d floats in a row of m.
func countVectors(op string, m Matrix, d int) int {
	if d < 1 || m.Cols%d != 0 {
		panic(fmt.Sprintf("kernels: %s: %d columns of vectors of %d floats", op, m.Cols, d))
	}
	return m.Cols / d
}

// columnsTask copies the vectors of d floats of each row, each followed by the e floats of the row's tail.
type columnsTask struct {
	dst, src, tail                   []float32
	dstStride, srcStride, tailStride int
	rows, vectors, d, e, grain       int
}

func (s *stream) runColumns(t columnsTask) {
	if len(t.dst) == 0 {
		return
	}
	t.grain = grainFor(4 * t.vectors * (t.d + t.e))
	s.columns = t
	s.pool.runTask(partsOf(t.rows, t.grain), &s.columns)
	s.columns = columnsTask{}
}

func (t *columnsTask) runPart(_, i int) {
	for r, hi := partSpan(i, t.grain, t.rows); r < hi; r++ {
		dst, src := t.dst[r*t.dstStride:], t.src[r*t.srcStride:]
		var tail []float32
		if t.e > 0 {
			tail = t.tail[r*t.tailStride:][:t.e]
		}
		for v := range t.vectors {
			to := dst[v*(t.d+t.e):][:t.d+t.e]
			copy(to, src[v*t.d:][:t.d])
			for j, x := range tail { // mostly one: faster than a call
				to[t.d+j] = x
			}
		}
	}
}

func (s *stream) Sum(dst Buffer, addends []Buffer) {
	d := floatsOf("Sum", "dst", dst)
	if len(addends) == 0 {
		panic("kernels: Sum of nothing")
	}
	from := s.summed[:0]
	for i := range addends {
		x := floatsOf("Sum", "addend", addends[i])
		if len(x) != len(d) {
			panic(fmt.Sprintf("kernels: Sum of %d floats to %d", len(x), len(d)))
		}
		from = append(from, x)
	}
	s.adding = addTask{s.innerLoops, d, from}
	s.pool.runTask(partsOf(len(d), partBytes/4), &s.adding)
	s.adding = addTask{}
	clear(from)
	s.summed = from
}

type addTask struct {
	*innerLoops
	dst  []float32
	from [][]float32
}

func (t *addTask) runPart(_, i int) {
	lo, hi := partSpan(i, partBytes/4, len(t.dst))
	t.sum(t.dst[lo:hi], t.from, lo)
}

func sumPlain(dst []float32, from [][]float32, off int) {
	for i := range dst {
		sum := float32(0)
		for _, x := range from {
			sum += x[off+i]
		}
		dst[i] = sum
	}
}

// addPlain computes dst[i] += src[i].
func addPlain(dst, src []float32) {
	for i, x := range src {
		dst[i] += x
	}
}
