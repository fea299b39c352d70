package numbers

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// scale converts a number of a record to a unit: x * factor - less.
type scale struct {
	factor, less float64
	name         string
}

var same = scale{factor: 1}

// kinds are the units that convert into each other, each as a multiple of a unit that is 1. The last kind is counts, per second or not.
var kinds = []map[string]float64{
	{"s": 1, "seconds": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60, "minutes": 60, "hours": 3600},
	{"B": 1, "bytes": 1, "KB": 1e3, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30},
	{"B/s": 1, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12},
	{"FLOP/s": 1, "GFLOP/s": 1e9, "TFLOP/s": 1e12},
	{"ratio": 1, "times": 1, "%": 0.01},
	{"number": 1, "rows": 1, "samples": 1, "elements": 1, "per step": 1, "samples/s": 1, "rows/s": 1, "reads/s": 1,
		"thousand": 1e3, "M": 1e6, "million": 1e6, "M samples/s": 1e6, "million samples/s": 1e6},
}

// bases are the units that a number without a unit may have, as well as that of the claim.
var bases = []string{"bytes", "B/s", "FLOP/s", "ratio", "number"}

// scales returns the conversions of a number with one of some units to the unit of a claim, none if they are not of one kind.
func scales(units []string, to string) (all []scale) {
	switch {
	case to == "":
		counts := kinds[len(kinds)-1]
		all = []scale{same}
		if slices.ContainsFunc(units, func(u string) bool { return counts[u] > 0 }) {
			all = append(all, scale{1e-3, 0, " / 1,000"})
		}
		return all
	case len(units) == 0:
		all, units = []scale{same}, bases
	}
	for _, from := range units {
		all = append(all, conversions(from, to)...)
	}
	return all
}

// conversions returns those of a unit to another one. A ratio is also a part in excess: 1.023 is 2.3 % more.
func conversions(from, to string) []scale {
	if from == to {
		return []scale{same}
	}
	for _, k := range kinds {
		if k[from] == 0 || k[to] == 0 {
			continue
		}
		all := []scale{{k[from] / k[to], 0, " in " + to}}
		if to == "%" {
			all = append(all, scale{100, 100, " in %, less 100"})
		}
		return all
	}
	return nil
}

// Find returns the first record that has a number which rounds to a claim, and the number's place there. Numbers with units precede
// all other numbers.
func Find(c Claim, records []*Record) (r *Record, place string) {
	value, step, err := parse(c.Text)
	if err != nil {
		return nil, ""
	}
	for _, withUnit := range []bool{true, false} {
		for _, r := range records {
			for _, n := range r.numbers {
				if len(n.units) > 0 != withUnit {
					continue
				}
				for _, s := range scales(n.units, c.Shared) {
					// Half a step rounds to either side.
					if math.Abs(n.value*s.factor-s.less-value) <= step/2*(1+1e-6) {
						return r, n.place + s.name
					}
				}
			}
		}
	}
	return nil, ""
}

// parse returns the value of a claim, and the distance of the numbers with as many digits. Zeros at the end of an integer of
// 1,000 or more are no digits.
func parse(claim string) (value, step float64, err error) {
	s := strings.ReplaceAll(claim, ",", "")
	if value, err = strconv.ParseFloat(s, 64); err != nil {
		return 0, 0, err
	}
	mantissa, exponent, _ := strings.Cut(s, "e")
	power := 0
	if exponent != "" {
		if power, err = strconv.Atoi(exponent); err != nil {
			return 0, 0, err
		}
	}
	_, fraction, dotted := strings.Cut(mantissa, ".")
	switch {
	case dotted:
		power -= len(fraction)
	case math.Abs(value) >= 1000 && exponent == "":
		power += len(mantissa) - len(strings.TrimRight(mantissa, "0"))
	}
	return value, math.Pow10(power), nil
}
