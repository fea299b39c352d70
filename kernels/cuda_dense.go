package kernels

import (
	"fmt"
	"unsafe"
)

// elementThreads is the number of threads of a block in which each thread takes one element
// at a time.
const elementThreads = 256

func (s *cudaStream) CopyColumns(dst, src Matrix) {
	const op = "CopyColumns"
	d := s.matrixOf(op, "dst", dst, src.Rows, src.Cols)
	s.runColumns(kernelColumns, d, s.matrixOf(op, "src", src, src.Rows, src.Cols), src.Rows, src.Cols)
}

func (s *cudaStream) GateReLU(dy, y Matrix) {
	const op = "GateReLU"
	d := s.matrixOf(op, "dy", dy, y.Rows, y.Cols)
	s.runColumns(kernelGate, d, s.matrixOf(op, "y", y, y.Rows, y.Cols), y.Rows, y.Cols)
}

func (s *cudaStream) runColumns(k cudaKernel, dst, src cudaMat, rows, cols int) {
	if rows == 0 || cols == 0 {
		return
	}
	p := cudaColumns{dst: dst, src: src, rows: int64(rows), cols: int32(cols)}
	x, y := threadsOf(cols)
	if k == kernelColumns {
		x, y = columnThreads(&p.wide, cols, dst, src)
	}
	s.launchKernel(k, s.blocksOf(rows, y), x, y, 0, unsafe.Pointer(&p))
}

// columnThreads returns the form of a block for columns of rows, which sets wide if the kernel moves
// four of them at a time.
func columnThreads(wide *int32, cols int, all ...cudaMat) (x, y int) {
	if by4(cols, all...) {
		*wide, cols = 1, cols/4
	}
	return threadsOf(cols)
}

func (s *cudaStream) MulAdd(dst, a, b, c Matrix) {
	const op = "MulAdd"
	rows, cols := dst.Rows, dst.Cols
	checkFactor(op, b, rows, cols)
	checkAddend(op, c, rows, cols)
	p := cudaMulAdd{dst: s.matrixOf(op, "dst", dst, rows, cols), a: s.matrixOf(op, "a", a, rows, cols),
		b: s.matrixOf(op, "b", b, rows, b.Cols), rows: int64(rows), cols: int32(cols), bCols: int32(b.Cols)}
	if c.Buf.bytes > 0 {
		p.c = s.matrixOf(op, "c", c, c.Rows, cols)
		if c.Rows == 1 {
			p.c.stride = 0
		}
	}
	if rows == 0 || cols == 0 {
		return
	}
	all := []cudaMat{p.dst, p.a, p.c, p.b}
	if b.Cols == 1 && cols > 1 {
		all = all[:3]
	}
	x, y := columnThreads(&p.wide, cols, all...)
	s.launchKernel(kernelMulAdd, s.blocksOf(rows, y), x, y, 0, unsafe.Pointer(&p))
}

func (s *cudaStream) Sum(dst Buffer, addends []Buffer) {
	const op = "Sum"
	n := dst.Floats()
	if len(addends) == 0 {
		panic("kernels: Sum of nothing")
	}
	s.pointers = s.pointers[:0]
	for i := range addends {
		if addends[i].Floats() != n {
			panic(fmt.Sprintf("kernels: Sum of %d floats to %d", addends[i].Floats(), n))
		}
		s.pointers = append(s.pointers, uint64(s.addressOf(op, "addend", addends[i])))
	}
	if n == 0 {
		return
	}
	p := cudaSum{dst: s.addressOf(op, "dst", dst), from: s.stageList(BytesOf(s.pointers)), n: int64(n), addends: int32(len(addends))}
	bits := p.dst
	for _, from := range s.pointers {
		bits |= uintptr(from)
	}
	if by4(n, cudaMat{p: bits}) {
		p.wide, n = 1, n/4
	}
	s.launchKernel(kernelSum, s.blocksOf(n, elementThreads), elementThreads, 1, 0, unsafe.Pointer(&p))
}

func (s *cudaStream) Linear(y, x, w Matrix, b Buffer, act Activation) {
	const op = "Linear"
	p := cudaProduct{m: int32(y.Rows), n: int32(y.Cols), k: int32(x.Cols)}
	p.c = s.matrixOf(op, "y", y, y.Rows, y.Cols)
	p.a = s.matrixOf(op, "x", x, y.Rows, x.Cols)
	p.b = s.matrixOf(op, "w", w, y.Cols, x.Cols)
	if b.bytes > 0 {
		p.bias = s.vectorOf(op, "b", b, y.Cols)
	}
	if act == ReLU {
		p.relu = 1
	}
	s.runProduct(kernelLinear, &p)
}

