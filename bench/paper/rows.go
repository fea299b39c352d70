package paper

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/ecrec/ecrec/bench"
)

// row is a line of the table of a figure: a value of the paper, one of ours, or both at the same place.
type row struct {
	System, At, Unit string
	Paper            *PaperValue
	Ours             *Point
	Kind             bench.Evidence
	// NotApart reports whether our spread contains the paper's value.
	NotApart bool
	// Many is the number of values of a series that is too long for the table.
	Many int
}

// listRows returns the table of a figure: ours in order, each with the paper's value of the same system, place and unit, then the other
// values of the paper.
func (f *Figure) listRows() (all []row) {
	used := make([]bool, len(f.Values))
	for _, s := range f.Series {
		if len(s.Points) > mostMarkers {
			all = append(all, row{System: s.System, Kind: s.Kind, Many: len(s.Points), Unit: f.Y.Unit})
			continue
		}
		for i := range s.Points {
			p := &s.Points[i]
			r := row{System: s.System, At: f.placeText(p), Unit: f.unitOf(p.Unit), Ours: p, Kind: s.Kind}
			for j := range f.Values {
				v := &f.Values[j]
				if v.System == s.System && f.placeOf(v.Label, v.X) == f.placeOf(p.Label, p.X) && f.unitOf(v.Unit) == r.Unit && !used[j] {
					r.Paper, used[j] = v, true
					r.NotApart = p.Least < p.Most && p.Least <= v.Y && v.Y <= p.Most
					break
				}
			}
			all = append(all, r)
		}
	}
	for j := range f.Values {
		if v := &f.Values[j]; !used[j] {
			all = append(all, row{System: v.System, At: f.placeOf(v.Label, v.X), Unit: f.unitOf(v.Unit), Paper: v})
		}
	}
	return all
}

// placeOf identifies the place of a value: values of the paper and ours at one place are in one row.
func (f *Figure) placeOf(label string, x float64) string {
	if label != "" && (f.Bars || x == 0) {
		return label
	}
	return full(x)
}

// placeText is the place of a value of ours, with its label. An x of many digits is rounded.
func (f *Figure) placeText(p *Point) string {
	place := f.placeOf(p.Label, p.X)
	if p.Label == place {
		return place
	}
	if len(place) > len("1,000,000.5") {
		place = number(p.X)
	}
	if p.Label != "" {
		place += " (" + p.Label + ")"
	}
	return place
}

func (f *Figure) unitOf(unit string) string {
	if unit == "" {
		return f.Y.Unit
	}
	return unit
}

// listKinds lists the kinds of evidence of a figure.
func (f *Figure) listKinds() (all []bench.Evidence) {
	for _, s := range f.Series {
		if !slices.Contains(all, s.Kind) {
			all = append(all, s.Kind)
		}
	}
	return all
}

// WriteCSV writes all values of a figure, one a line.
func (f *Figure) WriteCSV(out io.Writer) error {
	exact := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	w := csv.NewWriter(out)
	_ = w.Write([]string{"figure", "of", "system", "kind", "x", "label", "y", "least", "greatest", "n", "unit", "section", "how"}) // Flush keeps the error
	for _, s := range f.Series {
		for _, p := range s.Points {
			_ = w.Write([]string{f.ID, "ecrec", s.System, string(s.Kind), exact(p.X), p.Label, exact(p.Y), exact(p.Least), exact(p.Most),
				strconv.Itoa(p.N), f.unitOf(p.Unit), "", ""})
		}
	}
	for _, v := range f.Values {
		x := exact(v.X)
		if v.Label != "" {
			x = ""
		}
		_ = w.Write([]string{f.ID, f.Paper, v.System, v.From, x, v.Label, exact(v.Y), "", "", "", f.unitOf(v.Unit), v.Section, v.How})
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return fmt.Errorf("%s: %w", f.ID, err)
	}
	return nil
}
