package data

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

func inferText(t *testing.T, text, label string) (*Inferred, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return Infer(env.Real(), name, label)
}

// The kind of a column follows from its values.
func TestInfer(t *testing.T) {
	var text strings.Builder
	text.WriteString("row;user_id;age;gain;city;when;day;same;token;none;Clicked\n")
	for i := range 100 {
		age := fmt.Sprint(20 + i%40)
		if i%10 == 3 {
			age = "NA"
		}
		fmt.Fprintf(&text, "%d;%d;%s;%d;%s;2026-01-%02d %02d:30:00;2026-02-%02d;x;t%d;;%d\n", i, i%7, age, (i/95)*1000, []string{"Ulm", `"a;b"`, ""}[i%3],
			1+i%28, i%24, 1+i%28, i, i%2)
	}
	in, err := inferText(t, text.String(), "")
	if err != nil {
		t.Fatal(err)
	}
	if in.Delimiter != ';' || in.Label != "Clicked" || in.Rows != 100 || !in.Whole || fmt.Sprint(in.NA) != "[NA]" {
		t.Errorf("%+v", in)
	}
	var got []string
	for _, c := range in.Columns {
		got = append(got, fmt.Sprintf("%s %d %s", c.Name, c.Use, c.Transform))
	}
	want := []string{"row 0 ", "user_id 3 ", "age 2 standard", "gain 2 log1p", "city 3 ", "when 3 hour", "day 3 weekday", "same 0 ", "token 0 ", "none 0 ", "Clicked 1 "}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("columns %q\nwant %q", got, want)
	}
}

// A file of numbers alone gets a column of categories.
func TestInferNumbers(t *testing.T) {
	var text strings.Builder
	text.WriteString("a\tb\ty\n")
	for i := range 50 {
		fmt.Fprintf(&text, "%v\t%d\t%d\n", float64(i)/7, i%5, i%2)
	}
	in, err := inferText(t, text.String(), "")
	if err != nil {
		t.Fatal(err)
	}
	if b := in.Columns[1]; in.Delimiter != '\t' || b.Use != UseCategory || b.Transform != TransformLog2Bucket || in.Columns[0].Use != UseNumber {
		t.Errorf("%+v", in)
	}
}

func TestInferRefuses(t *testing.T) {
	const rows = "1,a,2,0\n0,b,3,1\n1,a,4,0\n"
	for _, c := range []struct{ text, label, want string }{
		{"q,c,n,p\n" + rows, "", "give --label NAME: columns of 0 and 1 are q, p"},
		{"q,c,n,p\n" + rows, "n", "--label n: the column does not hold 0 or 1"},
		{"q,c,n,p\n" + rows, "x", "has no such column; there are q, c, n, p"},
		{"c,n\na,5\nb,6\n", "", "no column holds 0 and 1"},
		{rows, "", "the first line holds"},
		{"one\ntwo\n", "", "fields separated by a comma"},
		{"a,b\n", "", "no samples follow the header"},
		{"y,c\n1,a\n0,a\n1,a\n", "", "0 columns of numbers and none of categories"},
		{"y,n\n1,0.5\n0,1.5\n1,3.25\n", "", "1 columns of numbers and none of categories"},
	} {
		_, err := inferText(t, c.text, c.label)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, label %q: %v; want %s", c.text, c.label, err, c.want)
		}
	}
}

// A file that is too long is read in part, and its rows are estimated.
func TestInferPart(t *testing.T) {
	var text strings.Builder
	text.WriteString("y,n,c\n")
	const rows = inferRows + 50_000
	for i := range rows {
		fmt.Fprintf(&text, "%d,%d,w%d\n", i%2, i%9, i%11)
	}
	in, err := inferText(t, text.String(), "y")
	if err != nil {
		t.Fatal(err)
	}
	if in.Whole || in.Rows < rows*99/100 || in.Rows > rows*101/100 {
		t.Errorf("%+v", in)
	}
}

// Columns of a Parquet file are judged by their types and texts; lists of values are bags.
func TestInferParquet(t *testing.T) {
	in, err := Infer(env.Real(), "testdata/lists.parquet", "")
	if err != nil {
		t.Fatal(err)
	}
	if in.Format != FormatParquet || in.Rows != 3000 || !in.Whole || in.Label != "label" {
		t.Errorf("%+v", in)
	}
	uses := map[string]Use{"label": UseLabel, "x": UseNumber, "clicked": UseCategory, "words": UseCategory, "text": UseCategory, "user": UseCategory, "pairs": UseNone}
	if len(in.Columns) != len(uses) {
		t.Errorf("%d columns", len(in.Columns))
	}
	for _, c := range in.Columns {
		if c.Use != uses[c.Name] || c.List != (c.Name == "clicked" || c.Name == "words") {
			t.Errorf("%+v", c)
		}
	}
	rnd := random(t)
	rows, _ := randomRows(rnd, 500)
	if in, err = Infer(env.Real(), writeParquet(t, rnd, "a", rows), "label"); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"day": TransformWeekday, "at": TransformHour, "money": TransformStandard}
	for _, c := range in.Columns {
		if transform := want[c.Name]; transform != "" && c.Transform != transform {
			t.Errorf("%+v, want %s", c, transform)
		}
	}
}
