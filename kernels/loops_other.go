//go:build !amd64

package kernels

// loopsFor returns the inner loops for an isa.
func loopsFor(isa) *innerLoops { return &plainLoops }
