package kernels

// fmaLoopAVX512 does n times 16 independent FMAs of 16 floats.
//
//go:noescape
func fmaLoopAVX512(n int)

// fmaLoopAVX2 does n times 12 independent FMAs of 8 floats.
//
//go:noescape
func fmaLoopAVX2(n int)
