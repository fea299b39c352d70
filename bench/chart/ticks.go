package chart

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// ticker chooses the labelled values of an axis.
type ticker struct{ isLog bool }

// Ticks implements plot.Ticker.
func (t ticker) Ticks(low, high float64) []plot.Tick {
	if t.isLog {
		return logTicks(low, high)
	}
	return linearTicks(low, high)
}

// linearTicks returns 4 to 8 multiples of 1, 2 or 5 times a power of ten.
func linearTicks(low, high float64) (all []plot.Tick) {
	step := stepOf((high - low) / 6.5)
	for i := math.Ceil(low/step - 1e-9); i*step <= high+step*1e-9; i++ {
		v := i * step
		if i == 0 {
			v = 0
		}
		all = append(all, plot.Tick{Value: v, Label: tickText(v, step)})
	}
	return all
}

// stepOf returns the least of 1, 2, 5 times a power of ten that is at least x.
func stepOf(x float64) float64 {
	p := powerBelow(x)
	for _, m := range []float64{1, 2, 5} {
		if m*p >= x*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// placeTicks returns a tick for each place of values, if these are few and far from each other.
func placeTicks(places []float64, a plot.Axis) plot.Ticker {
	all := plot.ConstantTicks{}
	for i, v := range places {
		if i > 0 && a.Norm(v)-a.Norm(places[i-1]) < 0.09 {
			return a.Tick.Marker
		}
		all = append(all, plot.Tick{Value: v, Label: placeText(v)})
	}
	if len(all) < 2 {
		return a.Tick.Marker
	}
	return all
}

// placeText is a value with all its digits.
func placeText(v float64) string {
	step := 1.0
	for i := 0; i < 6 && math.Abs(v/step-math.Round(v/step)) > 1e-9; i++ {
		step /= 10
	}
	if math.Abs(v) < 1e6 {
		return tickText(v, step)
	}
	return tickText(v, powerBelow(v)/100)
}

// powerBelow returns the greatest power of ten that is at most x.
func powerBelow(x float64) float64 {
	for e := 300; e > -300; e-- {
		if p, _ := strconv.ParseFloat("1e"+strconv.Itoa(e), 64); p <= x*(1+1e-9) {
			return p
		}
	}
	return 1e-300
}

// logTicks returns the powers of ten, and 2 and 5 times them if there are few.
func logTicks(low, high float64) (all []plot.Tick) {
	few := high/low < 2000
	for p := powerBelow(low); p <= high; p *= 10 {
		for m := 1.0; m < 10; m++ {
			if v := m * p; v >= low && v <= high {
				t := plot.Tick{Value: v}
				if m == 1 || few && (m == 2 || m == 5) || high/low < 10 {
					t.Label = tickText(v, p)
				}
				all = append(all, t)
			}
		}
	}
	return all
}

// tickText is a value with the decimals of a step: thousands are separated, and large or small ones have a suffix.
func tickText(v, step float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}} {
		if math.Abs(v) >= unit.size {
			return tickText(v/unit.size, step/unit.size) + unit.name
		}
	}
	if v != 0 && math.Abs(v) < 1e-3 {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	decimals := 0
	for s := step; s < 1-1e-9 && decimals < 9; s *= 10 {
		decimals++
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	whole, rest, _ := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "\u2212", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return sign + whole
}

// labelTicks returns a tick for each label of bars, in lines that are as wide as a group allows.
func labelTicks(labels []string, width vg.Length) plot.ConstantTicks {
	each := float64(width-70) / float64(max(1, len(labels)))
	var all plot.ConstantTicks
	for i, l := range labels {
		all = append(all, plot.Tick{Value: float64(i), Label: wrapText(l, max(4, int(each/6.4)))})
	}
	return all
}

// wrapText breaks a text into lines.
func wrapText(text string, n int) string { return strings.Join(Wrap(text, n), "\n") }

// Wrap breaks a text at spaces into lines of at most n characters, if its words allow.
func Wrap(text string, n int) (out []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > n:
			out = append(out, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(out, line)
}
