package data

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const fitText = `y,n,m,c,d
1,1,,b,x
0,-2,4,a,NA
1,,8,b,z
0,4,NA,a,x
1,6,0,,x
0,1,2,c,
`

func fitOptions(t *testing.T) Options {
	return textOptions(t, fitText, CSV{Label: "y", Dense: []string{"n", "m"}, Categorical: []string{"c", "d"}, NA: []string{"NA"},
		Transform: map[string]string{"n": TransformStandard, "m": TransformNone}}, 0, 0)
}

// Vocabularies are ordered by count, then bytes; missing and unknown texts have rows of their own.
func TestFit(t *testing.T) {
	o := fitOptions(t)
	r, err := Fit(o)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Categorical[0]; c.Rows != 5 || !slices.Equal(c.Vocabulary, []string{"a", "b", "c"}) {
		t.Errorf("column c: %+v", c)
	}
	if c := r.Categorical[1]; c.Rows != 4 || !slices.Equal(c.Vocabulary, []string{"x", "z"}) {
		t.Errorf("column d: %+v", c)
	}
	if d := r.Dense[0]; d.Mean != 2 || d.Deviation != math.Sqrt(38.0/5) {
		t.Errorf("mean %v, deviation %v", d.Mean, d.Deviation)
	}
	o.Recipe = r
	b := readAll(t, o)
	if want := []uint32{3, 2, 2, 0, 3, 3, 2, 2, 0, 2, 4, 0}; !slices.Equal(b.IDs, want) {
		t.Errorf("ids %v, want %v", b.IDs, want)
	}
	s := func(x float64) float32 { return float32((x - 2) / r.Dense[0].Deviation) }
	if want := []float32{s(1), 0, s(-2), 4, 0, 8, s(4), 0, s(6), 0, s(1), 2}; !slices.Equal(b.Dense, want) {
		t.Errorf("numbers %v, want %v", b.Dense, want)
	}
	// Another file has the rows of the training data's vocabulary, also for an encoder.
	other := filepath.Join(t.TempDir(), "eval.csv")
	if err := os.WriteFile(other, []byte("y,n,m,c,d\n1,2,3,new,z\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o.Files = []string{other}
	if b := readAll(t, o); !slices.Equal(b.IDs, []uint32{1, 3}) || !slices.Equal(b.Dense, []float32{0, 3}) {
		t.Errorf("ids %v, numbers %v", b.IDs, b.Dense)
	}
	e, err := r.NewEncoder()
	if err != nil {
		t.Fatal(err)
	}
	var one Batch
	e.Resize(&one, 1)
	if bad, what := e.EncodeSample(&one, 0, [][]byte{[]byte("NA"), []byte("3"), []byte("new"), []byte("NA")}); bad >= 0 {
		t.Fatal(what)
	}
	if !slices.Equal(one.IDs, []uint32{1, 0}) || !slices.Equal(one.Dense, []float32{0, 3}) {
		t.Errorf("ids %v, numbers %v", one.IDs, one.Dense)
	}
}

// The recipe does not depend on threads, nor on a cut of the rows into files, and is not computed twice.
func TestFitIsAFunctionOfTheRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	var rows []string
	for range 30_000 {
		rows = append(rows, fmt.Sprintf("%d,%v,%v,w%d,\xff%d", rng.IntN(2), rng.NormFloat64(), rng.IntN(9), int(math.Exp(8*rng.Float64())), rng.IntN(50)))
	}
	text := func(rows []string) string { return "y,n,m,c,d\n" + strings.Join(rows, "\n") + "\n" }
	var first *Recipe
	for i, parts := range [][]string{{text(rows)}, {text(rows)}, {text(rows[:7]), text(rows[7:])}} {
		o := fitOptions(t)
		o.Threads, o.Files, o.MinCount = 1+2*i, nil, 3
		for k, part := range parts {
			name := filepath.Join(o.RecordDir, fmt.Sprintf("part%d.csv", k))
			if err := os.WriteFile(name, []byte(part), 0o644); err != nil {
				t.Fatal(err)
			}
			o.Files = append(o.Files, name)
		}
		r, err := Fit(o)
		if err != nil {
			t.Fatal(err)
		}
		o.Progress = func(p Progress) error { return fmt.Errorf("%s again", p.What) }
		again, err := Fit(o)
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("it is computed again: %v", err)
		}
		r.Source = ""
		if first == nil {
			first = r
		}
		if !reflect.DeepEqual(r, first) {
			t.Errorf("case %d: another recipe", i)
		}
	}
	if c := first.Categorical[1]; len(c.VocabularyBytes) != 50 || c.Vocabulary != nil {
		t.Errorf("bytes that are no text: %+v", c)
	}
}

// A run warns by name of columns on which data.min_count has no effect.
func TestWarningOfRare(t *testing.T) {
	r := &Recipe{Categorical: []Category{{Column: "ip", IDs: IDsHash, Reserved: 1, Rows: 9}, {Column: "listed", IDs: IDsHash, Rows: 9},
		{Column: "city", IDs: IDsVocabulary, Reserved: 2}}}
	const want = `data.min_count = 2 has no effect on columns with more than 33554432 texts that are as frequent, which are hashed: "ip"; rare texts share no row there`
	if got := r.WarningOfRare(2); got != want {
		t.Errorf("%s", got)
	}
	if got := r.WarningOfRare(1); got != "" {
		t.Errorf("without min_count: %s", got)
	}
}

