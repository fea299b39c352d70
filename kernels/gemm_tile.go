package kernels

import (
	"unsafe"

	"github.com/ecrec/ecrec/internal/f32"
)

// tileRun is one call of a micro-kernel: tiles of C below one another, each
// (rows, width), from one panel of B. gemm_amd64.h holds the fields' offsets. Steps
// are in bytes.
type tileRun struct {
	a, b, c    unsafe.Pointer
	bias, gate unsafe.Pointer // nil: none
	rs, ks     uintptr        // A from row to row, from k to k+1
	ta         uintptr        // A from tile to tile
	bs         uintptr        // B from k to k+1
	ldc, ldg   uintptr        // C and gate from row to row
	k          int            // length of the chain in this call
	tiles      int
	load       int       // 1: the chain continues from C; 0: it starts at +0.0
	relu       int       // 1: ReLU
	cols       int       // columns that C, bias and gate have: width or fewer
	mask       [16]int32 // for AVX2 where cols < width: -1 for each column
	next       int       // from a row of B to the same row of the next panel, which is prefetched
	rows       int       // of a tile: mr or tail
	ahead      int       // from a tile's first element of A to the bytes that are prefetched in the first step of k
	aheadStep  int       // from these to those of the next step
	fetch      uintptr   // the address in the next panel of B that is prefetched next
	aheadC     uintptr   // from a tile of C to the tile that is prefetched, if load is 0
	lateC      int       // steps before the end of a chain at which it is, a row in four steps; 0: at once, before the chain
	nextC      uintptr   // scratch: its address
}

// prefetchesLate reports whether tile14x32 can prefetch C late: in loops of four steps, but for rows of A that it prefetches too.
func (t *tileRun) prefetchesLate(width int) bool {
	return width == 32 && t.bs == 4*32 && t.rows == 14 && (t.rs == 4 || t.ks == 4 && t.aheadStep == 0)
}

// tileShape is the geometry of an isa's micro-kernels.
type tileShape struct {
	mr, tail int  // rows of a tile: of most tiles of a block, and of the tiles below them
	nr, half int  // columns of a tile: in full panels, and in a narrow last one
	strip    int  // floats per k of A packed from columns: mr, rounded up to vectors
	kc       int  // greatest chain length of a call: C is loaded and stored once in it; a panel of B stays in the L2 cache
	mc       int  // most tiles below one another: their rows of A stay in the L2 cache; see splitsColumns
	byColumn bool // whether tiles of an A that is stored by columns take no longer than packed ones
	ahead    int  // rows of a B that is read in place that are prefetched ahead
}

func shapeOf(i isa) tileShape {
	switch i {
	case isaAVX512:
		return tileShape{mr: 14, tail: 4, nr: 32, half: 16, strip: 16, kc: 512, mc: 9, byColumn: true, ahead: 32}
	case isaAVX2:
		return tileShape{mr: 6, tail: 6, nr: 16, half: 8, strip: 8, kc: 512, mc: 24, ahead: 64}
	default:
		return tileShape{mr: 4, tail: 1, nr: 16, half: 8, strip: 8, kc: 256, mc: 16, ahead: 16}
	}
}

// maxTile is the number of floats of the largest tile.
const maxTile = 14 * 32

// maxPanel is the number of floats of the largest panel of B in one call.
const maxPanel = 512 * 32

// tilePlain is the plain Go reference of the micro-kernels.
func tilePlain(t *tileRun) {
	for ; t.tiles > 0; t.tiles-- {
		for r := range t.rows {
			rowPlain(t, r)
		}
		if t.tiles > 1 {
			t.a = unsafe.Add(t.a, t.ta)
			t.c = unsafe.Add(t.c, uintptr(t.rows)*t.ldc)
			if t.gate != nil {
				t.gate = unsafe.Add(t.gate, uintptr(t.rows)*t.ldg)
			}
		}
	}
}

// rowPlain computes row r of a tile.
func rowPlain(t *tileRun, r int) {
	a := unsafe.Add(t.a, uintptr(r)*t.rs)
	c := unsafe.Slice((*float32)(unsafe.Add(t.c, uintptr(r)*t.ldc)), t.cols)
	if t.load == 0 {
		clear(c)
	}
	for j := 0; j < t.cols; j += 4 {
		var s [4]float32
		copy(s[:], c[j:])
		chain4(&s, a, unsafe.Add(t.b, 4*j), t)
		copy(c[j:], s[:])
	}
	if t.bias != nil {
		for j, b := range unsafe.Slice((*float32)(t.bias), t.cols) {
			c[j] += b
		}
	}
	if t.relu != 0 {
		for j, v := range c {
			if v < 0 {
				c[j] = 0
			}
		}
	}
	if t.gate != nil {
		for j, v := range unsafe.Slice((*float32)(unsafe.Add(t.gate, uintptr(r)*t.ldg)), t.cols) {
			if !(v > 0) {
				c[j] = 0
			}
		}
	}
}

// chain4 continues the chains of 4 columns of C: one row of A, 4 columns of B.
func chain4(c *[4]float32, a, b unsafe.Pointer, t *tileRun) {
	c0, c1, c2, c3 := c[0], c[1], c[2], c[3]
	for k := range uintptr(t.k) {
		x := *(*float32)(unsafe.Add(a, k*t.ks))
		w := (*[4]float32)(unsafe.Add(b, k*t.bs))
		c0 = f32.FMA(x, w[0], c0)
		c1 = f32.FMA(x, w[1], c1)
		c2 = f32.FMA(x, w[2], c2)
		c3 = f32.FMA(x, w[3], c3)
	}
	*c = [4]float32{c0, c1, c2, c3}
}

// copyRowsPlain copies rows of floats float32 and zeroes the rest of pad.
func copyRowsPlain(dst, src unsafe.Pointer, dstBytes, srcBytes uintptr, rows, floats, pad int) {
	for r := range uintptr(rows) {
		d := unsafe.Slice((*float32)(unsafe.Add(dst, r*dstBytes)), pad)
		copy(d, unsafe.Slice((*float32)(unsafe.Add(src, r*srcBytes)), floats))
		clear(d[floats:])
	}
}

// transposePlain sets dst[k][j] = src[j][k], for j < rows and k in [from, to).
func transposePlain(dst, src unsafe.Pointer, dstBytes, srcBytes uintptr, rows, from, to int) {
	for j := range rows {
		s := unsafe.Slice((*float32)(unsafe.Add(src, uintptr(j)*srcBytes)), to)
		for k := from; k < to; k++ {
			*(*float32)(unsafe.Add(dst, uintptr(k)*dstBytes+uintptr(4*j))) = s[k]
		}
	}
}

// addRowsPlain adds rows of floats float32 to sum, in order.
func addRowsPlain(sum, src unsafe.Pointer, srcBytes uintptr, rows, floats int) {
	s := unsafe.Slice((*float32)(sum), floats)
	for r := range uintptr(rows) {
		for j, v := range unsafe.Slice((*float32)(unsafe.Add(src, r*srcBytes)), floats) {
			s[j] += v
		}
	}
}
