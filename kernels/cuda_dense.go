package kernels

import (
	"fmt"
	"unsafe"
)

// elementThreads is how many threads a block has whose threads take an element each.
const elementThreads = 256

func (s *cudaStream) CopyColumns(dst, src Matrix) {
	const op = "CopyColumns"
	d := s.matrix(op, "dst", dst, src.Rows, src.Cols)
	s.columns(kernelColumns, d, s.matrix(op, "src", src, src.Rows, src.Cols), src.Rows, src.Cols)
}

func (s *cudaStream) GateReLU(dy, y Matrix) {
	const op = "GateReLU"
	d := s.matrix(op, "dy", dy, y.Rows, y.Cols)
	s.columns(kernelGate, d, s.matrix(op, "y", y, y.Rows, y.Cols), y.Rows, y.Cols)
}

func (s *cudaStream) columns(k cudaKernel, dst, src cudaMat, rows, cols int) {
	if rows == 0 || cols == 0 {
		return
	}
	x, y := threadsOf(cols)
	p := cudaColumns{dst: dst, src: src, rows: int64(rows), cols: int32(cols)}
	s.run(k, s.blocksOf(rows, y), x, y, 0, unsafe.Pointer(&p))
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
		s.pointers = append(s.pointers, uint64(s.address(op, "addend", addends[i])))
	}
	if n == 0 {
		return
	}
	p := cudaSum{dst: s.address(op, "dst", dst), from: s.stage(BytesOf(s.pointers)), n: int64(n), addends: int32(len(addends))}
	s.run(kernelSum, s.blocksOf(n, elementThreads), elementThreads, 1, 0, unsafe.Pointer(&p))
}

func (s *cudaStream) Linear(y, x, w Matrix, b Buffer, act Activation) {
	const op = "Linear"
	p := cudaProduct{m: int32(y.Rows), n: int32(y.Cols), k: int32(x.Cols)}
	p.c, p.a, p.b = s.matrix(op, "y", y, y.Rows, y.Cols), s.matrix(op, "x", x, y.Rows, x.Cols), s.matrix(op, "w", w, y.Cols, x.Cols)
	if b.bytes > 0 {
		p.bias = s.vector(op, "b", b, y.Cols)
	}
	if act == ReLU {
		p.relu = 1
	}
	s.product(kernelLinear, &p)
}

func (s *cudaStream) LinearGradInput(dx, dy, w, gate Matrix) {
	const op = "LinearGradInput"
	p := cudaProduct{m: int32(dx.Rows), n: int32(dx.Cols), k: int32(dy.Cols)}
	p.c, p.a, p.b = s.matrix(op, "dx", dx, dx.Rows, dx.Cols), s.matrix(op, "dy", dy, dx.Rows, dy.Cols), s.matrix(op, "w", w, dy.Cols, dx.Cols)
	if gate.Buf.bytes > 0 {
		p.gate = s.matrix(op, "gate", gate, dx.Rows, dx.Cols)
	}
	s.product(kernelGradInput, &p)
}

func (s *cudaStream) LinearGradWeight(dw Matrix, db Buffer, dy, x Matrix) {
	const op = "LinearGradWeight"
	p := cudaProduct{m: int32(dw.Rows), n: int32(dw.Cols), k: int32(dy.Rows)}
	p.c, p.a, p.b = s.matrix(op, "dw", dw, dw.Rows, dw.Cols), s.matrix(op, "dy", dy, dy.Rows, dw.Rows), s.matrix(op, "x", x, dy.Rows, dw.Cols)
	if db.bytes > 0 {
		p.sums = s.vector(op, "db", db, dw.Rows)
	}
	s.product(kernelGradWeight, &p)
}

// vector is the first n floats of b.
func (s *cudaStream) vector(op, name string, b Buffer, n int) uintptr {
	if b.Floats() < n {
		panic(fmt.Sprintf("kernels: %s: %s holds %d floats, want %d", op, name, b.Floats(), n))
	}
	return s.address(op, name, b)
}

// tileOf is one way to cut a product: into tiles of side x side, a block of so many threads for
// each. For every link of its chains a thread does so many FMAs, and reads its operands by
// loads that each take the multiprocessor so many cycles for a warp; rest is what else it does,
// of the slices that come.
type tileOf struct{ side, threads, fmas, loads, cycles, rest int }

// productTiles are those of cuda/gemm.cu.
var productTiles = [...]tileOf{
	{side: 128, threads: 256, fmas: 64, loads: 4, cycles: 4, rest: 10},
	{side: 64, threads: 64, fmas: 64, loads: 4, cycles: 4, rest: 14},
	{side: 32, threads: 64, fmas: 16, loads: 2, cycles: 4, rest: 8},
	{side: 16, threads: 256, fmas: 1, loads: 2, cycles: 1, rest: 4},
}

// took is about how many cycles a GPU takes for a link of the chains of (m, n) elements: what
// the busiest of its multiprocessors, which start four warps' instructions a cycle, has to do.
func (t tileOf) took(m, n, processors int) int {
	blocks := t.blocks(m, n)
	each := (blocks + processors - 1) / processors
	warps, work := t.threads/32, t.fmas+t.loads+t.rest
	return max(each*warps*work/4, each*warps*t.loads*t.cycles, (warps+3)/4*work)
}

func (t tileOf) blocks(m, n int) int { return (m + t.side - 1) / t.side * ((n + t.side - 1) / t.side) }

