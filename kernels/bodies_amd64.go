package kernels

// bodiesFor is the bodies of an isa. Wider vectors than AVX2's bring nothing where
// memory is what is waited for; what computes, the interaction's products, is the
// GEMM's and as wide as the CPU.
func bodiesFor(i isa) *bodies {
	if i == isaPlain {
		return &plainBodies
	}
	return &avx2Bodies
}

var avx2Bodies = bodies{
	sum:          sumAVX2,
	gather:       gatherAVX2,
	sumRows:      sumRowsAVX2,
	prefetch:     prefetchRows,
	xor:          xorAVX2,
	update:       [...]func(w, s, v, g []float32, o *Optimizer){sgdAVX2, momentumAVX2, adagradAVX2, rowwiseAVX2, adamAVX2},
	draw:         drawAVX2,
	interact:     interactTiles,
	interactGrad: interactGradTiles,
}

// addAVX2 computes dst[i] += src[i].
//
//go:noescape
func addAVX2(dst, src []float32)

//go:noescape
func sumAVX2(dst []float32, from [][]float32, off int)

//go:noescape
func gatherAVX2(c *rowCopy)

//go:noescape
func sumRowsAVX2(s *rowSum)

//go:noescape
func prefetchRows(rows []float32, stride int, slots []int32, bytes int)

//go:noescape
func xorAVX2(dst, a, b []float32)

//go:noescape
func drawAVX2(dst []float32, d *rowDraw)

//go:noescape
func sgdAVX2(w, s, v, g []float32, o *Optimizer)

//go:noescape
func momentumAVX2(w, s, v, g []float32, o *Optimizer)

//go:noescape
func adagradAVX2(w, s, v, g []float32, o *Optimizer)

//go:noescape
func rowwiseAVX2(w, s, v, g []float32, o *Optimizer)

//go:noescape
func adamAVX2(w, s, v, g []float32, o *Optimizer)
