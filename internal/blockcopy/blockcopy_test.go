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
	for _, all := range []int{0, leastStreamed} { // each kind of copy, once blocks are long
		for _, n := range []int{0, 1, least - 1, least, least + 1, 2*least + 63} {
			for _, off := range []int{0, 1, 31} {
				dst := make([]byte, n+off+9)
				Copy(dst[off:off+n+3], src[off:off+n], all)
				want := append(append(make([]byte, off), src[off:off+n]...), make([]byte, 9)...)
				if !bytes.Equal(dst, want) {
					t.Errorf("%d bytes from %d, of %d: copied other bytes, or too many", n, off, all)
				}
			}
		}
	}
}

func TestStreamedFrom(t *testing.T) {
	for cache, want := range map[int]int{
		32 << 20: 28 << 20, 4 << 20: minStreamed, -1: 28 << 20, 0: 28 << 20,
	} {
		if got := streamedFrom(cache); got != want {
			t.Errorf("a last cache of %d bytes: streamed from %d, not %d", cache, got, want)
		}
	}
}

// TestWorkingSet compares the choice with measurements on a last cache of 32 MiB, which
// holds exchanges of 8 MiB by 2 ranks and of 4 MiB by 4, but not of twice as much.
func TestWorkingSet(t *testing.T) {
	for _, test := range []struct {
		n, ranks int
		streamed bool
	}{{4 << 20, 2, false}, {8 << 20, 2, true}, {1 << 20, 4, false}, {2 << 20, 4, true}, {1 << 30, 1, false}} {
		if got := workingSet(test.n, test.ranks) >= streamedFrom(32<<20); got != test.streamed {
			t.Errorf("%d bytes from each of %d ranks: streamed is %v", test.n, test.ranks, got)
		}
	}
}