func (s *cudaStream) LinearGradInput(dx, dy, w, gate Matrix) {
	const op = "LinearGradInput"
	p := cudaProduct{m: int32(dx.Rows), n: int32(dx.Cols), k: int32(dy.Cols)}
	p.c = s.matrixOf(op, "dx", dx, dx.Rows, dx.Cols)
	p.a = s.matrixOf(op, "dy", dy, dx.Rows, dy.Cols)
	p.b = s.matrixOf(op, "w", w, dy.Cols, dx.Cols)
	if gate.Buf.bytes > 0 {
		p.gate = s.matrixOf(op, "gate", gate, dx.Rows, dx.Cols)
	}
	s.runProduct(kernelGradInput, &p)
}

func (s *cudaStream) LinearGradWeight(dw Matrix, db Buffer, dy, x Matrix) {
	const op = "LinearGradWeight"
	p := cudaProduct{m: int32(dw.Rows), n: int32(dw.Cols), k: int32(dy.Rows)}
	p.c = s.matrixOf(op, "dw", dw, dw.Rows, dw.Cols)
	p.a = s.matrixOf(op, "dy", dy, dy.Rows, dw.Rows)
	p.b = s.matrixOf(op, "x", x, dy.Rows, dw.Cols)
	if db.bytes > 0 {
		p.sums = s.vectorOf(op, "db", db, dw.Rows)
	}
	s.runProduct(kernelGradWeight, &p)
}

// vectorOf returns the address of b. It panics unless b holds at least n floats.
func (s *cudaStream) vectorOf(op, name string, b Buffer, n int) uintptr {
	if b.Floats() < n {
		panic(fmt.Sprintf("kernels: %s: %s holds %d floats, want %d", op, name, b.Floats(), n))
	}
	return s.addressOf(op, name, b)
}

// cudaTile is one way to cut a product: into tiles of m x n, each computed by a block of threads
// with shared bytes. The other fields are cycles of an H200 for one link of all chains: of a
// multiprocessor with one block, with two, and for each block of many.
type cudaTile struct{ m, n, threads, shared, one, two, each int }

// productTiles are the tiles of cuda/gemm.cu. Cycles are as measured (bench/results/2026-11-27-gpu-tiles.txt):
// of the first tile and of many for the other two products, else for gradients of weights.
var productTiles = [...]cudaTile{
	{m: 128, n: 128, threads: 256, shared: tileBytes(128, 128, 16, 3, 1), one: 213, two: 213, each: 107},
	{m: 128, n: 64, threads: 128, shared: tileBytes(128, 64, 32, 2, 1), one: 130, two: 208, each: 56},
	{m: 64, n: 64, threads: 256, shared: tileBytes(64, 64, 56, 2, 2), one: 72, two: 125, each: 60},
	{m: 64, n: 32, threads: 128, shared: tileBytes(64, 32, 48, 3, 2), one: 47, two: 70, each: 35},
	{m: 32, n: 32, threads: 128, shared: tileBytes(32, 32, 64, 3, 4), one: 31, two: 46, each: 19},
	{m: 16, n: 16, threads: 128, shared: tileBytes(16, 16, 128, 3, 8), one: 17, two: 26, each: 13},
}

// tileBytes returns the shared memory of a tile: stages slices of depth, and the links that a
// thread reads ahead of the last.
func tileBytes(m, n, depth, stages, links int) int { return 4 * (m + n + 8) * (stages*depth + links) }

// cyclesPerLink estimates the cycles that a GPU takes for one link of the chains of (m, n)
// elements: those of its busiest multiprocessor.
func (t cudaTile) cyclesPerLink(m, n, processors int) int {
	switch blocks := (t.blockCount(m, n) + processors - 1) / processors; blocks {
	case 0, 1:
		return t.one
	case 2:
		return t.two
	default:
		return max(t.two, blocks*t.each)
	}
}

func (t cudaTile) blockCount(m, n int) int { return (m + t.m - 1) / t.m * ((n + t.n - 1) / t.n) }

// mostStride is the greatest stride of operands: their offsets in a tile fit 32 bits.
const mostStride = 1 << 23

// runProduct runs a product as CUDAConfig.BLAS asks for.
func (s *cudaStream) runProduct(k cudaKernel, p *cudaProduct) {
	switch {
	case p.m == 0 || p.n == 0 || p.k == 0:
		s.runChains(k, p)
	case s.d.cublas != nil:
		s.runBLAS(k, p)
	case s.d.blas == exactTC:
		s.runPieces(k, p)
	default:
		s.runChains(k, p)
	}
}

