package kernels

import (
	"fmt"
	"unsafe"

	"github.com/ecrec/ecrec/internal/cuda"
)

// cublasModes are the values of CUDAConfig.BLAS that name cuBLAS.
var cublasModes = map[string]cuda.Compute{"cublas": cuda.Float32, "cublas-tf32": cuda.TF32, "cublas-bf16": cuda.BFloat16}

// openBLAS chooses the arithmetic of products, and opens cuBLAS if name is one of cublasModes.
func (d *cudaDevice) openBLAS(name string) (err error) {
	switch name {
	case "", "exact":
		return nil
	case exactTC:
		d.blas = name
		return nil
	}
	compute, ok := cublasModes[name]
	if !ok {
		return fmt.Errorf("kernels: blas %q is unknown; want exact, exact-tc, cublas, cublas-tf32 or cublas-bf16", name)
	}
	d.blas, d.compute = name, compute
	if d.cublas, err = cuda.OpenCUBLAS(); err != nil {
		return fmt.Errorf("kernels: blas %q: %w", name, err)
	}
	return nil
}

// runBLAS is runProduct with cuBLAS. cuBLAS stores matrices by columns, so it computes the
// transpose of C from the transposes of the operands, without moving any. Own kernels then apply
// bias, activation and gate. Column sums are added up in chunks, each in order, then over chunks.
func (s *cudaStream) runBLAS(k cudaKernel, p *cudaProduct) {
	stored := func(m cudaMat, transposed bool) cuda.Operand {
		return cuda.Operand{At: m.p, Stride: int(m.stride), Transposed: transposed}
	}
	openProducts(s)
	if s.err != nil {
		return
	}
	s.busy = true
	c, b, a := stored(p.c, false), stored(p.b, k == kernelLinear), stored(p.a, k == kernelGradWeight)
	s.setError(s.products.Multiply(int(p.n), int(p.m), int(p.k), c, b, a))
	switch {
	case k == kernelLinear && (p.bias != 0 || p.relu != 0):
		follow := cudaFollow{y: p.c, bias: p.bias, rows: int64(p.m), cols: p.n, relu: p.relu}
		x, y := columnThreads(&follow.wide, int(p.n), p.c, cudaMat{p: p.bias})
		s.launchKernel(kernelAddBias, s.blocksOf(int(p.m), y), x, y, 0, unsafe.Pointer(&follow))
	case k == kernelGradInput && p.gate.p != 0:
		s.runColumns(kernelGate, p.c, p.gate, int(p.m), int(p.n))
	case k == kernelGradWeight && p.sums != 0:
		s.columnSums(p.sums, p.a, int(p.k), int(p.m))
	}
}

// openProducts gives the stream cuBLAS's handle and workspace, for its first product. Other streams need none.
func openProducts(s *cudaStream) {
	if s.products == nil && s.err == nil {
		var err error
		s.products, err = s.d.Products(s.d.cublas, s.s, s.d.compute)
		s.setError(err)
	}
}

// sumChunk is the number of rows that a block adds up.
const sumChunk = 256

func (s *cudaStream) columnSums(to uintptr, y cudaMat, rows, cols int) {
	chunks := (rows + sumChunk - 1) / sumChunk
	s.growBuffer(&s.partial, 4*chunks*cols)
	if s.err != nil {
		return
	}
	partial := uintptr(s.partial.ptr)
	sumChunks(s, elementThreads, chunks, cudaColumnSums{y: y, sums: partial, rows: int64(rows), each: sumChunk, cols: int32(cols)})
	// The sums of chunks are few. Small blocks share their columns, since one block would leave the rest of the GPU idle.
	sumChunks(s, 32, 1, cudaColumnSums{y: cudaMat{partial, int64(cols)}, sums: to, rows: int64(chunks), each: int64(chunks), cols: int32(cols)})
}

// sumChunks adds up chunks of rows, with a number of threads in each block.
func sumChunks(s *cudaStream, threads, chunks int, p cudaColumnSums) {
	p.parts = int32((int(p.cols) + threads - 1) / threads)
	s.launchKernel(kernelColumnSums, s.blocksOf(chunks*int(p.parts), 1), threads, 1, 0, unsafe.Pointer(&p))
}
