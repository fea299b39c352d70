package kernels

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/f32"
)

// interaction is one thread's parameters and scratch for the dot interaction of f
// vectors of d floats.
type interaction struct {
	isa  isa
	f, d int
	lead int // floats before the dots: d, for vector 0, or none
	// Scratch of the tiled loops.
	x, t, c []float32
}

func interactPlain(out, x []float32, k *interaction) {
	f, d := k.f, k.d
	copy(out[:k.lead], x)
	out = out[k.lead:]
	for i := 1; i < f; i++ {
		for j := range i {
			var sum float32
			for c := range d {
				sum = f32.FMA(x[i*d+c], x[j*d+c], sum)
			}
			out[i*(i-1)/2+j] = sum
		}
	}
}

func interactGradPlain(dx, dout, x []float32, k *interaction) {
	f, d := k.f, k.d
	dots := dout[k.lead:]
	for i := range f {
		for c := range d {
			var sum float32
			for j := range f {
				var s float32
				if j < i {
					s = dots[i*(i-1)/2+j]
				} else if j > i {
					s = dots[j*(j-1)/2+i]
				}
				sum = f32.FMA(s, x[j*d+c], sum)
			}
			if i == 0 && k.lead > 0 {
				sum += dout[c]
			}
			dx[i*d+c] = sum
		}
	}
}

func (s *stream) DotInteraction(out, feats Matrix, f, d int) {
	const op = "DotInteraction"
	lead := checkDots(op, out, f, d)
	s.runInteraction(interactionTask{
		out: elementsOf(op, "out", out, feats.Rows, lead+f*(f-1)/2), x: elementsOf(op, "feats", feats, feats.Rows, f*d),
		outStride: out.Stride, xStride: feats.Stride, rows: feats.Rows,
	}, f, d, lead)
}

func (s *stream) DotInteractionGrad(dfeats, dout, feats Matrix, f, d int) {
	const op = "DotInteractionGrad"
	lead := checkDots(op, dout, f, d)
	s.runInteraction(interactionTask{
		dx: elementsOf(op, "dfeats", dfeats, feats.Rows, f*d), out: elementsOf(op, "dout", dout, feats.Rows, lead+f*(f-1)/2),
		x:        elementsOf(op, "feats", feats, feats.Rows, f*d),
		dxStride: dfeats.Stride, outStride: dout.Stride, xStride: feats.Stride, rows: feats.Rows,
	}, f, d, lead)
}

// checkDots returns the number of floats before the dots in a row of out: none if out has the width of the dots alone, else d.
func checkDots(op string, out Matrix, f, d int) (lead int) {
	checkInteraction(op, f, d)
	if out.Cols == f*(f-1)/2 {
		return 0
	}
	return d
}

func checkInteraction(op string, f, d int) {
	if f < 1 || d < 1 {
		panic(fmt.Sprintf("kernels: %s of %d vectors of %d floats", op, f, d))
	}
}

// interactionGrain is the number of samples in a part.
const interactionGrain = 32

func (s *stream) runInteraction(t interactionTask, f, d, lead int) {
	if t.rows == 0 {
		return
	}
	t.stream = s
	for i := range s.workers {
		k := &s.workers[i].inter
		k.isa, k.f, k.d, k.lead = s.gemm.isa, f, d, lead
	}
	s.interacting = t
	s.pool.runTask(partsOf(t.rows, interactionGrain), &s.interacting)
	s.interacting = interactionTask{}
}

// interactionTask computes out from x or, if dx is not nil, dx from out and x.
type interactionTask struct {
	stream                             *stream
	dx, out, x                         []float32
	dxStride, outStride, xStride, rows int
}

func (t *interactionTask) runPart(worker, i int) {
	k := &t.stream.workers[worker].inter
	nx := k.f * k.d
	no := k.lead + k.f*(k.f-1)/2
	for r, hi := partSpan(i, interactionGrain, t.rows); r < hi; r++ {
		out, x := t.out[r*t.outStride:][:no], t.x[r*t.xStride:][:nx]
		if next := r + 1; next < hi {
			prefetchFloats(t.x[next*t.xStride:][:nx])
			prefetchFloats(t.out[next*t.outStride:][:no])
			if t.dx != nil {
				prefetchFloats(t.dx[next*t.dxStride:][:nx])
			}
		}
		if t.dx != nil {
			t.stream.interactGrad(t.dx[r*t.dxStride:][:nx], out, x, k)
		} else {
			t.stream.interact(out, x, k)
		}
	}
}
