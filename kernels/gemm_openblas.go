package kernels

import "github.com/ecrec/ecrec/internal/openblas"

// runBLAS runs p with OpenBLAS. What follows the chain is then a product of
// length 0 that goes on from C.
func (p *product) runBLAS() {
	opA, lda := p.a.stored()
	opB, ldb := p.b.stored()
	p.g.blas.SGEMM(p.g.pool.threads, opA, opB, p.m, p.n, p.k, p.a.ptr, lda, p.b.ptr, ldb, p.c.ptr, int(p.c.rs/4))
	if p.sum != nil {
		p.runSums()
	}
	if p.bias != nil || p.relu != 0 || p.gate.ptr != nil {
		p.k, p.load = 0, 1
		p.run()
	}
}

// stored is how BLAS wants to hear of o: its leading dimension is in floats.
func (o operand) stored() (op openblas.Op, ld int) {
	if o.transposed {
		return openblas.Transposed, int(o.cs / 4)
	}
	return openblas.Plain, int(o.rs / 4)
}
