package blockcopy

import (
	"bytes"
	"testing"
)

func TestCopy(t *testing.T) {
	src := make([]byte, 3*least)
	for i := range src {
		src[i] = byte(i*7 + i>>8)
	}
	for _, all := range []int{0, mostMoved + 1, leastStreamed} { // each of the ways, once blocks are long
		for _, n := range []int{0, 1, least - 1, least, least + 1, 2*least + 63} {
			for _, off := range []int{0, 1, 31} {
				dst := make([]byte, n+off+9)
				Copy(dst[off:off+n+3], src[off:off+n], all)
				want := append(append(make([]byte, off), src[off:off+n]...), make([]byte, 9)...)
				if !bytes.Equal(dst, want) {
					t.Errorf("%d bytes from %d, of %d: not what was copied, or more than that", n, off, all)
				}
			}
		}
	}
}

func TestStreamedFrom(t *testing.T) {
	for cache, want := range map[int]int{
		32 << 20: 4 << 20, 105 << 20: 105 << 17, // as measured on machines with such caches
		4 << 20: mostMoved + 1, // what the string instruction copies is never streamed
		-1:      4 << 20, 0: 4 << 20,
	} {
		if got := streamedFrom(cache); got != want {
			t.Errorf("a last cache of %d bytes: streamed from %d, not %d", cache, got, want)
		}
	}
}
