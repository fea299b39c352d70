package kernels

import "github.com/ecrec/ecrec/internal/openblas"

// runBLAS runs p with OpenBLAS. What follows the chain is then a product of
// length 0 that goes on from C.
func (p *product) runBLAS() {
	opA, lda := openblas.Plain, p.a.rs
	if p.a.rs == 4 {
		opA, lda = openblas.Transposed, p.a.cs
	}
	opB, ldb := openblas.Plain, p.b.rs
	if p.b.rs == 4 {
		opB, ldb = openblas.Transposed, p.b.cs
	}
	p.g.blas.SGEMM(p.g.pool.threads, opA, opB, p.m, p.n, p.k,
		p.a.ptr, int(lda/4), p.b.ptr, int(ldb/4), p.c.ptr, int(p.c.rs/4))
	if p.sum != nil {
		p.runSums()
	}
	if p.bias != nil || p.relu != 0 || p.gate.ptr != nil {
		p.k, p.load = 0, 1
		p.run()
	}
}
