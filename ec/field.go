package ec

import (
	"crypto/subtle"
	"fmt"

	"github.com/klauspost/reedsolomon"
)

// field is GF(2^8) with the polynomial 0x11D, on slices.
var field reedsolomon.LowLevel

// block is how many bytes of each shard are processed at a time, so that sums stay in the
// first-level cache. The library's own product reads each column once for all sums. That is up
// to twice as fast on long shards, but it allocates, and is slower on rows.
const block = 4 << 10

// addProduct is dst += c * src.
func addProduct(dst, src []byte, c byte) {
	if c == 1 {
		subtle.XORBytes(dst, dst, src)
	} else {
		field.GalMulSliceXor(c, src, dst)
	}
}

// setProduct is dst = c * src.
func setProduct(dst, src []byte, c byte) {
	if c == 1 {
		copy(dst, src)
	} else {
		field.GalMulSlice(c, src, dst)
	}
}

// multiply is dst = matrix * src. matrix is (len(dst), len(src)), and all shards have one length.
// A nil src is zeros. dst must not overlap src.
func multiply(dst, src [][]byte, matrix [][]byte) {
	if len(dst) != len(matrix) {
		panic(fmt.Sprintf("ec: %d shards to write, want %d", len(dst), len(matrix)))
	}
	if len(dst) == 0 {
		return
	}
	size := len(dst[0])
	for i, d := range dst {
		if len(d) != size {
			panic(fmt.Sprintf("ec: shard %d to write has %d bytes, the first %d", i, len(d), size))
		}
	}
	if len(src) != len(matrix[0]) {
		panic(fmt.Sprintf("ec: %d shards to read, want %d", len(src), len(matrix[0])))
	}
	for i, s := range src {
		if s != nil && len(s) != size {
			panic(fmt.Sprintf("ec: shard %d to read has %d bytes, those to write %d", i, len(s), size))
		}
	}
	for begin := 0; begin < size; begin += block {
		end := min(begin+block, size)
		for i, d := range dst {
			addUp(d[begin:end], src, begin, matrix[i])
		}
	}
}

// addUp is dst = the sum over i of coefficients[i] * src[i][begin:begin+len(dst)].
func addUp(dst []byte, src [][]byte, begin int, coefficients []byte) {
	set := false
	for i, s := range src {
		switch c := coefficients[i]; {
		case s == nil || c == 0:
		case set:
			addProduct(dst, s[begin:begin+len(dst)], c)
		default:
			setProduct(dst, s[begin:begin+len(dst)], c)
			set = true
		}
	}
	if !set {
		clear(dst)
	}
}

func zeros(rows, columns int) [][]byte {
	m := make([][]byte, rows)
	for i := range m {
		m[i] = make([]byte, columns)
	}
	return m
}

func identity(n int) [][]byte {
	m := zeros(n, n)
	for i := range m {
		m[i][i] = 1
	}
	return m
}
