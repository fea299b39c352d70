package paper

import (
	"math"
	"strconv"
	"strings"
)

// number is a value for people: four digits, thousands separated.
func number(y float64) string {
	if math.IsNaN(y) || math.IsInf(y, 0) {
		return strconv.FormatFloat(y, 'g', -1, 64)
	}
	a := math.Abs(y)
	if a != 0 && (a < 1e-3 || a >= 1e15) {
		return strconv.FormatFloat(y, 'g', 4, 64)
	}
	decimals := 0
	for bound := 1e3; decimals < 6 && a < bound && a != 0; bound /= 10 {
		decimals++
	}
	s := strconv.FormatFloat(y, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return groupThousands(s)
}

// full is a value with all its digits, thousands separated.
func full(y float64) string {
	if a := math.Abs(y); a != 0 && (a < 1e-3 || a >= 1e15) {
		return strconv.FormatFloat(y, 'g', -1, 64)
	}
	return groupThousands(strconv.FormatFloat(y, 'f', -1, 64))
}

// groupThousands separates the thousands of a decimal number.
func groupThousands(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	whole, rest, found := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if found {
		whole += "." + rest
	}
	return sign + whole
}
