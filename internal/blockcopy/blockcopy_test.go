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
	for _, n := range []int{0, 1, least - 1, least, least + 1, 2*least + 63} {
		for _, off := range []int{0, 1, 31} {
			dst := make([]byte, n+off+9)
			Copy(dst[off:off+n+3], src[off:off+n], n<<(off%3*20))
			want := append(append(make([]byte, off), src[off:off+n]...), make([]byte, 9)...)
			if !bytes.Equal(dst, want) {
				t.Errorf("%d bytes from %d: not what was copied, or more than that", n, off)
			}
		}
	}
}
