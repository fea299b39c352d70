package kernels

import (
	"fmt"
	"testing"
)

// TestDotsAgree compares the loops of the dot interaction with plain Go for all numbers of vectors that AVX-512 has loops of its own for
// (dots_avx512_amd64.s), and some beside them.
func TestDotsAgree(t *testing.T) {
	ops := map[string]func(c *testCase, s Stream){}
	for f := 15; f <= 30; f++ {
		for _, d := range []int{16, 48, 50} {
			for _, alone := range []bool{false, true} {
				ops[fmt.Sprintf("DotInteraction/f=%d,d=%d,alone=%v", f, d, alone)] = func(c *testCase, s Stream) {
					cols := f * (f - 1) / 2
					if !alone {
						cols += d
					}
					for _, b := range []int{1, 33} {
						for gap := range 2 {
							feats, out := c.matrix(b, f*d, gap), c.matrix(b, cols, gap)
							s.DotInteraction(out, feats, f, d)
							s.DotInteractionGrad(c.matrix(b, f*d, gap), out, feats, f, d)
						}
					}
				}
			}
		}
	}
	testLoops(t, ops, 0xdc41efa1ffc3c9ff)
}
