package derive

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// halves are all finite binary16 numbers that are not negative, by their bits, computed from the definition of the format.
func halves() (list []float64) {
	for bits := range halfInf {
		e, f := bits>>10, float64(bits&0x3ff)
		if e == 0 {
			list = append(list, math.Ldexp(f, -24))
		} else {
			list = append(list, math.Ldexp(1024+f, e-25))
		}
	}
	return list
}

// nearest is the place of the number of a sorted list that is nearest to x; of two the even place.
func nearest(list []float64, x float64) int {
	i, found := slices.BinarySearch(list, x)
	switch {
	case found || i == 0:
		return i
	case i == len(list):
		return i - 1
	case list[i]-x < x-list[i-1] || list[i]-x == x-list[i-1] && i%2 == 0:
		return i
	}
	return i - 1
}

// draw draws a weight: of any size, or near the values at which rounding changes.
func draw(r *rand.Rand, all []float64) float32 {
	switch r.IntN(4) {
	case 0:
		return math.Float32frombits(r.Uint32())
	case 1: // between two halves
		i := r.IntN(len(all) - 1)
		x := float32((all[i] + all[i+1]) / 2)
		return math.Float32frombits(math.Float32bits(x) + uint32(r.IntN(3)) - 1)
	case 2:
		return float32(all[r.IntN(len(all))])
	}
	return float32(r.NormFloat64())
}

