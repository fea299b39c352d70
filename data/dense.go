package data

import "github.com/ecrec/ecrec/internal/f32"

// logSmall holds log(1 + x) of the small integers, which most values are.
var logSmall = func() *[1 << 14]float32 {
	t := new([1 << 14]float32)
	for i := range t {
		t[i] = float32(f32.Log1p64(float64(i)))
	}
	return t
}()

// logInt is log(1 + max(x, 0)), rounded to float32.
func logInt(x int32) float32 {
	if x < 0 {
		return 0
	}
	if int(x) < len(logSmall) {
		return logSmall[x]
	}
	return float32(f32.Log1p64(float64(x)))
}

// logFloat is log(1 + max(x, 0)), rounded to float32. It agrees with logInt on
// integers.
func logFloat(x float32) float32 {
	if !(x > 0) {
		return 0
	}
	if x < float32(len(logSmall)) {
		if i := int32(x); float32(i) == x {
			return logSmall[i]
		}
	}
	return float32(f32.Log1p64(float64(x)))
}
