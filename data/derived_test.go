package data

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// derivedCSV makes several features of the columns at and x.
var derivedCSV = CSV{Label: "y", Dense: []string{"x", "scaled", "plain"}, Categorical: []string{"bucket", "hour", "day", "end", "at"},
	Transform: map[string]string{"scaled": "standard of x", "plain": "none of x", "bucket": "log2-bucket of x",
		"hour": "hour of at", "day": "weekday of at", "end": "weekend of at"}}

// copiedCSV is derivedCSV of a file with a copy of the column for each feature.
func copiedCSV() CSV {
	c := derivedCSV
	c.Transform = map[string]string{}
	for name := range derivedCSV.Transform {
		c.Transform[name], _ = transformOf(derivedCSV.Transform, name)
	}
	return c
}

type derivedRow struct {
	Y  int32   `parquet:"y"`
	At string  `parquet:"at"`
	X  float64 `parquet:"x"`
}

// derivedRows draws rows, their text, and their text with copies of the columns.
func derivedRows(r *rand.Rand, n int) (rows []derivedRow, text, copied []byte) {
	a, b := bytes.NewBufferString("y,at,x\n"), bytes.NewBufferString("y,x,scaled,plain,bucket,hour,day,end,at\n")
	for range n {
		row := derivedRow{Y: r.Int32N(2), X: float64(r.IntN(4000))/8 - 100, At: time.Unix(r.Int64N(1e9), 0).UTC().Format("2006-01-02 15:04:05")}
		if r.IntN(9) == 0 {
			row.At = ""
		}
		rows = append(rows, row)
		fmt.Fprintf(a, "%d,%s,%v\n", row.Y, row.At, row.X)
		fmt.Fprintf(b, "%d,%v,%v,%v,%v,%s,%s,%s,%s\n", row.Y, row.X, row.X, row.X, row.X, row.At, row.At, row.At, row.At)
	}
	return rows, a.Bytes(), b.Bytes()
}

func sameSamples(t *testing.T, what string, got, want *Batch) {
	t.Helper()
	if !slices.Equal(got.Labels, want.Labels) || !slices.Equal(got.Dense, want.Dense) || !slices.Equal(got.IDs, want.IDs) {
		t.Errorf("%s: other samples than of copied columns: %d %v, want %d %v", what, got.IDs[:10], got.Dense[:6], want.IDs[:10], want.Dense[:6])
	}
}

// Several features of one column are those of copies of the column, in every format and for predictions.
func TestDerived(t *testing.T) {
	rnd := random(t)
	rows, text, copied := derivedRows(rnd, 3000)
	open := func(format string, csv CSV, file string) (*Recipe, *Batch) {
		o := Options{Env: env.Real(), Format: format, Files: []string{file}, Tables: make([]int64, 5), CSV: csv, RecordDir: t.TempDir()}
		recipe, err := Fit(o)
		if err != nil {
			t.Fatal(err)
		}
		o.Recipe, err = ParseRecipe(recipe.Encode())
		if err != nil {
			t.Fatal(err)
		}
		return o.Recipe, readAll(t, o)
	}
	csvFile := writeFile(t, "a.csv", text)
	recipe, got := open(FormatCSV, derivedCSV, csvFile)
	_, want := open(FormatCSV, copiedCSV(), writeFile(t, "b.csv", copied))
	sameSamples(t, "CSV", got, want)
	if c := recipe.Categorical; recipe.Version != 2 || c[2].Of != "at" || c[2].Column != "day" || len(c[2].Vocabulary) != 7 || len(c[3].Vocabulary) != 2 || c[4].Of != "" {
		t.Errorf("the recipe: version %d, %+v", recipe.Version, c[2:4])
	}
	_, got = open(FormatParquet, derivedCSV, writeParquet(t, rnd, "a.parquet", rows))
	sameSamples(t, "Parquet", got, want)

	o := Options{Env: env.Real(), Format: FormatCSV, Files: []string{csvFile}, CSV: derivedCSV}
	c, err := Convert(o, filepath.Join(t.TempDir(), "a.rec"))
	if err != nil {
		t.Fatal(err)
	}
	o.Format, o.Files, o.Recipe, o.Tables = FormatRecord, []string{c.File}, recipe, recipe.Schema().Tables
	sameSamples(t, "record file", readAll(t, o), want)

	for _, keep := range [][]string{nil, {"at", "x"}} {
		sameSamples(t, "predictions", parseRows(t, RowOptions{Env: env.Real(), Format: FormatCSV, Files: []string{csvFile}, Recipe: recipe, Keep: keep}), want)
	}
	_, err = readRows(RowOptions{Env: env.Real(), Format: FormatCSV, Files: []string{writeFile(t, "c.csv", []byte("y,x\n1,2\n"))}, Recipe: recipe})
	if err == nil || strings.Count(err.Error(), `"at"`) != 1 || strings.Contains(err.Error(), "day") {
		t.Errorf("without the column at: %v", err)
	}
}

