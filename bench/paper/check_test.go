package paper

import (
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench"
)

// exact is a counted value, and spread a measured one.
func exact(x, y float64) Point { return Point{X: x, Y: y, Least: y, Most: y, N: 1} }
func spread(x, y, least, most float64) Point {
	return Point{X: x, Y: y, Least: least, Most: most, N: 5}
}

func TestChecks(t *testing.T) {
	one, two, four := exact(1, 1), exact(2, 2), exact(4, 3)
	wide, once := spread(2, 2, 0.5, 5), Point{X: 2, Y: 2, Least: 2, Most: 2, N: 1, Single: true}
	for _, c := range []struct {
		name           string
		check          Check
		holds, unclear bool
	}{
		{"above", above("", two, one), true, false},
		{"not above", above("", one, two), false, false},
		{"above by its median alone", above("", wide, one), false, true},
		{"not above by its median alone", above("", one, wide), false, true},
		{"above by a single time", above("", once, one), false, true},
		{"not above by a single time", above("", one, once), false, true},
		{"a ratio of a single time", atLeast("", over(two, once), 3), false, true},
		{"a difference of a single time", atLeast("", minus(once, two), 0), false, true},
		{"equal is not above", above("", one, one), false, false},
		{"below", below("", one, two), true, false},
		{"below by its median alone", below("", one, wide), false, true},
		{"at least", atLeast("", two, 2), true, false},
		{"not at least", atLeast("", two, 2.5), false, false},
		{"at most", atMost("", two, 2), true, false},
		{"at most by its median alone", atMost("", wide, 2), false, true},
		{"within", within("", two, 1, 3), true, false},
		{"outside", within("", two, 3, 4), false, false},
		{"near", near("", two, 2.1, 0.1), true, false},
		{"far", near("", two, 3, 0.1), false, false},
		{"rising", rising("", []Point{one, two, four}), true, false},
		{"not rising", rising("", []Point{one, four, two}), false, false},
		{"rising by its medians alone", rising("", []Point{one, wide, four}), false, true},
		{"wrong is worse than unclear", rising("", []Point{one, wide, two, one}), false, false},
		{"one value does not rise", rising("", []Point{one}), false, false},
		{"falling", falling("", []Point{four, two, one}), true, false},
		{"flat", flat("", []Point{one, two}, 1), true, false},
		{"not flat", flat("", []Point{one, two}, 0.9), false, false},
		{"nothing is flat", flat("", nil, 1), false, false},
		{"grows less", growsLess("", []Point{one, two, four}), true, false},
		{"grows as x", growsLess("", []Point{one, two}), false, false},
		{"a missing value", above("", two, Point{}), false, false},
		{"all", all("", above("", two, one), below("", one, two)), true, false},
		{"one fails", all("", above("", two, one), above("", one, two)), false, false},
		{"none", all(""), false, false},
		{"computed", holdsIf("", true, "%d", 3), true, false},
	} {
		if c.check.Holds != c.holds || c.check.Unclear != c.unclear || c.check.Seen == "" && c.name != "none" {
			t.Errorf("%s: %+v", c.name, c.check)
		}
	}
	few := two
	few.Few = true
	for _, c := range []struct {
		name  string
		check Check
		holds bool
		few   bool
		class string
	}{
		{"above", above("", few, one), true, true, "agrees"},
		{"not above", above("", one, few), false, true, "disagrees"},
		{"a ratio", atLeast("", over(few, one), 1), true, true, "agrees"},
		{"a count", above("", two, one), true, false, "holds"},
		{"all hold", all("", above("", few, one), above("", two, one)), true, true, "agrees"},
		{"one disagrees", all("", above("", one, few), above("", two, one)), false, true, "disagrees"},
		{"one fails", all("", above("", few, one), above("", one, two)), false, false, "differs"},
		{"one disagrees, one fails", all("", above("", one, few), above("", one, two)), false, false, "differs"},
		{"one is unclear", all("", above("", few, one), above("", wide, one)), false, false, "unclear"},
		{"one disagrees, one is unclear", all("", above("", one, few), above("", wide, one)), false, true, "disagrees"},
	} {
		if class, _ := c.check.verdict(); c.check.Holds != c.holds || c.check.Few != c.few || class != c.class {
			t.Errorf("few repeats, %s: %+v, %s", c.name, c.check, class)
		}
	}
	if c := above("", two, Point{}); !strings.Contains(c.Seen, "missing") {
		t.Errorf("a missing value: %q", c.Seen)
	}
}