func TestDerivations(t *testing.T) {
	for _, c := range []struct{ transform, text, want string }{
		{TransformLog2Bucket, "-3", "-3"}, {TransformLog2Bucket, "2", "2"}, {TransformLog2Bucket, "1.9", "1"},
		{TransformLog2Bucket, "3", "1"}, {TransformLog2Bucket, "100", "21"}, {TransformLog2Bucket, "1000000", "190"},
		{TransformHour, "2020-02-29", "0"}, {TransformHour, "2020-02-29 13:59:59", "13"}, {TransformHour, "2020-02-29T23:00:00+05:00", "23"},
		{TransformHour, "2020-02-29T07:00:00.25Z", "7"}, {TransformHour, "3600", "1"}, {TransformHour, "14102123", "23"},
		{TransformWeekday, "1970-01-01", "3"}, {TransformWeekday, "2026-11-23", "0"}, {TransformWeekday, "0", "3"},
		{TransformWeekday, "14102100", "1"}, {TransformWeekday, "2026-11-29", "6"},
		{TransformHour, "2020-02-30", ""}, {TransformHour, "noon", ""}, {TransformLog2Bucket, "x", ""},
	} {
		got, what := derivations[c.transform]([]byte(c.text), nil)
		if string(got) != c.want || (what == "") != (c.want != "") {
			t.Errorf("%s of %q is %q (%s), want %q", c.transform, c.text, got, what, c.want)
		}
	}
}

// The parts of a split have each sample once, in ascending order.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int64
		eval int64
	}{{"10%", 1005, 100}, {"last 10%", 1005, 100}, {"12.5%", 80, 10}, {"99.9%", 3000, 2997}, {"last 33.3%", 1999, 333}} {
		s, ok, err := ParseSplit(c.text)
		if !ok || err != nil || s.String() != c.text {
			t.Fatalf("%q: %v, %v, %q", c.text, ok, err, s)
		}
		seen := make([]int, c.n)
		for _, eval := range []bool{false, true} {
			s.Eval = eval
			m := &blockSplit{Split: s, n: c.n, block: -1}
			last := int64(-1)
			for i := range s.length(c.n) {
				at := m.mapIndex(i)
				if at <= last {
					t.Fatalf("%q, sample %d: %d follows %d", c.text, i, at, last)
				}
				last = at
				seen[at]++
			}
			if got := s.length(c.n); eval && got != c.eval {
				t.Errorf("%q: %d samples, want %d", c.text, got, c.eval)
			}
		}
		for i, times := range seen {
			if times != 1 {
				t.Errorf("%q: sample %d is there %d times", c.text, i, times)
			}
		}
	}
	for _, bad := range []string{"0%", "100%", "0.01%", "last -5%", "200%"} {
		if _, ok, err := ParseSplit(bad); !ok || err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, file := range []string{"eval.csv", "10%.csv", "100", "a/10%"} {
		if _, ok, _ := ParseSplit(file); ok {
			t.Errorf("%q is a split", file)
		}
	}
}

// The recipe of a split is of the samples that train.
func TestFitOfSplit(t *testing.T) {
	o := fitOptions(t)
	o.Split, _, _ = ParseSplit("last 33.4%")
	o.Split = Split{Part: 1, Of: 6, Last: true}
	r, err := Fit(o)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Categorical[0]; !slices.Equal(c.Vocabulary, []string{"a", "b"}) {
		t.Errorf("%+v", c)
	}
	o.Recipe = r
	if b := readAll(t, o); b.N != 5 {
		t.Errorf("%d samples", b.N)
	}
	o.Split.Eval = true
	if b := readAll(t, o); b.N != 1 || !slices.Equal(b.IDs, []uint32{1, 0}) {
		t.Errorf("%d samples, ids %v", b.N, b.IDs)
	}
}

// The figures of columns, and the warnings that follow from them.
func TestDescribeColumns(t *testing.T) {
	o := textOptions(t, "y,n,m,c,d\n1,-1,5,a,x\n0,2,5,b,x\n1,,5,c,x\n0,3,5,,x\n", CSV{Label: "y", Dense: []string{"n", "m"}, Categorical: []string{"c", "d"}}, 1, 0)
	r, err := Fit(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Recipe = r
	got, err := DescribeColumns(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []ColumnStats{
		{Name: "n", Number: true, Missing: 0.25, Negative: 0.25},
		{Name: "m", Number: true, Constant: true},
		{Name: "c", Missing: 0.25, Rows: 1, Distinct: 3, Colliding: 1},
		{Name: "d", Rows: 3, Distinct: 1, Constant: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	lines := strings.Join(r.Warnings(got, 4), "\n")
	for _, want := range []string{`they never vary: "m", "d"`, `[data.transform]: "n" (25.0 %)`, `or more rows: "c" (100.0 % of 3)`} {
		if !strings.Contains(lines, want) {
			t.Errorf("warnings %s\nwant %s", lines, want)
		}
	}
	if got, _ := DescribeColumns(o, 2); len(got) != 4 || got[0].Negative != 0.5 {
		t.Errorf("of 2 samples: %+v", got)
	}
}
