package f32

import "math"

// The functions of this file replace those of package math in all numbers that
// training or evaluation prints: math's change bits with the CPU and the build.
// Only the +, -, * and / of IEEE 754 are used here. Each product is converted before
// it is added or returned (after inlining, an addition may follow), so that no
// compiler may fuse the two. Relative errors are below 1e-15; for subnormal results
// they are up to an ulp.

// ln2 = ln2Hi + ln2Lo, with enough trailing zeros in ln2Hi for k*ln2Hi to be
// exact for every exponent k.
const (
	ln2Hi = 0x1.62e42feep-1
	ln2Lo = 0x1.a39ef35793c76p-33
	log2e = 1 / math.Ln2
)

// expTerms holds 1/n! for n = 13 down to 0: for |r| <= ln2/2 the omitted terms are
// below 5e-18.
var expTerms = [...]float64{
	1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
	1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1, 1,
}

// Exp64 returns e^x.
func Exp64(x float64) float64 {
	switch {
	case x != x:
		return x
	case x > 709.79:
		return math.Inf(1)
	case x < -745.14:
		return 0
	}
	n := float64(x * log2e)
	if n < 0 {
		n -= 0.5
	} else {
		n += 0.5
	}
	k := int(n)
	r := x - float64(float64(k)*ln2Hi) - float64(float64(k)*ln2Lo)
	s := expTerms[0]
	for _, c := range expTerms[1:] {
		s = float64(s*r) + c
	}
	// 2^k in two halves: either alone is a normal number.
	h := k / 2
	return float64(float64(s*pow2(h)) * pow2(k-h))
}

// pow2 returns 2^k for -1022 <= k <= 1023.
func pow2(k int) float64 { return math.Float64frombits(uint64(k+1023) << 52) }

// atanhTerms holds 1/(2n+1) for n = 11 down to 0: for |s| <= 3 - sqrt(8), the omitted
// terms are below 2e-20 of atanh(s).
var atanhTerms = [...]float64{
	1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1,
}

// twiceAtanh returns 2 atanh(s) = log((1+s)/(1-s)) for |s| <= 3 - sqrt(8).
func twiceAtanh(s float64) float64 {
	q := s * s
	p := atanhTerms[0]
	for _, c := range atanhTerms[1:] {
		p = float64(p*q) + c
	}
	return float64(2 * s * p)
}

// Log64 returns the natural logarithm of x: -Inf for 0, NaN for x < 0.
func Log64(x float64) float64 {
	switch {
	case x != x || x > math.MaxFloat64:
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	k := 0
	if x < 0x1p-1022 { // subnormal
		x *= 0x1p54
		k = -54
	}
	b := math.Float64bits(x)
	k += int(b>>52) - 1023
	m := math.Float64frombits(b&(1<<52-1) | 1023<<52)
	if m > math.Sqrt2 {
		m /= 2
		k++
	}
	l := twiceAtanh((m - 1) / (m + 1))
	return float64(float64(k)*ln2Hi) + (float64(float64(k)*ln2Lo) + l)
}

// Log1p64 returns log(1 + x), accurate for small x: -Inf for -1, NaN below.
func Log1p64(x float64) float64 {
	if x > -0.29 && x < 0.41 {
		if x == 0 {
			return x
		}
		return twiceAtanh(x / (2 + x))
	}
	return Log64(1 + x)
}

// Sigmoid64 returns 1 / (1 + e^-x).
func Sigmoid64(x float64) float64 {
	if x < 0 {
		e := Exp64(x)
		return e / (1 + e)
	}
	return 1 / (1 + Exp64(-x))
}

// CrossEntropy64 returns the sigmoid of a logit, and the cross-entropy with a label.
func CrossEntropy64(logit, label float64) (p, loss float64) {
	e := Exp64(-math.Abs(logit))
	p = 1 / (1 + e)
	if logit < 0 {
		p = e / (1 + e)
	}
	return p, Log1p64(e) + max(logit, 0) - float64(logit*label)
}
