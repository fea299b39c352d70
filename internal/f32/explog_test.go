package f32

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
)

// points draws arguments of every magnitude, half of them negative.
func points(n int, lowExp, highExp float64) []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	xs := make([]float64, n)
	for i := range xs {
		x := math.Exp2(lowExp + (highExp-lowExp)*r.Float64())
		if i%2 == 1 {
			x = -x
		}
		xs[i] = x
	}
	return xs
}

func TestExpLogAgreeWithMath(t *testing.T) {
	check := func(name string, got, want, x float64) {
		t.Helper()
		if got == want || got != got && want != want {
			return
		}
		err := math.Abs(got - want)
		if want != 0 {
			err /= math.Abs(want)
		}
		limit := 2e-15
		if math.Abs(want) < 0x1p-1022 { // a subnormal result has fewer bits
			err, limit = math.Abs(got-want), 0x1p-1073
		}
		if !(err <= limit) {
			t.Fatalf("%s(%g) = %g, want %g (error %.2g)", name, x, got, want, err)
		}
	}
	for _, x := range append(points(200_000, -60, 9.47), 0, math.Copysign(0, -1), 1, -1, 709.4, 709.8, -708.4, -745.13, -745.2,
		1e300, math.Inf(1), math.Inf(-1), math.NaN()) {
		check("Exp64", Exp64(x), math.Exp(x), x)
		if x > -700 { // below, e^x / (1 + e^x) is e^x
			check("Sigmoid64", Sigmoid64(x), 1/(1+math.Exp(-x)), x)
		}
	}
	for _, x := range append(points(200_000, -1022, 1024), 0, math.Sqrt2, 1, -1, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN()) {
		check("Log64", Log64(x), math.Log(x), x)
	}
	// From here to its overflow math.Exp is +Inf too early on amd64 (Go 1.26).
	check("Log64(Exp64)", Log64(Exp64(709.78)), 709.78, 709.78)
	for _, x := range []float64{5e-324, 1e-320, 1e-310, 0x1p-1023} { // math.Log is wrong there on amd64 (Go 1.26)
		check("Log64", Log64(x), math.Log(x*0x1p54)-54*math.Ln2, x)
	}
	for _, x := range points(100_000, -1, 1) {
		check("Log64", Log64(math.Abs(x)), math.Log(math.Abs(x)), x)
	}
	for _, x := range append(points(200_000, -80, 40), 0, -1, -2, -0.29, 0.41, 5e-324, math.Inf(1), math.NaN()) {
		check("Log1p64", Log1p64(x), math.Log1p(x), x)
	}
}

// TestGolden pins the bits: they may not depend on GOAMD64, GODEBUG or the CPU.
func TestGolden(t *testing.T) {
	h := fnv.New64a()
	put := func(x float64) {
		if x != x {
			x = 0 // the bits of a NaN are not defined
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(x))
		h.Write(b[:])
	}
	for i := range 200_000 {
		// Arguments from integers, by one exact and one correctly rounded operation.
		x := float64(int64(uint64(i)*0x9E3779B97F4A7C15)) / (1 << 54)
		put(Exp64(x))
		put(Log64(math.Abs(x)))
		put(Log1p64(x))
		put(Sigmoid64(x / 8))
		put(float64(FMA(float32(x), float32(x/3), float32(-x*x/3))))
	}
	const want = 0x95952c76dd89722a
	if got := h.Sum64(); got != want {
		t.Errorf("hash of results is %#x, want %#x", got, uint64(want))
	}
}

func BenchmarkExp64(b *testing.B) {
	x := 0.5
	for range b.N {
		x = Exp64(-x)
	}
	_ = x
}

func BenchmarkLog1p64(b *testing.B) {
	x := 0.5
	for range b.N {
		x = Log1p64(x + 1)
	}
	_ = x
}
