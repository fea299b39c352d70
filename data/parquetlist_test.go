package data

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// sameBatch compares samples bit for bit.
func sameBatch(t *testing.T, what string, got, want *Batch) {
	t.Helper()
	if !slices.Equal(got.Labels, want.Labels) || !slices.Equal(got.Dense, want.Dense) || !slices.Equal(got.Offsets, want.Offsets) ||
		!slices.Equal(got.IDs, want.IDs) || !slices.Equal(got.Weights, want.Weights) {
		t.Errorf("%s: the samples differ: %d with %d ids, want %d with %d", what, got.N, len(got.IDs), want.N, len(want.IDs))
	}
}

// Lists that pyarrow wrote become the bags of the same rows in CSV.
func TestParquetListsOfArrow(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		for _, bags := range [][]string{{"clicked", "words"}, {"clicked", "words", "text"}} {
			o := Options{Format: FormatCSV, Files: []string{"testdata/lists.csv"}, Tables: []int64{50, 1 << 20, 7, 30}, RecordDir: t.TempDir(), Threads: 2,
				CSV: CSV{Label: "label", Dense: []string{"x"}, Categorical: []string{"words", "clicked", "user", "text"}, Separator: '|', Bags: bags, Weighted: weighted}}
			want := readAllOf(t, mustOpen(t, o))
			for threads := 1; threads < 4; threads++ {
				o.Format, o.Files, o.RecordDir, o.Threads = FormatParquet, []string{"testdata/lists.parquet"}, t.TempDir(), threads
				if len(bags) == 2 && !weighted {
					o.CSV.Separator = 0
				}
				sameBatch(t, fmt.Sprint(bags, weighted, threads), readAllOf(t, mustOpen(t, o)), want)
			}
		}
	}
}

// Lists of structs that pyarrow wrote become bags with the weights of the same rows in CSV, with null lists, structs, ids and
// weights. A model that is trained on one scores the other.
func TestParquetPairsOfArrow(t *testing.T) {
	for _, na := range [][]string{nil, {"a", "7"}} {
		o := Options{Env: env.Real(), Format: FormatCSV, Files: []string{"testdata/pairs.csv"}, Tables: []int64{1 << 20, 50, 7},
			RecordDir: t.TempDir(), Threads: 2,
			CSV: CSV{Label: "label", Dense: []string{"x"}, Categorical: []string{"words", "clicked", "counts"}, Separator: '|', NA: na,
				Bags: []string{"words", "clicked", "counts"}, Weighted: true}}
		want := readAllOf(t, mustOpen(t, o))
		for threads := 1; threads < 4; threads++ {
			o.Format, o.Files, o.RecordDir, o.Threads = FormatParquet, []string{"testdata/pairs.parquet"}, t.TempDir(), threads
			if threads == 2 {
				o.CSV.Separator = 0
			}
			sameBatch(t, fmt.Sprint(na, threads), readAllOf(t, mustOpen(t, o)), want)
		}
		o.Tables = []int64{0, 50, 0}
		recipe, err := Fit(o)
		if err != nil {
			t.Fatal(err)
		}
		rows := RowOptions{Env: o.Env, Files: o.Files, Format: o.Format, Recipe: recipe, Threads: 2}
		got := readRowValues(t, rows, 700)
		o.Format, o.Files, o.CSV.Separator, o.RecordDir = FormatCSV, []string{"testdata/pairs.csv"}, '|', t.TempDir()
		if again, err := Fit(o); err != nil || !reflect.DeepEqual(again.Categorical, recipe.Categorical) {
			t.Errorf("vocabularies of pairs are others: %v", err)
		}
		if rows.Format, rows.Files = o.Format, o.Files; !reflect.DeepEqual(got, readRowValues(t, rows, 512)) {
			t.Errorf("%d rows with %d ids differ from those in CSV", len(got.labels), len(got.ids))
		}
	}
}

type listRow struct {
	Label int32     `parquet:"label"`
	X     float64   `parquet:"x"`
	Money []string  `parquet:"money,list"`
	Items []*uint32 `parquet:"items,list,dict"`
	Old   []int64   `parquet:"old"` // of two levels
	City  string    `parquet:"city,dict"`
}

