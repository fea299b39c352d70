//go:build !amd64

package kernels

func fmaLoopAVX512(int) { panic("kernels: no AVX-512 here") }
func fmaLoopAVX2(int)   { panic("kernels: no AVX2 here") }
