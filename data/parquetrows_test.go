package data

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// rowValues is rows as samples.
type rowValues struct {
	labels, dense, weights []float32
	hasLabel               []bool
	ids                    []uint32
	lengths                []int32 // of bags
	kept                   []string
	bad                    int
}

// readRows reads all rows, at most some at a time.
func readRowValues(t *testing.T, o RowOptions, most int) (v rowValues) {
	t.Helper()
	rows, err := OpenRows(o)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	p, err := rows.NewParser()
	if err != nil {
		t.Fatal(err)
	}
	var c RowChunk
	var b RowBatch
	for {
		more, err := rows.Next(&c)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return v
		}
		p.Begin(&c)
		for {
			more, bad := p.Parse(&b, most, nil)
			if v.bad += len(bad); !more {
				break
			}
			v.labels, v.hasLabel, v.dense = append(v.labels, b.Labels...), append(v.hasLabel, b.HasLabel...), append(v.dense, b.Dense...)
			v.ids, v.weights = append(v.ids, b.IDs...), append(v.weights, b.Weights...)
			for i := range max(len(b.Offsets)-1, 0) {
				v.lengths = append(v.lengths, b.Offsets[i+1]-b.Offsets[i])
			}
			for _, cell := range b.Kept {
				v.kept = append(v.kept, string(cell))
			}
		}
	}
}

// Rows of Parquet files are those of the same CSV file, also with malformed ones, any row groups, pages and threads.
func TestParquetRows(t *testing.T) {
	rnd := random(t)
	all, text := randomRows(rnd, 9000)
	columns := CSV{Label: "label", Dense: []string{"i", "d", "n"}, Categorical: []string{"s", "p", "x", "wd"}, NA: []string{"s1"},
		Transform: map[string]string{"d": TransformNone, "wd": "weekday of day"}}
	c := Options{Env: env.Real(), Format: FormatCSV, CSV: columns, Tables: []int64{0, 1000, 1 << 30, 0}, Files: []string{writeFile(t, "a.csv", text)}, RecordDir: t.TempDir()}
	recipe, err := Fit(c)
	if err != nil {
		t.Fatal(err)
	}
	o := RowOptions{Env: c.Env, Files: c.Files, Format: FormatCSV, Recipe: recipe, Keep: []string{"at", "s", "label"}}
	want := readRowValues(t, o, 512)
	o.Format = FormatParquet
	for threads := range 4 {
		cut := 1 + rnd.IntN(len(all)-1)
		o.Threads, o.Files = threads, []string{writeParquet(t, rnd, "a", all[:cut]), writeParquet(t, rnd, "b", all[cut:])}
		if got := readRowValues(t, o, 1+rnd.IntN(3000)); !reflect.DeepEqual(got, want) {
			t.Errorf("%d threads: the rows differ", threads)
		}
	}
	bad := slices.Clone(all)
	bad[7].Label, bad[8999].Label = 3, -1
	o.Files = []string{writeParquet(t, rnd, "bad", bad)}
	got := readRowValues(t, o, 500)
	if len(got.labels) != 8998 || got.bad != 2 || !slices.Equal(got.ids[:28], want.ids[:28]) || !slices.Equal(got.ids[28:], want.ids[32:35996]) ||
		got.kept[22] != want.kept[25] {
		t.Errorf("%d rows, %d malformed", len(got.labels), got.bad)
	}
	o.Keep = []string{"skip"}
	if _, err := OpenRows(o); err == nil || !strings.Contains(err.Error(), `--keep: column "skip" is a list`) {
		t.Errorf("a list is kept: %v", err)
	}
}

// A label column of nulls alone, as pandas writes one without labels (testdata/nulls.parquet, by pyarrow), is a missing label.
// Training needs it. A file of another kind is named.
func TestParquetRowsWithoutLabels(t *testing.T) {
	o := Options{Env: env.Real(), Format: FormatParquet, CSV: CSV{Label: "label", Dense: []string{"x"}, Categorical: []string{"c"}}, Tables: []int64{9},
		Files: []string{"testdata/nulls.parquet"}, RecordDir: t.TempDir()}
	recipe, err := NewRecipe(o)
	if err != nil {
		t.Fatal(err)
	}
	rows := RowOptions{Env: o.Env, Files: o.Files, Format: o.Format, Recipe: recipe}
	if got := readRowValues(t, rows, 9); len(got.ids) != 2 || !slices.Equal(got.hasLabel, []bool{false, false}) {
		t.Errorf("rows %+v", got)
	}
	openFails(t, o, `column "label" is of type NULL, which is not read`)
	rows.Files = []string{writeFile(t, "rows.parquet", []byte("label,x,c\n0,1,a\n"))}
	if _, err := OpenRows(rows); err == nil || !strings.Contains(err.Error(), "it is text, not Parquet") {
		t.Errorf("text: %v", err)
	}
}

// Rows with lists are those of the same CSV file. The label may be missing, as a value and as a column.
func TestParquetRowsWithLists(t *testing.T) {
	rnd := random(t)
	all, text := randomLists(rnd, 5000, true)
	c := Options{Env: env.Real(), Format: FormatCSV, CSV: CSV{Label: "label", Dense: []string{"x"}, Categorical: []string{"money", "city", "old", "items"}, Separator: '|',
		Bags: []string{"old", "money", "items"}, Weighted: true, Transform: map[string]string{"money": TransformLog2Bucket}}, Tables: []int64{9, 99, 0}, TableOf: []int{0, 1, 2, 2},
		Files: []string{writeFile(t, "a.csv", text)}, RecordDir: t.TempDir(), SkipBad: true}
	recipe, err := Fit(c)
	if err != nil {
		t.Fatal(err)
	}
	lists := c
	lists.Format, lists.Files, lists.CSV.Separator, lists.RecordDir = FormatParquet, []string{writeParquet(t, rnd, "a", all)}, 0, t.TempDir()
	if again, err := Fit(lists); err != nil || !reflect.DeepEqual(again.Categorical, recipe.Categorical) {
		t.Errorf("vocabularies of lists are others: %v", err)
	}
	o := RowOptions{Env: c.Env, Files: c.Files, Format: FormatCSV, Recipe: recipe, Keep: []string{"city"}, Threads: 2}
	want := readRowValues(t, o, 512)
	if want.bad == 0 || len(want.lengths) != 4*len(want.labels) {
		t.Fatalf("%d malformed, %d lengths", want.bad, len(want.lengths))
	}
	o.Format, o.Files = FormatParquet, lists.Files
	if got := readRowValues(t, o, 300); !reflect.DeepEqual(got, want) {
		t.Errorf("the rows differ: %d with %d ids, want %d with %d", len(got.labels), len(got.ids), len(want.labels), len(want.ids))
	}
	type unlabelled struct {
		Label *int32   `parquet:"label,optional"`
		X     float64  `parquet:"x"`
		Money []string `parquet:"money,list"`
		Items []string `parquet:"items,list"`
		Old   []string `parquet:"old,list"`
		City  string   `parquet:"city"`
	}
	one := int32(1)
	o.Files = []string{writeParquet(t, rnd, "b", []unlabelled{{City: "a"}, {Label: &one}})}
	if got := readRowValues(t, o, 300); !slices.Equal(got.hasLabel, []bool{false, true}) || !slices.Equal(got.labels, []float32{0, 1}) {
		t.Errorf("labels %v, there are %v", got.labels, got.hasLabel)
	}
	recipe.Label = "none"
	if got := readRowValues(t, o, 300); fmt.Sprint(got.hasLabel) != "[false false]" {
		t.Errorf("without the column there are %v", got.hasLabel)
	}
}
