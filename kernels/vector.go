package kernels

// vectorLoops are inner loops over the columns of a row. All operands have the length of the
// first. Every multiplication, addition and subtraction is rounded by itself.
type vectorLoops struct {
	// add computes dst[j] += x[j].
	add func(dst, x []float32)
	// addSquares computes dst[j] += (x[j] - mean[j])^2.
	addSquares func(dst, x, mean []float32)
	// normalize computes y[j] = (x[j]-mean[j])*inv[j]*gamma[j] + beta[j]. With relu it becomes +0.0
	// where it is below 0.
	normalize func(y, x, mean, inv, gamma, beta []float32, relu bool)
	// addGrads computes dbeta[j] += dy[j] and dgamma[j] += dy[j] * ((x[j]-mean[j])*inv[j]).
	addGrads func(dgamma, dbeta, dy, x, mean, inv []float32)
	// normalizeGrad computes dx[j] = ((dy[j] - a[j]) - ((x[j]-mean[j])*inv[j])*b[j]) * c[j].
	normalizeGrad func(dx, dy, x, mean, inv, a, b, c []float32)
	// addBoth computes sum[j] += x[j] and squares[j] += x[j]*x[j].
	addBoth func(sum, squares, x []float32)
	// addRest computes dx[j] += by * (sum[j] - x[j]).
	addRest func(dx, sum, x []float32, by float32)
	// scale computes dst[j] = x[j] * by, addScaled dst[j] += x[j] * by.
	scale, addScaled func(dst, x []float32, by float32)
	// keep computes y[j] = y[j]*by where r[j] >= least, else +0.0.
	keep func(y, r []float32, least, by float32)
}

var plainVectors = vectorLoops{
	add:           addPlain,
	addSquares:    addSquaresPlain,
	normalize:     normalizePlain,
	addGrads:      addGradsPlain,
	normalizeGrad: normalizeGradPlain,
	addBoth:       addBothPlain,
	addRest:       addRestPlain,
	scale:         scalePlain,
	addScaled:     addScaledPlain,
	keep:          keepPlain,
}

func addSquaresPlain(dst, x, mean []float32) {
	for j := range dst {
		d := x[j] - mean[j]
		dst[j] += float32(d * d)
	}
}

func normalizePlain(y, x, mean, inv, gamma, beta []float32, relu bool) {
	for j := range y {
		v := float32(float32((x[j]-mean[j])*inv[j])*gamma[j]) + beta[j]
		if relu && v < 0 {
			v = 0
		}
		y[j] = v
	}
}

func addGradsPlain(dgamma, dbeta, dy, x, mean, inv []float32) {
	for j := range dgamma {
		dbeta[j] += dy[j]
		dgamma[j] += float32(dy[j] * float32((x[j]-mean[j])*inv[j]))
	}
}

func normalizeGradPlain(dx, dy, x, mean, inv, a, b, c []float32) {
	for j := range dx {
		h := float32((x[j] - mean[j]) * inv[j])
		dx[j] = ((dy[j] - a[j]) - float32(h*b[j])) * c[j]
	}
}

func addBothPlain(sum, squares, x []float32) {
	for j := range sum {
		sum[j] += x[j]
		squares[j] += float32(x[j] * x[j])
	}
}

func addRestPlain(dx, sum, x []float32, by float32) {
	for j := range dx {
		dx[j] += float32(by * (sum[j] - x[j]))
	}
}

func scalePlain(dst, x []float32, by float32) {
	for j := range dst {
		dst[j] = x[j] * by
	}
}

func addScaledPlain(dst, x []float32, by float32) {
	for j := range dst {
		dst[j] += float32(x[j] * by)
	}
}

func keepPlain(y, r []float32, least, by float32) {
	for j := range y {
		if r[j] >= least {
			y[j] *= by
		} else {
			y[j] = 0
		}
	}
}