// mostStride is how far apart rows may be whose places in a tile are counted in 32 bits.
const mostStride = 1 << 23

// product runs a product in the tiles that should take the least time. All give the same bits.
func (s *cudaStream) product(k cudaKernel, p *cudaProduct) {
	if s.products != nil && p.m > 0 && p.n > 0 && p.k > 0 {
		s.multiply(k, p)
		return
	}
	for _, x := range []cudaMat{p.a, p.b} {
		if x.stride > mostStride {
			s.fail(fmt.Errorf("%s of rows that are %d floats apart: at most %d work", cudaNames[k], x.stride, mostStride))
		}
	}
	if by4(0, p.c, p.gate) {
		p.wide = 1
	}
	m, n := int(p.m), int(p.n)
	if p.sums != 0 {
		n = max(n, 1) // column sums are there without columns
	}
	best := s.tile - 1
	if s.tile == 0 {
		best = bestTile(m, n, s.d.Processors)
	}
	s.run(k+cudaKernel(best), productTiles[best].blocks(m, n), productTiles[best].threads, 1, 0, unsafe.Pointer(p))
}

// bestTile is the place in productTiles of what should take the least time.
func bestTile(m, n, processors int) (best int) {
	for i, t := range productTiles {
		if t.took(m, n, processors) < productTiles[best].took(m, n, processors) {
			best = i
		}
	}
	return best
}

func (s *cudaStream) DotInteraction(out, feats Matrix, f, d int) {
	const op = "DotInteraction"
	p := cudaInteraction{samples: int64(feats.Rows), f: int32(f), d: int32(d), row: int32(d | 1)}
	p.out, p.feats = s.matrix(op, "out", out, feats.Rows, d+f*(f-1)/2), s.matrix(op, "feats", feats, feats.Rows, f*d)
	s.interact(op, kernelInteraction, &p, 4*f*int(p.row))
}

func (s *cudaStream) DotInteractionGrad(dfeats, dout, feats Matrix, f, d int) {
	const op = "DotInteractionGrad"
	p := cudaInteraction{samples: int64(feats.Rows), f: int32(f), d: int32(d), row: int32(d | 1)}
	p.out, p.feats, p.dfeats = s.matrix(op, "dout", dout, feats.Rows, d+f*(f-1)/2), s.matrix(op, "feats", feats, feats.Rows, f*d), s.matrix(op, "dfeats", dfeats, feats.Rows, f*d)
	s.interact(op, kernelInteractionGrad, &p, 4*f*(int(p.row)+f))
}

// interactionThreads is how many threads share a sample.
const interactionThreads = 128

func (s *cudaStream) interact(op string, k cudaKernel, p *cudaInteraction, shared int) {
	if p.samples == 0 {
		return
	}
	if shared > s.d.Shared {
		s.fail(fmt.Errorf("%s of %d vectors of %d floats takes %d bytes of shared memory, and %s has %d: use a smaller model.embedding_dim", op, p.f, p.d, shared, s.d.Context.Name, s.d.Shared))
		return
	}
	s.run(k, s.blocksOf(int(p.samples), 1), interactionThreads, 1, shared, unsafe.Pointer(p))
}

func (s *cudaStream) SigmoidBCE(loss, dlogit, logit, label Buffer, scale float32) {
	const op = "SigmoidBCE"
	n := logit.Floats()
	if loss.Floats() != n || dlogit.Floats() != n || label.Floats() != n {
		panic(fmt.Sprintf("kernels: %s of %d logits, %d labels to %d losses, %d gradients", op, n, label.Floats(), loss.Floats(), dlogit.Floats()))
	}
	p := cudaLoss{loss: s.address(op, "loss", loss), out: s.address(op, "dlogit", dlogit), logit: s.address(op, "logit", logit),
		label: s.indexes(op, "label", label, n), n: int64(n), scale: scale}
	s.run(kernelLoss, s.blocksOf(n, elementThreads), elementThreads, 1, 0, unsafe.Pointer(&p))
}

func (s *cudaStream) Sigmoid(p, z Buffer) {
	const op = "Sigmoid"
	n := z.Floats()
	if p.Floats() != n {
		panic(fmt.Sprintf("kernels: Sigmoid of %d logits to %d", n, p.Floats()))
	}
	l := cudaLoss{out: s.address(op, "p", p), logit: s.address(op, "z", z), n: int64(n)}
	s.run(kernelSigmoid, s.blocksOf(n, elementThreads), elementThreads, 1, 0, unsafe.Pointer(&l))
}

func (s *cudaStream) UpdateDense(opt Optimizer, w, state, g Buffer) {
	const op = "UpdateDense"
	n := w.Floats()
	if g.Floats() != n || state.Floats() != opt.Kind.DenseState(n) {
		panic(fmt.Sprintf("kernels: %s of %d weights with %d gradients and %d floats of state", op, n, g.Floats(), state.Floats()))
	}
	p := cudaUpdateDense{opt: cudaOptimizerOf(opt), n: int64(n), w: s.address(op, "w", w), state: s.address(op, "state", state), g: s.address(op, "g", g)}
	s.run(kernelUpdateDense, s.blocksOf(n, elementThreads), elementThreads, 1, 0, unsafe.Pointer(&p))
}

func cudaOptimizerOf(o Optimizer) cudaOptimizer {
	return cudaOptimizer{int32(o.Kind), o.LR, o.Momentum, o.Eps, o.Beta1, o.Beta2, o.C1, o.C2, o.StepSize, o.BiasSqrt}
}
