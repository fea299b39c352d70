package kernels

// PeakLoop runs rounds of independent fused multiply-adds in registers, with the
// widest vectors that this machine's kernels use. It returns the number of
// floating-point operations, two per multiply-add. The caller times it: the result is
// a core's peak rate, against which products are measured.
func PeakLoop(rounds int) (flops float64) {
	switch detectISA() {
	case isaAVX512:
		fmaLoopAVX512(rounds)
		return float64(rounds) * 16 * 16 * 2
	case isaAVX2:
		fmaLoopAVX2(rounds)
		return float64(rounds) * 12 * 8 * 2
	}
	return float64(fmaLoopPlain(rounds))
}

// fmaLoopPlain runs unfused multiplications and additions in Go.
func fmaLoopPlain(rounds int) (flops int) {
	a, b, c, d := float32(1), float32(2), float32(3), float32(4)
	for range rounds {
		a = float32(a*0.5) + 1
		b = float32(b*0.5) + 1
		c = float32(c*0.5) + 1
		d = float32(d*0.5) + 1
	}
	if a+b+c+d > 1e6 {
		panic("kernels: impossible") // keeps the loop
	}
	return rounds * 8
}
