package kernels

// innerLoops are the inner loops that have several implementations: plain Go, and
// assembly for some instruction sets. All give the same bits.
type innerLoops struct {
	// sum computes dst[i] = ((+0.0 + from[0][off+i]) + from[1][off+i]) + ...
	sum func(dst []float32, from [][]float32, off int)
	// mulAdd computes dst[i] = a[i] * b[i] + c[i]; see mulAddPlain.
	mulAdd func(dst, a, b, c []float32)
	// gather copies the rows that rowCopy describes, sumRows adds up those of rowSum.
	gather  func(c *rowCopy)
	sumRows func(s *rowSum)
	// prefetch prefetches the first bytes of rows that will be updated soon.
	prefetch func(rows []float32, stride int, slots []int32, bytes int)
	// xor computes XORs.
	xor xorLoops
	// update holds vector versions of Rule.Update, by OptimizerKind.
	update []UpdateLoop
	// decay adds by*w[i] to g[i].
	decay func(g, w []float32, by float32)
	// shrink computes w[i] = by*w[i].
	shrink func(w []float32, by float32)
	// draw draws initial weights.
	draw drawLoops
	// interact and interactGrad compute one sample of the dot interaction.
	interact     func(out, x []float32, k *interaction)
	interactGrad func(dx, dout, x []float32, k *interaction)
	// vectors are loops over the columns of a row.
	vectors *vectorLoops
}

// xorLoops compute XORs.
type xorLoops struct {
	// one computes dst[i] = a[i] XOR b[i], bit by bit; dst may be a.
	one func(dst, a, b []float32)
	// rows does that for the rows that rowXor describes.
	rows func(x *rowXor)
}

// drawLoops draw initial weights.
type drawLoops struct {
	// one draws into dst: consecutive blocks of four weights of a row, from the block of d.counter on.
	one func(dst []float32, d *rowDraw)
	// two does that for two rows at once: first from d.counter on, second from e.counter on. Both have one key
	// and scale, and as many weights, a multiple of drawn.
	two func(first, second []float32, d, e *rowDraw)
}

// updateLoop is the version of a rule's Update that these loops have.
func (l *innerLoops) updateLoop(k OptimizerKind) UpdateLoop {
	if int(k) < len(l.update) && l.update[k] != nil {
		return l.update[k]
	}
	return k.Rule().Update
}

var plainLoops = innerLoops{
	sum:      sumPlain,
	mulAdd:   mulAddPlain,
	gather:   gatherPlain,
	sumRows:  sumRowsPlain,
	prefetch: func([]float32, int, []int32, int) {},
	xor:      xorLoops{xorPlain, xorRowsPlain},
	decay:    decayPlain,
	shrink:   shrinkPlain,
	draw: drawLoops{drawPlain, func(first, second []float32, d, e *rowDraw) {
		drawPlain(first, d)
		drawPlain(second, e)
	}},
	interact:     interactPlain,
	interactGrad: interactGradPlain,
	vectors:      &plainVectors,
}
