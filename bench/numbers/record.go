package numbers

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Record is the numbers of the files of one name.
type Record struct {
	Name    string
	numbers []named
}

// named is a number with its place in a record.
type named struct {
	value float64
	unit  string // of a figure; empty: of another number
	place string // the figure, or the line of text
}

var inText = regexp.MustCompile(`(^|[^0-9])(-?[0-9][0-9,]*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)`)

// Read reads the files NAME.json and NAME.txt of a folder, and NAME-*.json if NAME.json is missing. A name of which there is no file is an error.
func Read(folder fs.FS, name string) (*Record, error) {
	r := &Record{Name: name}
	paths, err := fs.Glob(folder, name+"*")
	if err != nil {
		return nil, err
	}
	whole := slices.Contains(paths, name+".json")
	for _, path := range paths {
		if rest := strings.TrimPrefix(path, name); rest[0] != '.' && (whole || rest[0] != '-') {
			continue
		}
		b, err := fs.ReadFile(folder, path)
		if err != nil {
			return nil, err
		}
		switch {
		case strings.HasSuffix(path, ".json"):
			if err := r.addReport(b); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		case strings.HasSuffix(path, ".txt"):
			r.addText(string(b))
		}
	}
	if len(r.numbers) == 0 {
		return nil, fmt.Errorf("record %s: no file with numbers", name)
	}
	return r, nil
}

// addReport adds the figures of a report, and its settings.
func (r *Record) addReport(b []byte) error {
	var report struct {
		Settings map[string]string
		Machine  struct{ Cores float64 }
		Figures  []struct {
			Name             string
			Unit             string
			Median, Min, Max float64
			N                float64
			Interval         []float64
		}
	}
	if err := json.Unmarshal(b, &report); err != nil {
		return err
	}
	r.addNumber(report.Machine.Cores, "cores")
	for _, key := range slices.Sorted(maps.Keys(report.Settings)) {
		r.addNumbers(report.Settings[key], "setting "+key)
	}
	for _, f := range report.Figures {
		for i, x := range append([]float64{f.Median, f.Min, f.Max}, f.Interval...) {
			r.numbers = append(r.numbers, named{x, f.Unit, f.Name + []string{"", ", least", ", greatest", ", low end", ", high end"}[i]})
		}
		r.addNumber(f.N, f.Name+", number")
		r.addNumbers(f.Name, f.Name)
	}
	return nil
}

func (r *Record) addText(text string) {
	for _, line := range strings.Split(text, "\n") {
		r.addNumbers(line, strings.Join(strings.Fields(line), " "))
	}
}

// addNumbers adds the numbers in a text.
func (r *Record) addNumbers(text, place string) {
	for _, m := range inText.FindAllStringSubmatch(text, -1) { // 1.5-2.5 is a range
		if x, err := strconv.ParseFloat(strings.ReplaceAll(m[2], ",", ""), 64); err == nil {
			r.addNumber(x, place)
		}
	}
}

func (r *Record) addNumber(x float64, place string) {
	r.numbers = append(r.numbers, named{x, "", place})
}

// scale converts a number of a record to a unit: x * Factor - Less.
type scale struct {
	factor, less float64
	name         string
}

var same = scale{factor: 1}

// scales are the conversions to the unit of a claim. A number without a unit may be in a column of a table that has one.
func scales(unit string) []scale {
	up, down := scale{1e3, 0, " x 1,000"}, scale{1e-3, 0, " / 1,000"}
	millionth, billionth := scale{1e-6, 0, " / 10^6"}, scale{1e-9, 0, " / 10^9"}
	share, over := scale{100, 0, " x 100"}, scale{100, 100, " x 100, less 100"}
	switch unit {
	case "%":
		return []scale{same, share, over}
	case "ms", "us", "ns", "s":
		return []scale{same, up, down}
	case "times":
		return []scale{same, {0.01, 0, " / 100"}}
	case "":
		return []scale{same, down, millionth, share, over}
	}
	return []scale{same, down, millionth, billionth}
}

// Find returns the first record that has a number which rounds to a claim, and the number's place there. Figures in the unit of the
// claim precede all other numbers.
func Find(c Claim, records []*Record) (r *Record, place string) {
	value, step, err := parse(c.Text)
	if err != nil {
		return nil, ""
	}
	for _, known := range []bool{true, false} {
		for _, r := range records {
			for _, n := range r.numbers {
				of := scales(c.Unit)
				if known {
					of = unitScale(n.unit, c.Unit)
				}
				for _, s := range of {
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

// unitScale returns the conversions of a figure's unit to that of a claim, none if they are not of one kind.
func unitScale(from, to string) []scale {
	seconds := map[string]float64{"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
	switch {
	case from == "" || to == "":
		return nil
	case from == to:
		return []scale{same}
	case seconds[from] > 0 && seconds[to] > 0:
		return []scale{{factor: seconds[from] / seconds[to], name: " in " + to}}
	case from == "ratio" && to == "%":
		return []scale{{100, 0, " x 100"}, {100, 100, " x 100, less 100"}}
	case from == "ratio" && to == "times":
		return []scale{same}
	case from == "samples/s" && to == "M samples/s":
		return []scale{{1e-6, 0, " in millions"}}
	}
	return nil
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
