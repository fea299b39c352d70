//go:build !cgo || !linux

package openblas

import (
	"errors"
	"unsafe"
)

// Library is an open OpenBLAS; there is none in this build.
type Library struct{}

// Open returns the error that this build cannot open OpenBLAS.
func Open() (*Library, error) {
	return nil, errors.New(`kernels.blas = "openblas" needs an ecrec built with cgo on Linux; build with CGO_ENABLED=1 or use "exact"`)
}

// Config returns "".
func (l *Library) Config() string { return "" }

// SGEMM panics: no Library exists in this build.
func (l *Library) SGEMM(threads int, opA, opB Op, m, n, k int, a unsafe.Pointer, lda int, b unsafe.Pointer, ldb int,
	c unsafe.Pointer, ldc int) {
	panic("openblas: not in this build")
}
