package kernels

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/blockcopy"
)

// tileBytes is about how much memory a tile of a simple operation touches: long
// beside claiming a tile (50 ns), short beside an operation worth splitting.
const tileBytes = 128 << 10

// stream is the CPU backend's Stream. Each operation fills in its task, so that
// the pool can run it without an allocation, and is done when it returns.
type stream struct {
	*bodies
	pool    *pool
	gemm    *gemm
	workers []worker

	copying       copyTask
	columns       columnsTask
	adding        addTask
	summed        [][]float32 // scratch of adding
	gathering     gatherTask
	scattering    scatterTask
	xoring        xorTask
	summing       sumTask
	updatingRows  updateRowsTask
	updatingDense updateDenseTask
	interacting   interactionTask
	losing        lossTask
	drawing       initRowsTask
}

// worker is the scratch of one thread.
type worker struct {
	copy  rowCopy
	sum   rowSum
	grads []float32
	inter interaction
	draw  drawer
	init  []float32 // one row's
	_     [64]byte  // apart from the next thread's
}

// Stream makes a stream that computes with this many threads.
func (c *cpuDevice) Stream(threads int) Stream {
	p := newPool(threads)
	return &stream{bodies: bodiesFor(c.isa), pool: p, gemm: newGemm(c.isa, p, c.blas), workers: make([]worker, p.threads)}
}

func (s *stream) Close()      { s.pool.close() }
func (s *stream) Sync() error { return nil }

func (s *stream) Linear(y, x, w Matrix, b Buffer, act Activation) { s.gemm.linear(y, x, w, b, act) }
func (s *stream) LinearGradInput(dx, dy, w, gate Matrix)          { s.gemm.gradInput(dx, dy, w, gate) }
func (s *stream) LinearGradWeight(dw Matrix, db Buffer, dy, x Matrix) {
	s.gemm.gradWeight(dw, db, dy, x)
}

// tiles is how many tiles of grain items n items make.
func tiles(n, grain int) int { return (n + grain - 1) / grain }

// span is the items [lo, hi) of tile i.
func span(i, grain, n int) (lo, hi int) { return i * grain, min((i+1)*grain, n) }

// grainFor is how many items of this many bytes make a tile.
func grainFor(itemBytes int) int { return max(tileBytes/max(itemBytes, 1), 1) }

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
	s.pool.run(tiles(dst.bytes, tileBytes), &s.copying)
	s.copying = copyTask{}
}

func (s *stream) copyBytes(op string, dst, src []byte) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("kernels: %s of %d bytes to %d", op, len(src), len(dst)))
	}
	s.copying = copyTask{dst, src}
	s.pool.run(tiles(len(dst), tileBytes), &s.copying)
	s.copying = copyTask{}
}

// copyTask copies src to dst, or clears dst where there is no src.
type copyTask struct{ dst, src []byte }

func (t *copyTask) tile(_, i int) {
	lo, hi := span(i, tileBytes, len(t.dst))
	if t.src == nil {
		clear(t.dst[lo:hi])
		return
	}
	blockcopy.Copy(t.dst[lo:hi], t.src[lo:hi], len(t.dst))
}

func (s *stream) CopyColumns(dst, src Matrix) {
	d := elementsOf("CopyColumns", "dst", dst, src.Rows, src.Cols)
	x := elementsOf("CopyColumns", "src", src, src.Rows, src.Cols)
	if len(d) == 0 {
		return
	}
	s.columns = columnsTask{d, x, dst.Stride, src.Stride, src.Rows, src.Cols, grainFor(4 * src.Cols)}
	s.pool.run(tiles(src.Rows, s.columns.grain), &s.columns)
	s.columns = columnsTask{}
}

type columnsTask struct {
	dst, src             []float32
	dstStride, srcStride int
	rows, cols, grain    int
}

func (t *columnsTask) tile(_, i int) {
	for r, hi := span(i, t.grain, t.rows); r < hi; r++ {
		copy(t.dst[r*t.dstStride:][:t.cols], t.src[r*t.srcStride:])
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
	s.adding = addTask{s.bodies, d, from}
	s.pool.run(tiles(len(d), tileBytes/4), &s.adding)
	s.adding = addTask{}
	clear(from)
	s.summed = from
}

type addTask struct {
	*bodies
	dst  []float32
	from [][]float32
}

func (t *addTask) tile(_, i int) {
	lo, hi := span(i, tileBytes/4, len(t.dst))
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
