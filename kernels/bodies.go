package kernels

// bodies are the inner loops of which there is more than one version. All
// versions give the same bits.
type bodies struct {
	// sum computes dst[i] = ((+0.0 + from[0][off+i]) + from[1][off+i]) + ...
	sum func(dst []float32, from [][]float32, off int)
	// gather and sumRows do what rowCopy and rowSum hold.
	gather  func(c *rowCopy)
	sumRows func(s *rowSum)
	// prefetch asks for the first bytes of rows that will be updated soon.
	prefetch func(rows []float32, stride int, slots []int32, bytes int)
	// xor computes dst[i] = a[i] XOR b[i], bit by bit; dst may be a.
	xor func(dst, a, b []float32)
	// update applies one optimizer step to the weights w. The state is s, for adam
	// s and v; rowwise adagrad has one s for all of w.
	update [Adam + 1]func(w, s, v, g []float32, o *Optimizer)
	// draw draws the weights of a row, or of so many of its blocks, d.counter's the first.
	draw func(dst []float32, d *rowDraw)
	// interact and interactGrad do one sample of the dot interaction.
	interact     func(out, x []float32, k *interaction)
	interactGrad func(dx, dout, x []float32, k *interaction)
}

var plainBodies = bodies{
	sum:          sumPlain,
	gather:       gatherPlain,
	sumRows:      sumRowsPlain,
	prefetch:     func([]float32, int, []int32, int) {},
	xor:          xorPlain,
	update:       [...]func(w, s, v, g []float32, o *Optimizer){sgdPlain, momentumPlain, adagradPlain, rowwisePlain, adamPlain},
	draw:         drawPlain,
	interact:     interactPlain,
	interactGrad: interactGradPlain,
}
