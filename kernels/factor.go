package kernels

// A factorization machine of second order over the f vectors of d floats of each sample (Rendle,
// "Factorization Machines", 2010, Lemma 3.1), and vectors of numbers.

// factorGrain is the number of samples in a part.
const factorGrain = 32

// factorTask computes out from x or, if dx is not nil, adds to dx from out and x.
type factorTask struct {
	s                                  *stream
	out, x, dx                         []float32
	outStride, xStride, dxStride, rows int
	f, d                               int
}

func (s *stream) FM(out, feats Matrix, f, d int) {
	const op = "FM"
	checkInteraction(op, f, d)
	s.runFactor(factorTask{out: elementsOf(op, "out", out, feats.Rows, 1), outStride: out.Stride,
		x: elementsOf(op, "feats", feats, feats.Rows, f*d), xStride: feats.Stride, rows: feats.Rows, f: f, d: d})
}

func (s *stream) FMGrad(dfeats, dout, feats Matrix, f, d int) {
	const op = "FMGrad"
	checkInteraction(op, f, d)
	s.runFactor(factorTask{out: elementsOf(op, "dout", dout, feats.Rows, 1), outStride: dout.Stride,
		x: elementsOf(op, "feats", feats, feats.Rows, f*d), xStride: feats.Stride,
		dx: elementsOf(op, "dfeats", dfeats, feats.Rows, f*d), dxStride: dfeats.Stride, rows: feats.Rows, f: f, d: d})
}

func (s *stream) runFactor(t factorTask) {
	if t.rows == 0 {
		return
	}
	t.s = s
	s.factoring = t
	s.pool.runTask(partsOf(t.rows, factorGrain), &s.factoring)
	s.factoring = factorTask{}
}

func (t *factorTask) runPart(worker, i int) {
	w, d := &t.s.workers[worker], t.d
	if len(w.init) < 2*d {
		w.init = make([]float32, 2*d)
	}
	sum, squares := w.init[:d], w.init[d:2*d]
	for r, hi := partSpan(i, factorGrain, t.rows); r < hi; r++ {
		x := t.x[r*t.xStride:][:t.f*d]
		clear(sum)
		if t.dx == nil {
			clear(squares)
			for v := 0; v < len(x); v += d {
				t.s.vectors.addBoth(sum, squares, x[v:v+d])
			}
			t.out[r*t.outStride] = 0.5 * pairSum(sum, squares)
			continue
		}
		g, dx := t.out[r*t.outStride], t.dx[r*t.dxStride:][:t.f*d]
		for v := 0; v < len(x); v += d {
			t.s.vectors.add(sum, x[v:v+d])
		}
		for v := 0; v < len(x); v += d {
			t.s.vectors.addRest(dx[v:v+d], sum, x[v:v+d], g)
		}
	}
}

// pairSum adds up sum[c]^2 - squares[c], c ascending.
func pairSum(sum, squares []float32) (total float32) {
	for c, x := range sum {
		total += float32(x*x) - squares[c]
	}
	return total
}

// numbersTask computes out = x times vectors v or, if sums is set, v from x and out.
type numbersTask struct {
	*vectorLoops
	out, x, v                []float32
	outStride, xStride, rows int
	n, d, grain              int
	sums                     bool
}

func (s *stream) ScaleVectors(dst, x, v Matrix) {
	const op = "ScaleVectors"
	t := s.numbersTaskOf(op, dst, x, v)
	t.grain = grainFor(8 * dst.Cols)
	s.runNumbers(t, partsOf(t.rows, t.grain))
}

func (s *stream) ScaleVectorsGrad(dv, x, dout Matrix) {
	const op = "ScaleVectorsGrad"
	t := s.numbersTaskOf(op, dout, x, dv)
	t.sums = true
	s.runNumbers(t, dv.Rows)
}

func (s *stream) numbersTaskOf(op string, out, x, v Matrix) numbersTask {
	return numbersTask{vectorLoops: s.vectors, out: elementsOf(op, "out", out, x.Rows, v.Rows*v.Cols), outStride: out.Stride,
		x: elementsOf(op, "x", x, x.Rows, v.Rows), xStride: x.Stride, rows: x.Rows,
		v: columnsOf(op, "v", v.Buf, v.Rows*v.Cols), n: v.Rows, d: v.Cols}
}

func (s *stream) runNumbers(t numbersTask, parts int) {
	s.scalingVectors = t
	s.pool.runTask(parts, &s.scalingVectors)
	s.scalingVectors = numbersTask{}
}

func (t *numbersTask) runPart(_, i int) {
	d := t.d
	if t.sums {
		v := t.v[i*d : (i+1)*d]
		clear(v)
		for r := range t.rows {
			t.addScaled(v, t.out[r*t.outStride+i*d:][:d], t.x[r*t.xStride+i])
		}
		return
	}
	for r, hi := partSpan(i, t.grain, t.rows); r < hi; r++ {
		for j := range t.n {
			t.scale(t.out[r*t.outStride+j*d:][:d], t.v[j*d:(j+1)*d], t.x[r*t.xStride+j])
		}
	}
}