// randomLists draws rows, and their text in CSV. Some of the money is malformed.
func randomLists(r *rand.Rand, n int, bad bool) (rows []listRow, text []byte) {
	var csv bytes.Buffer
	csv.WriteString("label,x,money,items,old,city\n")
	for i := range n {
		row := listRow{Label: r.Int32N(2), X: float64(i) + 0.5, City: fmt.Sprint("c", r.IntN(5))}
		var items, old []string
		for range r.IntN(4) {
			row.Money = append(row.Money, fmt.Sprint(r.IntN(1000)))
		}
		if bad && r.IntN(50) == 0 {
			row.Money = append(row.Money, "much")
		}
		for range r.IntN(3) {
			x := r.Uint32N(1 << r.IntN(32))
			row.Items, items = append(row.Items, &x, nil), append(items, fmt.Sprint(x), "")
		}
		for range r.IntN(3) * r.IntN(30) {
			row.Old = append(row.Old, r.Int64N(9)-4)
			old = append(old, fmt.Sprint(row.Old[len(row.Old)-1]))
		}
		fmt.Fprintf(&csv, "%d,%d.5,%s,%s,%s,%s\n", row.Label, i, strings.Join(row.Money, "|"), strings.Join(items, "|"), strings.Join(old, "|"), row.City)
		rows = append(rows, row)
	}
	return rows, csv.Bytes()
}

// Lists of any row groups, pages and threads make the record file that their text makes, also where rows are malformed.
func TestParquetLists(t *testing.T) {
	rnd := random(t)
	rows, text := randomLists(rnd, 5000, true)
	o := Options{Env: env.Real(), Format: FormatCSV, SkipBad: true, Files: []string{writeFile(t, "a.csv", text)}, Tables: []int64{99, 1 << 30, 5, 4}, RecordDir: t.TempDir(),
		CSV: CSV{Label: "label", Dense: []string{"x"}, Categorical: []string{"money", "items", "old", "city"}, Separator: '|', Bags: []string{"money", "items", "old"},
			NA: []string{"7"}, Transform: map[string]string{"money": TransformLog2Bucket}}}
	csv, err := Convert(o, "")
	if err != nil {
		t.Fatal(err)
	}
	want := readAllOf(t, mustOpen(t, o))
	o.Format = FormatParquet
	for _, threads := range []int{1, 3} {
		cut := 1 + rnd.IntN(len(rows)-1)
		o.Files, o.RecordDir, o.Threads = []string{writeParquet(t, rnd, "a", rows[:cut]), writeParquet(t, rnd, "b", rows[cut:])}, t.TempDir(), threads
		c, err := Convert(o, "")
		if err != nil {
			t.Fatal(err)
		}
		if c.Samples != csv.Samples || c.Skipped != csv.Skipped || c.Skipped == 0 {
			t.Errorf("%d samples, %d skipped; CSV has %d and %d", c.Samples, c.Skipped, csv.Samples, csv.Skipped)
		}
		sameBatch(t, fmt.Sprint(threads, " threads"), readAllOf(t, mustOpen(t, o)), want)
		a, _ := os.Stat(csv.File)
		b, _ := os.Stat(c.File)
		if a.Size() != b.Size() {
			t.Errorf("the record file has %d bytes, that of CSV %d", b.Size(), a.Size())
		}
	}
	o.SkipBad = false
	openFails(t, o, `column "money", "much": not a decimal number, and its transform is log2-bucket`)
}

// Columns that are no lists of values are refused by name.
func TestParquetListErrors(t *testing.T) {
	o := func(column string, bags ...string) Options {
		return Options{Format: FormatParquet, Tables: []int64{9}, RecordDir: t.TempDir(), Files: []string{"testdata/lists.parquet"},
			CSV: CSV{Label: "label", Dense: []string{"x"}, Categorical: []string{column}, Bags: bags}}
	}
	openFails(t, o("clicked"), `column "clicked" is a list; name it in data.csv.categorical and data.csv.bags`)
	openFails(t, o("user", "user"), `column "user" is named in data.csv.bags, and is no list; set data.csv.separator`)
	openFails(t, o("pairs", "pairs"), `column "pairs" has ids with weights; set data.csv.weighted = true`)
	weighted := func(column string, bags ...string) Options {
		o := o(column, bags...)
		o.Files, o.CSV.Weighted = []string{"testdata/pairs.parquet"}, len(bags) > 0
		return o
	}
	openFails(t, weighted("three", "three"),
		`column "three" is a map, a struct or a list of those; name columns with one value a row, lists of values, or lists of structs`)
	openFails(t, weighted("clicked"), `column "clicked" is a list; name it in data.csv.categorical and data.csv.bags`)
	none := mustOpen(t, weighted("unweighted", "unweighted")) // the type of the weights is NULL
	if b := readAllOf(t, none); len(b.Weights) != 6000 || slices.Max(b.Weights) != 1 || slices.Min(b.Weights) != 1 {
		t.Errorf("%d weights are not 1", len(b.Weights))
	}
	openFails(t, weighted("texts", "texts"), `testdata/pairs.parquet: row 1, column "texts", "heavy": the weight is not a decimal number`)
}
