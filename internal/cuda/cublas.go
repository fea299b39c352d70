//go:build cgo && linux

package cuda

/*
#include <stdlib.h>
#include "edge.h"

#cgo noescape ctx_cublas_gemm
#cgo nocallback ctx_cublas_gemm

static const char *cublas_error(cublas *b, int status) {
	return ((const char *(*)(int))(void *)b->cublasGetStatusString)(status);
}
*/
import "C"

import (
	"strings"
	"unsafe"
)

// CUBLAS is an open cuBLAS. It is safe for concurrent use.
type CUBLAS struct{ b C.cublas }

// OpenCUBLAS opens the newest installed cuBLAS. The error is a *Missing if there is none.
func OpenCUBLAS() (*CUBLAS, error) {
	b := new(CUBLAS)
	var reasons []string
	for _, path := range candidates(strings.Fields(cublasNames), folders()) {
		// cuBLAS loads its second library by name; the system's loader does not search its folder.
		for _, half := range besides(path, "libcublasLt.so.*") {
			name := C.CString(half)
			C.library_load(name)
			C.free(unsafe.Pointer(name))
		}
		name := C.CString(path)
		var failed *C.char
		lacks := C.cublas_open(&b.b, name, &failed)
		C.free(unsafe.Pointer(name))
		switch {
		case failed != nil:
			reasons = append(reasons, takeText(failed))
		case lacks != nil:
			reasons = append(reasons, path+" lacks "+C.GoString(lacks))
		default:
			return b, nil
		}
	}
	return nil, &Missing{"libcublas.so", strings.Join(reasons, "; ")}
}

// Compute is the arithmetic of cuBLAS's products.
type Compute int

// The values of cublasComputeType_t.
const (
	Float32  Compute = 69 // pedantic: float32 in every operation
	TF32     Compute = 77 // operands rounded to 10 bits of mantissa
	BFloat16 Compute = 75 // operands rounded to 7 bits
)

// Products multiplies matrices on a stream. It has its own workspace, so that repeats on one
// kind of GPU give the same bits.
type Products struct {
	lib       *CUBLAS
	c         *Context
	h         C.handle
	workspace unsafe.Pointer
	compute   Compute
}

// workspaceBytes is NVIDIA's recommendation for Hopper.
const workspaceBytes = 32 << 20

// Products makes a Products for a stream.
func (c *Context) Products(lib *CUBLAS, s *Stream, compute Compute) (*Products, error) {
	p := &Products{lib: lib, c: c, compute: compute}
	var err error
	if p.workspace, err = c.Alloc(workspaceBytes); err != nil {
		return nil, err
	}
	if err := lib.statusError("cublasCreate", C.ctx_cublas_create(&c.d, c.ctx, &lib.b, &p.h, s.s, address(p.workspace),
		workspaceBytes)); err != nil {
		_ = c.Release(p.workspace)
		return nil, err
	}
	return p, nil
}

// Close waits for the stream and frees p.
func (p *Products) Close() error {
	err := p.lib.statusError("cublasDestroy", C.ctx_cublas_close(&p.c.d, p.c.ctx, &p.lib.b, p.h))
	_ = p.c.Release(p.workspace)
	return err
}

// Operand is a matrix stored by columns, which a product may transpose.
type Operand struct {
	At         uintptr
	Stride     int
	Transposed bool
}

// Multiply sets to, (m, n) by columns, to the product of x, (m, k), and y, (k, n).
func (p *Products) Multiply(m, n, k int, to, x, y Operand) error {
	op := func(o Operand) C.int {
		if o.Transposed {
			return 1
		}
		return 0
	}
	return p.lib.statusError("cublasGemmEx", C.ctx_cublas_gemm(&p.c.d, p.c.ctx, &p.lib.b, p.h, op(x), op(y), C.int(m), C.int(n), C.int(k),
		C.device_ptr(x.At), C.int(x.Stride), C.device_ptr(y.At), C.int(y.Stride), C.device_ptr(to.At), C.int(to.Stride), C.int(p.compute)))
}

func (b *CUBLAS) statusError(call string, status C.int) error {
	switch {
	case status == 0:
		return nil
	case status < 0:
		return &Failure{call, "CUDA", "the context of the GPU cannot be used"}
	}
	return &Failure{call, "cuBLAS", C.GoString(C.cublas_error(&b.b, status))}
}
