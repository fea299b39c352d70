package paper

import (
	"go/constant"
	"go/token"
	"go/types"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench"
)

func TestPapersHaveEveryFigure(t *testing.T) {
	want := "E5 E6 E7 E8 E9 E-load E-wide E-ablation E-links E-ranks E-clocks E10 E11 E12 E-locks E13 E-traffic " +
		"B2 B3 B4 B7 B8 B9 B10 B11 B12 B-torchrec B13 B14 B15 B16a B16b B17 B-tab1 B-tab2 B-tab3 B-five B18 " +
		"O-tab1 O-tab2 O2 O3 O6 O-tab5 O7 O8 O9 O10 O11 O12 O13 O14 O15 " +
		"T4.1 T4.2 T4.3 T4.4 T4.6 T4.7 T4.8 T6.1 T6.2 T6.3 T6.4 T6.5 T6.6 T6.7 T6.8 T6.9 T6.10 T6.11 T6.12 T-lost G1 G2 G3"
	var got []string
	for _, f := range registry().Figures {
		got = append(got, f.ID)
	}
	if !slices.Equal(got, strings.Fields(want)) {
		t.Errorf("figures %v,\nwant %v", got, want)
	}
	if len(Sources()) != 5 {
		t.Errorf("%d papers", len(Sources()))
	}
}

// Package bench does not run these benchmarks tiny, since drawings do.
func TestRunsOfLosses(t *testing.T) {
	for _, name := range []string{"faultkinds", "faults", "lostwork"} {
		draws := func(d Drawing) bool {
			return slices.ContainsFunc(d.Runs(Tiny), func(r Run) bool { return r.Bench == name })
		}
		if !slices.ContainsFunc(All(), draws) {
			t.Errorf("no figure has a tiny run of %s", name)
		}
	}
}

// Every value that is computed from others is so by its formula, to its last digit.
func TestComputedValuesOfPapers(t *testing.T) {
	text := string(bench.Papers())
	n := 0
	for _, f := range registry().Figures {
		for _, v := range f.Values {
			if v.From != "computed" {
				continue
			}
			n++
			formula, _, _ := strings.Cut(v.How, ":")
			got := evaluate(t, formula)
			last := 1.0
			if _, digits, ok := strings.Cut(strconv.FormatFloat(v.Y, 'f', -1, 64), "."); ok {
				last = math.Pow(10, -float64(len(digits)))
			}
			if math.Abs(got-v.Y) > last/2 {
				t.Errorf("%s, %s at %s: %s is %v, the value %v", f.ID, v.System, v.Label, formula, got, v.Y)
			}
		}
	}
	if n == 0 || n != strings.Count(text, `from = "computed"`) {
		t.Errorf("%d computed values", n)
	}
}

// evaluate computes a formula of numbers.
func evaluate(t *testing.T, formula string) float64 {
	t.Helper()
	whole := regexp.MustCompile(`(^|[^.\w])(\d+)($|[^.\w])`)
	for range 2 { // numbers beside each other share a character
		formula = whole.ReplaceAllString(formula, "$1$2.0$3")
	}
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, formula)
	if err != nil {
		t.Fatalf("%s: %v", formula, err)
	}
	y, _ := constant.Float64Val(v.Value)
	return y
}

func TestDefectsOfPapersAreRefused(t *testing.T) {
	const head = "[[paper]]\nletter = \"E\"\n"
	const figure = "[[figure]]\nid = \"E1\"\nnumber = \"1\"\ntitle = \"t\"\nx = {name = \"x\"}\ny = {name = \"y\"}\n"
	if _, err := readPapers([]byte(head + figure)); err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"strict mode":        head + figure + "colour = 3\n",
		"belongs to no":      figure,
		"is there twice":     head + figure + figure,
		"names of its axes":  head + strings.Replace(figure, `"t"`, `""`, 1),
		"a section":          head + figure + `values = [{system = "a", x = 1, y = 2}]`,
		"want computed":      head + figure + `values = [{system = "a", x = 1, y = 2, section = "5", from = "guessed"}]`,
		"needs how":          head + figure + `values = [{system = "a", x = 1, y = 2, section = "5", from = "computed"}]`,
		"figure has bars":    head + figure + "bars = true\n" + `values = [{system = "a", x = 1, y = 2, section = "5"}]`,
		"and no other, need": head + figure + `values = [{system = "a", x = 1, y = 2, section = "5", how = "1 + 1"}]`,
	} {
		if _, err := readPapers([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// A drawing has a figure of a paper, or describes itself.
func TestDrawingsHaveFigures(t *testing.T) {
	seen := map[string]bool{}
	own := map[string]bool{}
	for _, d := range ownDrawings() {
		own[d.ID] = true
	}
	for _, d := range All() {
		if seen[d.ID] {
			t.Errorf("there are two drawings of %s", d.ID)
		}
		seen[d.ID] = true
		if registry().findFigure(d.ID) == nil && !own[d.ID] {
			t.Errorf("the drawing %s has no figure in bench/papers.toml; ids are %s", d.ID, strings.Join(IDs(), " "))
		}
		if (d.Why == "") != (d.Runs != nil) || (d.Runs == nil) != (d.Draw == nil) {
			t.Errorf("%s: want runs and a drawing, or a reason why there are none", d.ID)
		}
	}
}
