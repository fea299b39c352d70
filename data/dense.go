package data

import "math"

// logSmall holds log(1 + x) of the small integers, which most values are.
var logSmall = func() *[1 << 14]float32 {
	t := new([1 << 14]float32)
	for i := range t {
		t[i] = log1p(float64(i))
	}
	return t
}()

func log1p(x float64) float32 { return float32(math.Log1p(x)) }

// logInt is log(1 + max(x, 0)), rounded to float32.
func logInt(x int32) float32 {
	if x < 0 {
		return 0
	}
	if int(x) < len(logSmall) {
		return logSmall[x]
	}
	return log1p(float64(x))
}

// logFloat is log(1 + max(x, 0)), rounded to float32. It agrees with logInt on
// integers.
func logFloat(x float32) float32 {
	if !(x > 0) {
		return 0
	}
	return log1p(float64(x))
}
