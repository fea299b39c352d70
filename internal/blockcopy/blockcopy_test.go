package blockcopy

import (
	"bytes"
	"testing"
)

func TestCopy(t *testing.T) {
	src := make([]byte, 3*long)
	for i := range src {
		src[i] = byte(i*7 + i>>8)
	}
	for _, n := range []int{0, 1, long - 1, long, long + 1, 2*long + 63} {
		for _, off := range []int{0, 1, 31} {
			dst := make([]byte, n+off+9)
			Copy(dst[off:off+n+3], src[off:off+n])
			want := append(append(make([]byte, off), src[off:off+n]...), make([]byte, 9)...)
			if !bytes.Equal(dst, want) {
				t.Errorf("%d bytes from %d: not what was copied, or more than that", n, off)
			}
		}
	}
}