func TestNumbers(t *testing.T) {
	for y, want := range map[float64]string{0: "0", 1: "1", 1.5: "1.5", 0.1234567: "0.1235", 12.3456: "12.35", 123.456: "123.5", 1234.5: "1,234",
		999.96: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123456: "-123,456", -12: "-12", 1.6e-5: "1.6e-05", 33762577: "33,762,577"} {
		if got := number(y); got != want {
			t.Errorf("%v: %q, want %q", y, got, want)
		}
	}
	for y, want := range map[float64]string{0: "0", -1512.8: "-1,512.8", 1003.3: "1,003.3", 1e7: "10,000,000", 1.7e-6: "1.7e-06", 0.016: "0.016"} {
		if got := full(y); got != want {
			t.Errorf("%v in full: %q, want %q", y, got, want)
		}
	}
}

func TestPicking(t *testing.T) {
	r := &bench.Report{Bench: "x"}
	for i, batch := range []string{"20", "3", "100"} {
		y := float64(i + 1)
		r.Figures = append(r.Figures, bench.Figure{Name: "step", Evidence: bench.Virtual, Median: y, Min: y, Max: y, N: 1,
			Case: map[string]string{"batch": batch, "mode": "none"}})
	}
	s, err := line(r, "no cache", "step", "batch", "mode", "none")
	if err != nil || s.Kind != bench.Virtual || len(s.Points) != 3 || s.Points[0].X != 3 || s.Points[2].Y != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := line(r, "", "step", "batch", "mode", "lrpp"); err == nil {
		t.Error("a series without a value is no error")
	}
	if _, err := line(r, "", "step", "mode"); err == nil {
		t.Error("a text as x is no error")
	}
	b, err := bars(r, "no cache", "step", "batch", []string{"100", "20"})
	if err != nil || b.Points[0].Label != "100" || b.Points[0].Y != 3 || b.Points[1].X != 1 {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := bars(r, "", "step", "batch", []string{"7"}); err == nil {
		t.Error("a missing bar is no error")
	}
	r.Figures[1].Evidence = bench.Measured
	if _, err := line(r, "", "step", "batch"); err == nil {
		t.Error("a series of two kinds is no error")
	}
	if p, _, err := point(r, 0, "", "step", "batch", "3"); err != nil || !p.Single || !p.Few {
		t.Errorf("a time that was taken once: %+v, %v", p, err)
	}
	for n, few := range map[int]bool{5: true, 6: false} {
		r.Figures[1].N = n
		if p, _, err := point(r, 0, "", "step", "batch", "3"); err != nil || p.Single || p.Few != few {
			t.Errorf("a time of %d repeats: %+v, %v", n, p, err)
		}
	}
	if s.Points[0].Single {
		t.Errorf("a virtual time: %+v", s.Points[0])
	}
	f := &Figure{Series: []Series{s, b}, Values: []PaperValue{{System: "y", X: 3, Y: 7}}}
	if p := f.at("no cache", 20); p.Y != 1 {
		t.Errorf("at 20: %+v", p)
	}
	if p := (&Figure{Series: []Series{b}}).atLabel("no cache", "20"); p.Y != 1 {
		t.Errorf("at the label 20: %+v", p)
	}
	if p := f.at("other", 3); p.N != 0 || len(f.points("other")) != 0 || len(f.points("no cache")) != 3 {
		t.Errorf("a value of no system: %+v", p)
	}
	if y, ok := f.paperAt("y", 3, ""); !ok || y != 7 {
		t.Errorf("the paper's value: %v, %v", y, ok)
	}
	if p := over(spread(0, 6, 4, 8), spread(0, 2, 1, 4)); p.Y != 3 || p.Least != 1 || p.Most != 8 {
		t.Errorf("a ratio: %+v", p)
	}
	if p := scaledSeries(s, -2).Points[1]; p.Y != -2 || s.Points[1].Y != 1 {
		t.Errorf("scaled: %+v", p)
	}
}

// Times with few repeats do not decide a figure, and other quantities than the paper's hold no shape.
func TestMarks(t *testing.T) {
	holds, fails := Check{Holds: true}, Check{}
	agrees, disagrees, unclear := Check{Holds: true, Few: true}, Check{Few: true}, Check{Unclear: true}
	for _, x := range []struct {
		other  string
		checks []Check
		want   Mark
	}{
		{"", []Check{holds}, ShapeHolds}, {"", []Check{holds, agrees}, ShapeAgrees}, {"", []Check{holds, agrees, unclear}, ShapeUnclear},
		{"", []Check{agrees, unclear, disagrees}, ShapeDisagrees}, {"", []Check{disagrees, fails}, ShapeDiffers}, {"", nil, NoChecks},
		{"it is in MB", []Check{holds}, OtherQuantity}, {"it is in MB", nil, OtherQuantity}, {"it is in MB", []Check{fails}, ShapeDiffers},
	} {
		f := &Figure{Other: x.other, Checks: x.checks, Series: []Series{{System: "x"}}}
		if got := f.findMark(); got != x.want {
			t.Errorf("%q, %+v: %s, want %s", x.other, x.checks, got, x.want)
		}
		if classOf(x.want) == "" {
			t.Errorf("%s has no class", x.want)
		}
	}
}
