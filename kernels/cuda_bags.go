package kernels

import (
	"fmt"
	"math"
	"unsafe"
)

func (s *cudaStream) PoolRows(dst, src Matrix, index, offsets, weights Buffer) {
	const op = "PoolRows"
	p, ok := s.bagsOf(op, dst, src.Cols, offsets)
	if !ok {
		return
	}
	n := index.Floats()
	checkWeights(op, weights, n)
	p.src, p.index = s.matrixOf(op, "src", src, src.Rows, src.Cols), s.indexAddress(op, "index", index, n)
	p.lookups, p.limit = int64(n), int64(src.Rows)
	if weights.Bytes() > 0 {
		p.weights = s.indexAddress(op, "weights", weights, n)
	}
	k, lanes := kernelPool, src.Cols
	if by4(lanes, p.dst, p.src) {
		k, lanes = kernelPool4, lanes/4
	}
	s.launchBags(k, lanes, &p)
}

func (s *cudaStream) DivideCells(m Matrix, d int, offsets, mean Buffer) {
	const op = "DivideCells"
	p, ok := s.bagsOf(op, m, d, offsets)
	if !ok {
		return
	}
	p.mean, p.lookups = s.indexAddress(op, "mean", mean, int(p.features)), math.MaxInt32
	s.launchBags(kernelDivide, d, &p)
}

// bagsOf describes the cells of a matrix. It reports whether there are any.
func (s *cudaStream) bagsOf(op string, m Matrix, d int, offsets Buffer) (p cudaBags, ok bool) {
	features := checkCells(op, m, d)
	p = cudaBags{dst: s.matrixOf(op, "dst", m, m.Rows, m.Cols), fault: uintptr(s.fault.ptr),
		cells: int64(m.Rows) * int64(features), features: int32(features), d: int32(d), by: divisorOf(features)}
	if p.dst.p == 0 {
		return p, false
	}
	if p.cells >= math.MaxInt32 {
		s.setError(fmt.Errorf("%s of %d cells: the limit is %d", op, p.cells, math.MaxInt32-1))
		return p, false
	}
	p.offsets = s.indexAddress(op, "offsets", offsets, int(p.cells)+1)
	return p, true
}

// launchBags starts a kernel with a group of threads for each cell.
func (s *cudaStream) launchBags(k cudaKernel, lanes int, p *cudaBags) {
	x, y := threadsOf(lanes)
	s.launchKernel(k, s.blocksOf(int(p.cells), y), x, y, 0, unsafe.Pointer(p))
}

func (s *cudaStream) SumWeighted(dst, src Matrix, start, pos, factors Buffer) {
	const op = "SumWeighted"
	if dst.Rows == 0 || dst.Cols == 0 {
		return
	}
	if n := factors.Floats(); n != pos.Floats() {
		panic(fmt.Sprintf("kernels: %s: %d factors for %d positions", op, n, pos.Floats()))
	}
	p := cudaSegments{dst: s.matrixOf(op, "dst", dst, dst.Rows, dst.Cols), op: opSumWeighted}
	if factors.Bytes() > 0 {
		p.factors = s.indexAddress(op, "factors", factors, factors.Floats())
	}
	s.sumSegments(op, &p, src, dst.Cols, start, pos, dst.Rows)
}
