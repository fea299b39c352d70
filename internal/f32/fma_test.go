package f32

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// TestFMA compares FMA with exact arithmetic, most often near half way points
// and subnormal results.
func TestFMA(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	draw := func() float32 {
		exp := uint32(127 - 20 + rng.IntN(40))
		switch rng.IntN(8) {
		case 0:
			exp = uint32(rng.IntN(255))
		case 1:
			exp = uint32(127 - 70 + rng.IntN(10)) // products of these are subnormal
		}
		mantissa := rng.Uint32() & (1<<23 - 1)
		if rng.IntN(2) == 0 {
			mantissa &= 0x7ff << rng.IntN(13) // few bits: exact and half way sums
		}
		return math.Float32frombits(rng.Uint32()<<31 | exp<<23 | mantissa)
	}
	for range 300000 {
		a, b, c := draw(), draw(), draw()
		got := FMA(a, b, c)
		if odd := fmaToOdd(a, b, c); math.Float32bits(got) != math.Float32bits(odd) {
			t.Fatalf("FMA(%b, %b, %b) = %b, rounded to odd %b", a, b, c, got, odd)
		}
		exact := new(big.Float).SetPrec(600).SetFloat64(float64(a))
		exact.Mul(exact, new(big.Float).SetFloat64(float64(b)))
		exact.Add(exact, new(big.Float).SetFloat64(float64(c)))
		want, _ := exact.Float32()
		if got != want {
			t.Fatalf("FMA(%b, %b, %b) = %b, want %b", a, b, c, got, want)
		}
	}
}

func TestFMASpecials(t *testing.T) {
	inf, negZero := float32(math.Inf(1)), float32(math.Copysign(0, -1))
	for _, c := range [][4]float32{
		{inf, 1, 1, inf}, {-1, inf, 1, -inf}, {1, 1, inf, inf}, {math.MaxFloat32, 2, 0, inf},
		{0, 1, 0, 0}, {0, -1, 0, 0}, {0, -1, negZero, negZero}, {1, 1, -1, 0},
	} {
		if got := FMA(c[0], c[1], c[2]); math.Float32bits(got) != math.Float32bits(c[3]) {
			t.Errorf("FMA(%g, %g, %g) = %g, want %g", c[0], c[1], c[2], got, c[3])
		}
	}
	for _, c := range [][3]float32{{inf, 0, 1}, {inf, 1, -inf}, {float32(math.NaN()), 1, 1}} {
		if got := FMA(c[0], c[1], c[2]); got == got {
			t.Errorf("FMA(%g, %g, %g) = %g, want NaN", c[0], c[1], c[2], got)
		}
	}
}
