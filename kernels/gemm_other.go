//go:build !amd64

package kernels

import "unsafe"

// runTiles runs a micro-kernel whose tiles are width columns wide.
func runTiles(_ isa, t *tileRun, _ int) {
	tilePlain(t)
}

// copyRows copies rows of floats float32. Each row of dst is padded with zeros to the
// next multiple of 8 floats.
func copyRows(_ isa, dst, src unsafe.Pointer, dstBytes, srcBytes uintptr, rows, floats, _ int) {
	copyRowsPlain(dst, src, dstBytes, srcBytes, rows, floats, (floats+7)&^7)
}

// transpose sets dst[k][j] = src[j][k], for j < rows and k < cols.
func transpose(_ isa, dst, src unsafe.Pointer, dstBytes, srcBytes uintptr, rows, cols int) {
	transposePlain(dst, src, dstBytes, srcBytes, rows, 0, cols)
}

// addRows adds rows of floats float32 to sum, in order.
func addRows(_ isa, sum, src unsafe.Pointer, srcBytes uintptr, rows, floats int) {
	addRowsPlain(sum, src, srcBytes, rows, floats)
}
