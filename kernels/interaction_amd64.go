package kernels

import "unsafe"

//go:noescape
func packDots(out, c unsafe.Pointer, f, ld int)

//go:noescape
func unpackDots(s, dots unsafe.Pointer, f, ld int)

//go:noescape
func dotsAVX512(dots, x, t unsafe.Pointer, f, d int)

//go:noescape
func dotsGradAVX512(dx, dots, x, lead, s unsafe.Pointer, f, d int)

// hasOwnLoops reports whether the loops for this number of vectors and floats are those of dots_avx512_amd64.s: Criteo's models.
func (k *interaction) hasOwnLoops() bool {
	return k.isa == isaAVX512 && k.f >= 17 && k.f <= 28 && k.d%16 == 0
}

// The tiled loops of the dot interaction multiply small matrices with the
// micro-kernels of the GEMM, one sample at a time in the L1 cache: X Xᵀ without the
// tiles above its diagonal, and S X. An incomplete last tile is moved up to overlap
// the one before, so that some numbers are computed twice.
//
// A sample is copied to padded scratch if it has fewer vectors than a tile has rows,
// or (in S X) if d is not a multiple of a tile's columns.

// grow returns s if it has at least n floats, else n new floats, which are zero.
func grow(s []float32, n int) []float32 {
	if len(s) < n {
		return make([]float32, n)
	}
	return s
}

func at(s []float32, i int) unsafe.Pointer { return unsafe.Pointer(&s[i]) }

// roundUp returns n rounded up to a multiple of to.
func roundUp(n, to int) int { return (n + to - 1) / to * to }

// padFeatures returns x, (k.f, k.d), as a matrix of at least rows rows with stride
// floats from row to row. It returns x itself if that has this shape.
func (k *interaction) padFeatures(x []float32, rows, stride int) []float32 {
	if rows == k.f && stride == k.d {
		return x
	}
	k.x = grow(k.x, rows*stride)
	for i := range k.f {
		copy(k.x[i*stride:], x[i*k.d:][:k.d])
	}
	return k.x
}

// transposeTo8 sets dst[c][r] = src[r][c] for r < rows, at least 8, and c < cols.
func (k *interaction) transposeTo8(dst, src []float32, ldd, lds, rows, cols int) {
	whole := rows &^ 7
	transpose(k.isa, at(dst, 0), at(src, 0), uintptr(4*ldd), uintptr(4*lds), whole, cols)
	if whole < rows {
		last := rows - 8
		transpose(k.isa, at(dst, last), at(src, last*lds), uintptr(4*ldd), uintptr(4*lds), 8, cols)
	}
}

func interactTiles(out, x []float32, k *interaction) {
	f, d := k.f, k.d
	if k.hasOwnLoops() {
		copy(out[:k.lead], x)
		k.t = grow(k.t, 32*d)
		dotsAVX512(at(out, k.lead), at(x, 0), at(k.t, 0), f, d)
		return
	}
	shape := shapeOf(k.isa)
	rows := max(f, shape.mr, 8)
	x = k.padFeatures(x, rows, d)
	ld := roundUp(rows, shape.nr)
	k.t, k.c = grow(k.t, d*ld), grow(k.c, rows*ld)
	k.transposeTo8(k.t, x, ld, d, rows, d)
	for i := 0; i < f; i += shape.mr {
		i = min(i, rows-shape.mr)
		for j := 0; j < i+shape.mr-1; {
			width := shape.nr
			if i+shape.mr-1-j <= shape.half {
				width = shape.half
			}
			r := tileRun{a: at(x, i*d), rs: uintptr(4 * d), ks: 4, b: at(k.t, j), bs: uintptr(4 * ld),
				c: at(k.c, i*ld+j), ldc: uintptr(4 * ld), k: d, tiles: 1, cols: width}
			runTiles(k.isa, &r, width)
			j += width
		}
	}
	copy(out[:k.lead], x)
	if f > 1 {
		packDots(at(out, k.lead), at(k.c, 0), f, ld)
	}
}

func interactGradTiles(dx, dout, x []float32, k *interaction) {
	f, d := k.f, k.d
	if k.hasOwnLoops() {
		var lead unsafe.Pointer
		if k.lead > 0 {
			lead = at(dout, 0)
		}
		k.t = grow(k.t, 32*28)
		dotsGradAVX512(at(dx, 0), at(dout, k.lead), at(x, 0), lead, at(k.t, 0), f, d)
		return
	}
	shape := shapeOf(k.isa)
	rows, stride := max(f, shape.mr), roundUp(d, shape.half)
	x = k.padFeatures(x, f, stride)
	s, ld := k.symmetricDots(dout[k.lead:], rows)
	c, direct := dx, rows == f && stride == d
	if !direct {
		k.c = grow(k.c, rows*stride)
		c = k.c
	}
	for i := 0; i < f; i += shape.mr {
		i = min(i, rows-shape.mr)
		for j := 0; j < d; {
			width := shape.nr
			if stride-j < width {
				width = shape.half
			}
			r := tileRun{a: at(s, i*ld), rs: uintptr(4 * ld), ks: 4, b: at(x, j), bs: uintptr(4 * stride),
				c: at(c, i*stride+j), ldc: uintptr(4 * stride), k: f, tiles: 1, cols: width}
			runTiles(k.isa, &r, width)
			j += width
		}
	}
	addAVX2(c[:k.lead], dout[:k.lead])
	for i := 0; i < f && !direct; i++ {
		copy(dx[i*d:][:d], c[i*stride:])
	}
}

// symmetricDots returns the (rows, ld) matrix of the dots of f vectors: symmetric,
// with a zero diagonal.
func (k *interaction) symmetricDots(dots []float32, rows int) (s []float32, ld int) {
	f := k.f
	ld = roundUp(f, 8)
	k.t = grow(k.t, max(rows, ld)*ld)
	s = k.t
	if f > 1 {
		unpackDots(at(s, 0), at(dots, 0), f, ld)
	} else {
		s[0] = 0
	}
	for b := 0; b < ld; b += 8 {
		if b > 0 { // the blocks left of the diagonal, to above it
			transpose8AVX2(at(s, b), at(s, b*ld), uintptr(4*ld), uintptr(4*ld), b/8)
		}
		for i := 1; i < 8; i++ {
			for j := range i {
				s[(b+j)*ld+b+i] = s[(b+i)*ld+b+j]
			}
		}
	}
	return s, ld
}
