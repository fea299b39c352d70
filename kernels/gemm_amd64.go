package kernels

import "unsafe"

//go:noescape
func tile14x32(t *tileRun)

//go:noescape
func tile14x16(t *tileRun)

//go:noescape
func tile6x16(t *tileRun)

//go:noescape
func tile6x8(t *tileRun)

//go:noescape
func copyRowsAVX2(dst, src unsafe.Pointer, dstBytes, srcBytes uintptr, rows, vecs int, tail *[8]int32, ahead uintptr)

//go:noescape
func transpose8AVX2(dst, src unsafe.Pointer, dstBytes, srcBytes uintptr, blocks int)

//go:noescape
func addRowsAVX2(sum, src unsafe.Pointer, srcBytes uintptr, rows, vecs int)

// tailMasks[n] has the first n lanes set.
var tailMasks = func() (m [8][8]int32) {
	for n := range m {
		for l := range n {
			m[n][l] = -1
		}
	}
	return
}()

// runTiles runs a micro-kernel whose tiles are width columns wide.
func runTiles(i isa, t *tileRun, width int) {
	if t.cols < width {
		for l := range t.cols {
			t.mask[l%len(t.mask)] = -1
		}
	}
	switch {
	case i == isaAVX512 && width == 32:
		tile14x32(t)
	case i == isaAVX512:
		tile14x16(t)
	case i == isaAVX2 && width == 16:
		tile6x16(t)
	case i == isaAVX2:
		tile6x8(t)
	default:
		tilePlain(t)
	}
}

// copyRows copies rows of floats float32. Each row of dst is padded with zeros to the
// next multiple of 8 floats. Each row of src prefetches the row ahead rows further.
func copyRows(i isa, dst, src unsafe.Pointer, dstBytes, srcBytes uintptr, rows, floats, ahead int) {
	if i == isaPlain {
		copyRowsPlain(dst, src, dstBytes, srcBytes, rows, floats, (floats+7)&^7)
		return
	}
	var tail *[8]int32
	if floats%8 != 0 {
		tail = &tailMasks[floats%8]
	}
	copyRowsAVX2(dst, src, dstBytes, srcBytes, rows, floats/8, tail, uintptr(ahead)*srcBytes)
}

// transpose sets dst[k][j] = src[j][k], for j < rows and k < cols.
func transpose(i isa, dst, src unsafe.Pointer, dstBytes, srcBytes uintptr, rows, cols int) {
	j, k := 0, cols&^7
	if i != isaPlain && k > 0 {
		for ; j+8 <= rows; j += 8 {
			d, s := unsafe.Add(dst, 4*j), unsafe.Add(src, uintptr(j)*srcBytes)
			transpose8AVX2(d, s, dstBytes, srcBytes, k/8)
			transposePlain(d, s, dstBytes, srcBytes, 8, k, cols)
		}
	}
	if j < rows {
		transposePlain(unsafe.Add(dst, 4*j), unsafe.Add(src, uintptr(j)*srcBytes), dstBytes, srcBytes, rows-j, 0, cols)
	}
}

// addRows adds rows of floats float32 to sum, in order.
func addRows(i isa, sum, src unsafe.Pointer, srcBytes uintptr, rows, floats int) {
	j := 0
	if i != isaPlain && rows > 0 {
		j = floats &^ 7
		addRowsAVX2(sum, src, srcBytes, rows, j/8)
	}
	if j < floats && rows > 0 {
		addRowsPlain(unsafe.Add(sum, 4*j), unsafe.Add(src, 4*j), srcBytes, rows, floats-j)
	}
}
