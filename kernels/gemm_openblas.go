package kernels

import "github.com/ecrec/ecrec/internal/openblas"

// runBLAS runs p with OpenBLAS. Bias, activation and gate are then a product of
// length 0 that continues from C.
func (p *product) runBLAS() {
	opA, lda := p.a.blasLayout()
	opB, ldb := p.b.blasLayout()
	p.g.blas.SGEMM(p.g.pool.threads, opA, opB, p.m, p.n, p.k, p.a.ptr, lda, p.b.ptr, ldb, p.c.ptr, int(p.c.rs/4))
	if p.sum != nil {
		p.runSums()
	}
	if p.bias != nil || p.relu != 0 || p.gate.ptr != nil {
		p.k, p.load = 0, 1
		p.runPanels()
	}
}

// blasLayout returns o's layout in the terms of BLAS. The leading dimension is in
// floats.
func (o operand) blasLayout() (op openblas.Op, ld int) {
	if o.transposed {
		return openblas.Transposed, int(o.cs / 4)
	}
	return openblas.Plain, int(o.rs / 4)
}
