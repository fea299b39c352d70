package kernels

// bodies are the inner loops of which there is more than one version. All
// versions give the same bits.
type bodies struct {
	// add computes dst[i] += src[i].
	add func(dst, src []float32)
	// gather and sumRows do what rowCopy and rowSum hold.
	gather  func(c *rowCopy)
	sumRows func(s *rowSum)
	// prefetch asks for the first bytes of rows that will be updated soon.
	prefetch func(rows []float32, stride int, slots []int32, bytes int)
	// update applies one optimizer step to the weights w. The state is s, for adam
	// s and v; rowwise adagrad has one s for all of w.
	update [Adam + 1]func(w, s, v, g []float32, o *Optimizer)
	// interact and interactGrad do one sample of the dot interaction.
	interact     func(out, x []float32, k *interaction)
	interactGrad func(dx, dout, x []float32, k *interaction)
}

var plainBodies = bodies{
	add:          addPlain,
	gather:       gatherPlain,
	sumRows:      sumRowsPlain,
	prefetch:     func([]float32, int, []int32, int) {},
	update:       [...]func(w, s, v, g []float32, o *Optimizer){sgdPlain, momentumPlain, adagradPlain, rowwisePlain, adamPlain},
	interact:     interactPlain,
	interactGrad: interactGradPlain,
}
