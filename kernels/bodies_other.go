//go:build !amd64

package kernels

// bodiesFor is the bodies of an isa.
func bodiesFor(isa) *bodies { return &plainBodies }