// TestFloat16: the encoding is the nearest of all numbers of the format, and numbers beyond the largest one become it.
func TestFloat16(t *testing.T) {
	all := halves()
	for bits, x := range all {
		if got := fromHalf(uint16(bits)); float64(got) != x {
			t.Fatalf("%#04x is %v, want %v", bits, got, x)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2_000_000 {
		x := draw(r, all)
		h, saturated := toHalf(x)
		switch {
		case x != x:
			if back := fromHalf(h); back == back {
				t.Fatalf("not a number became %v", back)
			}
			continue
		case math.IsInf(float64(x), 0):
			if fromHalf(h) != x || saturated {
				t.Fatalf("%v became %v", x, fromHalf(h))
			}
			continue
		}
		want := uint16(nearest(all, math.Abs(float64(x))))
		if math.Signbit(float64(x)) {
			want |= 0x8000
		}
		// 65520 is between the largest number and 2^16, which would be next.
		if beyond := math.Abs(float64(x)) >= 65520; h != want || saturated != beyond {
			t.Fatalf("%v (%#08x) is %#04x, saturated %v; want %#04x, %v", x, math.Float32bits(x), h, saturated, want, beyond)
		}
	}
}

// TestInt8Largest: the largest numbers have a scale whose multiples are finite.
func TestInt8Largest(t *testing.T) {
	var sum Error
	weights := []float32{math.MaxFloat32, -math.MaxFloat32, 1}
	decoded, err := Int8.Decode(nil, []int{3}, Int8.Append(nil, []int{3}, weights, &sum))
	if err != nil || math.IsInf(sum.Max, 0) {
		t.Fatalf("the error is %v (%v)", sum.Max, err)
	}
	for i, x := range decoded {
		if x-x != 0 || math.Abs(float64(x)-float64(weights[i])) > float64(math.MaxFloat32)/250 {
			t.Errorf("%v becomes %v", weights[i], x)
		}
	}
}

// TestInt8: each byte is the nearest multiple of the scale, by arithmetic with fractions, and the decoded weights are within half a scale.
func TestInt8(t *testing.T) {
	r, all := rand.New(rand.NewPCG(3, 4)), halves()
	for range 20_000 {
		parts := []int{1 + r.IntN(20), 1}
		weights, sum := make([]float32, parts[0]+1), Error{}
		size := math.Ldexp(1, r.IntN(60)-30)
		for i := range weights {
			for weights[i] = draw(r, all); weights[i]-weights[i] != 0 || math.Abs(float64(weights[i])) > 1e30; {
				weights[i] = draw(r, all)
			}
			if r.IntN(2) == 0 {
				weights[i] = float32(r.NormFloat64() * size)
			}
		}
		value := Int8.Append(nil, parts, weights, &sum)
		decoded, err := Int8.Decode(nil, parts, value)
		if err != nil || len(value) != Int8.Bytes(parts) {
			t.Fatal(err)
		}
		largest := 0.0
		for i, rest := 0, value; len(rest) > 0; {
			width := parts[0]
			if i > 0 {
				width = 1
			}
			top := float32(0)
			for _, w := range weights[i : i+width] {
				top = max(top, float32(math.Abs(float64(w))))
			}
			scale := top / 127
			for k, w := range weights[i : i+width] {
				q := int64(int8(rest[4+k]))
				if scale > 0 && !isNearest(q, w, scale) {
					t.Fatalf("%v / %v became %d", w, scale, q)
				}
				d := math.Abs(float64(w) - float64(decoded[i+k]))
				if bound := float64(scale)/2 + math.Abs(float64(w))*0x1p-23 + 0x1p-142; d > bound {
					t.Fatalf("%v became %v: the error is %v, over %v", w, decoded[i+k], d, bound)
				}
				largest = max(largest, d)
			}
			i, rest = i+width, rest[4+width:]
		}
		if sum.Max != largest || sum.Weights != int64(len(weights)) || sum.Saturated+sum.NotFinite != 0 {
			t.Fatalf("the error is stated as %+v, it is %v", sum, largest)
		}
	}
}

// isNearest reports whether q is the integer from -127 to 127 that is nearest to w / scale, and even if two are.
func isNearest(q int64, w, scale float32) bool {
	x := new(big.Rat).Quo(new(big.Rat).SetFloat64(float64(w)), new(big.Rat).SetFloat64(float64(scale)))
	far := func(n int64) *big.Rat { d := new(big.Rat).Sub(x, big.NewRat(n, 1)); return d.Abs(d) }
	mine := far(q)
	for _, other := range []int64{q - 1, q + 1} {
		if other < -127 || other > 127 {
			continue
		}
		if c := far(other).Cmp(mine); c < 0 || c == 0 && q%2 != 0 {
			// The quotient is rounded to float64 first, which decides only ties that are none to 2^-44.
			if new(big.Rat).Sub(mine, far(other)).Cmp(big.NewRat(1, 1<<40)) > 0 || c == 0 {
				return false
			}
		}
	}
	return true
}

// TestNotFinite: weights that are not finite are counted, and do not enter the error.
func TestNotFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	row := []float32{1, inf, -inf, nan, -0.5}
	for _, e := range []Encoding{Float32, Float16, Int8} {
		var sum Error
		value := e.Append(nil, []int{5}, row, &sum)
		if sum.NotFinite != 3 || sum.Weights != 2 || sum.Max > 0.004 || sum.Saturated != 0 {
			t.Errorf("%s: %+v", e, sum)
		}
		if _, err := e.Decode(nil, []int{4}, value); err == nil {
			t.Errorf("%s: a row of another length is decoded", e)
		}
	}
	var sum Error
	back, err := Int8.Decode(nil, []int{3}, Int8.Append(nil, []int{3}, []float32{0, 0, 0}, &sum))
	if err != nil || !slices.Equal(back, []float32{0, 0, 0}) || sum.Max != 0 {
		t.Errorf("zeros became %v: %v", back, err)
	}
	sum = Error{}
	back, err = Float16.Decode(nil, []int{2}, Float16.Append(nil, []int{2}, []float32{1e6, -7e4}, &sum))
	if err != nil || sum.Saturated != 2 || !slices.Equal(back, []float32{65504, -65504}) || sum.Max != 1e6-65504 {
		t.Errorf("large weights became %v: %+v, %v", back, sum, err)
	}
}
