package collectives_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/kernels"
)

// rankOrderSum is the definition of AllReduce's result.
func rankOrderSum(in [][]float32) []float32 {
	out := make([]float32, len(in[0]))
	for i := range out {
		sum := float32(0)
		for _, x := range in {
			sum += x[i]
		}
		out[i] = sum
	}
	return out
}

// sharedBuffer is memory of n bytes that other ranks can read in place.
func sharedBuffer(tb testing.TB, n int) kernels.Buffer {
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	b, err := dev.Alloc(n, kernels.Shared)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { dev.Free(b) })
	return b
}

func (g *group) checkAllReduce(t *testing.T, what string, in [][]float32) {
	t.Helper()
	ranks := len(in)
	for _, shared := range []int{0, ranks - 1} { // one rank whose buffer is not shared prevents reading in place
		g.checkSum(t, fmt.Sprintf("%s, %d ranks share memory", what, shared), in, shared)
	}
	for _, staged := range []bool{false, true} {
		undo := collectives.StageAlways(staged)
		g.checkSum(t, fmt.Sprintf("%s, in place, staged %v", what, staged), in, ranks)
		undo()
	}
}

func TestStagingPaysOff(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		coreCache, cores, ranks, bytes int
		want                           bool
	}{
		{mib, 2, 2, mib, true}, {mib, 2, 2, mib / 2, true}, {mib, 2, 2, mib/2 - 4, false},
		{mib, 2, 2, mib + mib/4, true}, {mib, 2, 2, 2 * mib, false},
		{mib, 2, 3, mib, false}, {mib, 4, 3, mib, true},
		{mib / 2, 2, 2, mib, false}, {mib / 2, 2, 2, mib / 2, true},
		{-1, 2, 2, mib, true}, // the CPU does not report its cache
	} {
		if got := collectives.StagingPays(test.coreCache, test.cores, test.ranks, test.bytes); got != test.want {
			t.Errorf("%+v: staged is %v", test, got)
		}
	}
}

// checkSum stores the inputs of the first ranks in shared memory.
func (g *group) checkSum(t *testing.T, what string, in [][]float32, shared int) {
	t.Helper()
	want := rankOrderSum(in)
	got := make([][]float32, len(in))
	for r := range in {
		got[r] = append([]float32(nil), in[r]...)
		if r < shared && len(in[r]) > 0 {
			b := sharedBuffer(t, 4*len(in[r]))
			got[r] = kernels.HostView[float32](b)
			copy(got[r], in[r])
		}
	}
	g.ok(t, func(r int, c *collectives.Comm) *collectives.Handle {
		return c.AllReduce(kernels.HostBuffer(got[r]))
	})
	for r := range got {
		for i, x := range got[r] {
			if math.Float32bits(x) != math.Float32bits(want[i]) {
				t.Fatalf("%s: rank %d element %d of %d: %g (%#x), serial sum %g (%#x)", what, r, i, len(want),
					x, math.Float32bits(x), want[i], math.Float32bits(want[i]))
			}
		}
	}
}

// lengths in floats, around lines, segments and chunks of 16 Ki floats.
var lengths = []int{0, 1, 2, 3, 5, 15, 16, 17, 31, 33, 64, 100, 1000, 16383, 16384, 16385, 32768, 65537, 200_003}

func TestAllReduceIsTheSumInRankOrder(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 8} {
		t.Run(fmt.Sprintf("%d ranks", n), func(t *testing.T) {
			g := newGroup(t, mem(n))
			r := rand.New(rand.NewPCG(1, uint64(n)))
			scale := []float32{1e-6, 1e-3, 1, 1e3, 1e6} // so that another order changes the bits
			for _, length := range lengths {
				if n > 3 && length > 65_537 {
					continue
				}
				g.checkAllReduce(t, "random", fill(n, length, func(int, int) float32 {
					return (r.Float32() - 0.5) * scale[r.IntN(len(scale))]
				}))
				g.checkAllReduce(t, "exactly representable", fill(n, length, func(rank, i int) float32 {
					return float32((rank+1)*(i%1000) - 500)
				}))
			}
		})
	}
}

func fill(ranks, length int, value func(rank, i int) float32) [][]float32 {
	in := make([][]float32, ranks)
	for r := range in {
		in[r] = make([]float32, length)
		for i := range in[r] {
			in[r][i] = value(r, i)
		}
	}
	return in
}

// TestAllReduceSpecialValues: signed zeros of every combination, infinities, denormals
// and overflow have the bits of the serial sum. A NaN is a NaN.
func TestAllReduceSpecialValues(t *testing.T) {
	negZero := float32(math.Copysign(0, -1))
	inf := float32(math.Inf(1))
	special := []float32{0, negZero, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 1, -1, inf, math.MaxFloat32}
	for n := 1; n <= 4; n++ {
		g := newGroup(t, mem(n))
		combinations := int(math.Pow(float64(len(special)), float64(n)))
		g.checkAllReduce(t, fmt.Sprintf("%d ranks", n), fill(n, combinations, func(rank, i int) float32 {
			for range rank {
				i /= len(special)
			}
			return special[i%len(special)]
		}))
		data := fill(n, 100, func(int, int) float32 { return 1 })
		data[n-1][42], data[0][43] = float32(math.NaN()), float32(math.NaN())
		g.ok(t, func(r int, c *collectives.Comm) *collectives.Handle {
			return c.AllReduce(kernels.HostBuffer(data[r]))
		})
		for r := range data {
			for i, x := range data[r] {
				if isNaN := x != x; isNaN != (i == 42 || i == 43) || math.Float32bits(x) != math.Float32bits(data[0][i]) {
					t.Fatalf("%d ranks, NaN: rank %d element %d is %g, rank 0's %g", n, r, i, x, data[0][i])
				}
			}
		}
	}
}