// runChains runs a product of chains of FMAs in the tiles with the least estimated time. All tiles
// give the same bits.
func (s *cudaStream) runChains(k cudaKernel, p *cudaProduct) {
	for _, x := range []cudaMat{p.a, p.b} {
		if x.stride > mostStride {
			s.setError(fmt.Errorf("%s of rows that are %d floats apart: the limit is %d", cudaNames[k], x.stride, mostStride))
		}
	}
	for i, all := range [][]cudaMat{{p.c, p.gate}, {p.a}, {p.b}} {
		if by4(0, all...) {
			p.wide |= 1 << i
		}
	}
	m, n := int(p.m), int(p.n)
	best := s.tile - 1
	if s.tile == 0 || s.d.blas == exactTC {
		best = bestTile(m, n, s.d.Processors)
	}
	t := productTiles[best]
	blocks := t.blockCount(m, n)
	if p.sums != 0 {
		blocks += t.blockCount(m, 1) // for the column sums
	}
	s.launchKernel(k+cudaKernel(best), blocks, t.threads, 1, t.shared, unsafe.Pointer(p))
}

// bestTile returns the index in productTiles of the tile with the least estimated time.
func bestTile(m, n, processors int) (best int) {
	for i, t := range productTiles {
		if t.cyclesPerLink(m, n, processors) < productTiles[best].cyclesPerLink(m, n, processors) {
			best = i
		}
	}
	return best
}

func (s *cudaStream) SigmoidBCE(loss, dlogit, logit, label Buffer, scale float32) {
	s.crossEntropy("SigmoidBCE", loss, dlogit, logit, label, Buffer{}, 1, scale)
}

func (s *cudaStream) WeightedSigmoidBCE(loss, dlogit, logit, label, weight Buffer, positive, scale float32) {
	s.crossEntropy("WeightedSigmoidBCE", loss, dlogit, logit, label, weight, positive, scale)
}

func (s *cudaStream) crossEntropy(op string, loss, dlogit, logit, label, weight Buffer, positive, scale float32) {
	n := logit.Floats()
	if loss.Floats() != n || dlogit.Floats() != n || label.Floats() != n || weight.Bytes() > 0 && weight.Floats() != n {
		panic(fmt.Sprintf("kernels: %s of %d logits, %d labels to %d losses, %d gradients, with %d weights",
			op, n, label.Floats(), loss.Floats(), dlogit.Floats(), weight.Floats()))
	}
	p := cudaLoss{loss: s.addressOf(op, "loss", loss), out: s.addressOf(op, "dlogit", dlogit), logit: s.addressOf(op, "logit", logit),
		label: s.indexAddress(op, "label", label, n), n: int64(n), scale: scale, positive: positive}
	if weight.Bytes() > 0 {
		p.weight = s.indexAddress(op, "weight", weight, n)
	}
	s.launchKernel(kernelLoss, s.blocksOf(n, elementThreads), elementThreads, 1, 0, unsafe.Pointer(&p))
}

func (s *cudaStream) Sigmoid(p, z Buffer) {
	const op = "Sigmoid"
	n := z.Floats()
	if p.Floats() != n {
		panic(fmt.Sprintf("kernels: Sigmoid of %d logits to %d", n, p.Floats()))
	}
	l := cudaLoss{out: s.addressOf(op, "p", p), logit: s.addressOf(op, "z", z), n: int64(n)}
	s.launchKernel(kernelSigmoid, s.blocksOf(n, elementThreads), elementThreads, 1, 0, unsafe.Pointer(&l))
}

func (s *cudaStream) UpdateDense(opt Optimizer, w, state, g Buffer) {
	const op = "UpdateDense"
	n := w.Floats()
	if g.Floats() != n || state.Floats() != opt.Kind.DenseState(n) {
		panic(fmt.Sprintf("kernels: %s of %d weights with %d gradients and %d floats of state", op, n, g.Floats(), state.Floats()))
	}
	p := cudaUpdateDense{opt: cudaOptimizerOf(opt), n: int64(n), fault: uintptr(s.fault.ptr),
		w: s.addressOf(op, "w", w), state: s.addressOf(op, "state", state), g: s.addressOf(op, "g", g)}
	s.launchKernel(kernelUpdateDense, s.blocksOf(n, elementThreads), elementThreads, 1, 0, unsafe.Pointer(&p))
}

func cudaOptimizerOf(o Optimizer) cudaOptimizer {
	scale := float32(1)
	if o.scales() {
		scale = o.Scale
	}
	return cudaOptimizer{int32(o.Kind), o.LR, o.Momentum, o.Eps, o.Beta1, o.Beta2, o.C1, o.C2, o.StepSize, o.BiasSqrt,
		o.Beta, o.L1, o.L2, scale, o.Decay, o.Keep}
}
