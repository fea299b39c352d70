package kernels

// loopsFor returns the inner loops for an isa. Most of them wait for memory, so vectors
// wider than AVX2's would not speed them up; drawing does not. The interaction computes its products
// with the micro-kernels of the GEMM, which are as wide as the CPU's vectors.
func loopsFor(i isa) *innerLoops {
	switch i {
	case isaPlain:
		return &plainLoops
	case isaAVX512:
		return &avx512Loops
	}
	return &avx2Loops
}

var avx512Loops = func() innerLoops {
	l := avx2Loops
	l.draw.two = drawTwoAVX512
	return l
}()

var avx2Loops = innerLoops{
	sum:          sumAVX2,
	mulAdd:       mulAddAVX2,
	gather:       gatherAVX2,
	sumRows:      sumSegmentsAVX2,
	prefetch:     prefetchRows,
	xor:          xorLoops{xorAVX2, xorRowsAVX2},
	update:       []UpdateLoop{SGD: sgdAVX2, Momentum: momentumAVX2, Adagrad: adagradAVX2, RowwiseAdagrad: rowwiseAVX2, Adam: adamAVX2, AdamW: adamWAVX2, FTRL: ftrlAVX2},
	decay:        decayAVX2,
	shrink:       shrinkAVX2,
	draw:         drawLoops{drawAVX2, drawTwoAVX2},
	interact:     interactTiles,
	interactGrad: interactGradTiles,
	vectors:      &avx2Vectors,
}

// sumSegmentsAVX2 computes the sums of s, with factors if there are any.
func sumSegmentsAVX2(s *rowSum) {
	if len(s.factors) > 0 {
		sumWeightedAVX2(s)
		return
	}
	sumRowsAVX2(s)
}

// addAVX2 computes dst[i] += src[i].
//
//go:noescape
func addAVX2(dst, src []float32)

//go:noescape
func sumAVX2(dst []float32, from [][]float32, off int)

//go:noescape
func mulAddAVX2(dst, a, b, c []float32)

//go:noescape
func gatherAVX2(c *rowCopy)

//go:noescape
func sumRowsAVX2(s *rowSum)

//go:noescape
func sumWeightedAVX2(s *rowSum)

//go:noescape
func prefetchRows(rows []float32, stride int, slots []int32, bytes int)

//go:noescape
func xorAVX2(dst, a, b []float32)

//go:noescape
func xorRowsAVX2(x *rowXor)

//go:noescape
func drawAVX2(dst []float32, d *rowDraw)

//go:noescape
func drawTwoAVX2(first, second []float32, d, e *rowDraw)

//go:noescape
func drawTwoAVX512(first, second []float32, d, e *rowDraw)

//go:noescape
func decayAVX2(g, w []float32, by float32)

//go:noescape
func shrinkAVX2(w []float32, by float32)

func adamWAVX2(w, s, v, g []float32, o *Optimizer) {
	shrinkAVX2(w, o.Keep)
	adamAVX2(w, s, v, g, o)
}

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

//go:noescape
func ftrlAVX2(w, s, v, g []float32, o *Optimizer)
