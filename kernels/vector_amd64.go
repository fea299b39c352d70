package kernels

var avx2Vectors = vectorLoops{
	add:        addAVX2,
	addSquares: addSquaresAVX2,
	normalize: func(y, x, mean, inv, gamma, beta []float32, relu bool) {
		normalizeAVX2(y, x, mean, inv, gamma, beta)
		if relu {
			reluAVX2(y)
		}
	},
	addGrads:      addGradsAVX2,
	normalizeGrad: normalizeGradAVX2,
	addBoth:       addBothAVX2,
	addRest:       addRestAVX2,
	scale:         scaleAVX2,
	addScaled:     addScaledAVX2,
	keep:          keepAVX2,
}

//go:noescape
func addSquaresAVX2(dst, x, mean []float32)

//go:noescape
func normalizeAVX2(y, x, mean, inv, gamma, beta []float32)

// reluAVX2 sets y[j] to +0.0 where it is below 0.
//
//go:noescape
func reluAVX2(y []float32)

//go:noescape
func addGradsAVX2(dgamma, dbeta, dy, x, mean, inv []float32)

//go:noescape
func normalizeGradAVX2(dx, dy, x, mean, inv, a, b, c []float32)

//go:noescape
func addBothAVX2(sum, squares, x []float32)

//go:noescape
func addRestAVX2(dx, sum, x []float32, by float32)

//go:noescape
func scaleAVX2(dst, x []float32, by float32)

//go:noescape
func addScaledAVX2(dst, x []float32, by float32)

//go:noescape
func keepAVX2(y, r []float32, least, by float32)
