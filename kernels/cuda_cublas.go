package kernels

import (
	"fmt"
	"unsafe"

	"github.com/ecrec/ecrec/internal/cuda"
)

// cublasModes are the values of CUDAConfig.BLAS beside "exact".
var cublasModes = map[string]cuda.Compute{"cublas": cuda.Float32, "cublas-tf32": cuda.TF32, "cublas-bf16": cuda.BFloat16}

// openBLAS opens cuBLAS, if products are to be its.
func (d *cudaDevice) openBLAS(name string) (err error) {
	if name == "" || name == "exact" {
		return nil
	}
	compute, ok := cublasModes[name]
	if !ok {
		return fmt.Errorf("kernels: blas %q is unknown; want exact, cublas, cublas-tf32 or cublas-bf16", name)
	}
	d.blas, d.compute = name, compute
	if d.cublas, err = cuda.OpenCUBLAS(); err != nil {
		return fmt.Errorf("kernels: blas %q: %w", name, err)
	}
	return nil
}

// multiply is product by cuBLAS, which stores by columns: it computes the transpose of C, of the
// operands' as they lie. What follows the product are kernels of ours; column sums are added up
// in chunks, each in order, then over chunks.
func (s *cudaStream) multiply(k cudaKernel, p *cudaProduct) {
	stored := func(m cudaMat, transposed bool) cuda.Operand {
		return cuda.Operand{At: m.p, Stride: int(m.stride), Transposed: transposed}
	}
	s.busy = true
	s.fail(s.products.Multiply(int(p.n), int(p.m), int(p.k), stored(p.c, false), stored(p.b, k == kernelLinear), stored(p.a, k == kernelGradWeight)))
	switch {
	case k == kernelLinear && (p.bias != 0 || p.relu != 0):
		x, y := threadsOf(int(p.n))
		follow := cudaFollow{y: p.c, bias: p.bias, rows: int64(p.m), cols: p.n, relu: p.relu}
		s.run(kernelAddBias, s.blocksOf(int(p.m), y), x, y, 0, unsafe.Pointer(&follow))
	case k == kernelGradInput && p.gate.p != 0:
		s.columns(kernelGate, p.c, p.gate, int(p.m), int(p.n))
	case k == kernelGradWeight && p.sums != 0:
		s.columnSums(p.sums, p.a, int(p.k), int(p.m))
	}
}

// sumChunk is how many rows are added up by a block.
const sumChunk = 256

func (s *cudaStream) columnSums(to uintptr, y cudaMat, rows, cols int) {
	chunks := (rows + sumChunk - 1) / sumChunk
	s.grow(&s.partial, 4*chunks*cols)
	if s.err != nil {
		return
	}
	partial := uintptr(s.partial.ptr)
	p := cudaColumnSums{y: y, sums: partial, rows: int64(rows), each: sumChunk, cols: int32(cols)}
	s.run(kernelColumnSums, s.blocksOf(chunks, 1), 256, 1, 0, unsafe.Pointer(&p))
	all := cudaColumnSums{y: cudaMat{partial, int64(cols)}, sums: to, rows: int64(chunks), each: int64(chunks), cols: int32(cols)}
	s.run(kernelColumnSums, 1, 256, 1, 0, unsafe.Pointer(&all))
}