// A text of spaces is no number: its label and its bucket are missing, as those of the empty text.
func TestBlankNumbers(t *testing.T) {
	csv := CSV{Label: "y", Categorical: []string{"bucket"}, Transform: map[string]string{"bucket": TransformLog2Bucket}}
	o := textOptions(t, "y,bucket\n1,\n0,  \n1,0\n", csv, 1<<20)
	if ids := readAll(t, o).IDs; ids[1] != ids[0] || ids[1] == ids[2] {
		t.Errorf("ids %v: the second is not that of a missing value", ids)
	}
	recipe, err := NewRecipe(o)
	if err != nil {
		t.Fatal(err)
	}
	rows := RowOptions{Env: o.Env, Format: FormatCSV, Recipe: recipe, Files: []string{writeFile(t, "a.csv", []byte("y,bucket\n,5\n  ,5\n 1,5\n"))}}
	if got := readRowValues(t, rows, 9); got.bad > 0 || !slices.Equal(got.hasLabel, []bool{false, false, true}) || got.labels[2] != 1 {
		t.Errorf("labels %v of rows that have one: %v", got.labels, got.hasLabel)
	}
}

// parseRows reads all rows, none of which is malformed.
func parseRows(t *testing.T, o RowOptions) *Batch {
	t.Helper()
	b, err := readRows(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readRows(o RowOptions) (*Batch, error) {
	rows, err := OpenRows(o)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	p, err := rows.NewParser()
	if err != nil {
		return nil, err
	}
	all := new(Batch)
	var chunk RowChunk
	for {
		more, err := rows.Next(&chunk)
		if err != nil || !more {
			return all, err
		}
		p.Begin(&chunk)
		var b RowBatch
		for more := true; more; {
			var bad []*Error
			if more, bad = p.Parse(&b, 100, nil); len(bad) > 0 {
				return all, bad[0]
			}
			all.Labels, all.Dense, all.IDs = append(all.Labels, b.Labels...), append(all.Dense, b.Dense...), append(all.IDs, b.IDs...)
		}
	}
}

func TestDerivedErrors(t *testing.T) {
	for feature, want := range map[string]string{
		"hour = weekend of y": `"hour" is made of "y", which is no feature but the label or the weight`,
		"hour = week of at":   `"week" is no transform of "hour", a column of categories; use one of log2-bucket, hour, weekday, weekend`,
		"hour = hour of ":     `"hour" is of a column without a name`,
		"plain = hour of at":  `"hour" is no transform of "plain", a column of numbers`,
		"new = hour of at":    `column "new" is in neither data.csv.dense nor data.csv.categorical`,
	} {
		name, transform, _ := strings.Cut(feature, " = ")
		o := Options{CSV: derivedCSV}
		o.CSV.Transform = map[string]string{name: transform}
		if err := checkCSV(&o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", feature, err, want)
		}
	}
	o := textOptions(t, "y,x\n1,2\n", derivedCSV, 5, 5, 5, 5, 5)
	openFails(t, o, `train.csv:1: no column is called "at"; there are y, x`)
	o = textOptions(t, "y,at,x\n1,2026-01-31,2\n1,soon,3\n", derivedCSV, 5, 5, 5, 5, 5)
	o.Recipe = &Recipe{Version: derivedVersion}
	openFails(t, o, `train.csv:3: field 2 (at) "soon": not a time`)
}
