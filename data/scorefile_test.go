package data

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/ecrec/ecrec/internal/env"
)

// Scores are written in row groups, behind the kept columns in their order and with their types.
func TestScoreFile(t *testing.T) {
	rnd := random(t)
	all, _ := randomRows(rnd, 2000)
	recipe := &Recipe{Version: recipeVersion, Categorical: []Category{{Column: "p", Rows: 9, IDs: IDsHash}}}
	keep := []string{"u", "x", "s", "money", "b", "i", "f", "at"}
	o := RowOptions{Env: env.Real(), Files: []string{writeParquet(t, rnd, "a", all)}, Format: FormatParquet, Recipe: recipe, Keep: keep, KeepValues: true, Threads: 2}
	rows, err := OpenRows(o)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := NewScoreWriter(&file, rows.KeptColumns())
	rows.Close()
	if err != nil {
		t.Fatal(err)
	}
	values := readRowValues(t, o, 777).kept
	const times = 70 // more than a row group
	n := 0
	for range times {
		var out []byte
		for row := range all {
			kept := make([][]byte, len(keep))
			for k := range kept {
				kept[k] = []byte(values[row*len(keep)+k])
			}
			if all[row].S == nil {
				kept[2] = nil
			}
			if all[row].I == nil {
				kept[5] = nil
			}
			if all[row].F == nil {
				kept[6] = nil
			}
			out = AppendScore(out, kept, float32(n))
			n++
		}
		if _, err := w.Write(out); err != nil {
			t.Fatal(err)
		}
		if n >= scoreRows && file.Len() < scoreRows {
			t.Fatal("nothing is written before the end")
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	type scored struct {
		U     uint32   `parquet:"u"`
		X     *float64 `parquet:"x,optional"`
		S     *string  `parquet:"s,optional"`
		Money *int64   `parquet:"money,optional,decimal(2:18)"`
		B     *bool    `parquet:"b,optional"`
		I     *int64   `parquet:"i,optional"`
		F     *float32 `parquet:"f,optional"`
		At    *int64   `parquet:"at,optional,timestamp(microsecond)"`
		Score float32  `parquet:"score"`
	}
	f, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if groups := len(f.RowGroups()); groups != (n+scoreRows-1)/scoreRows {
		t.Errorf("%d row groups of %d rows", groups, n)
	}
	for i, field := range f.Schema().Fields() {
		if want := append(keep, "score")[i]; field.Name() != want {
			t.Errorf("column %d is %s, want %s", i, field.Name(), want)
		}
	}
	got, err := parquet.Read[scored](bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil || len(got) != n {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	for i, g := range got {
		want := all[i%len(all)]
		if g.U != want.U || *g.X != want.X || !equalNull(g.S, want.S) || *g.Money != want.Money || *g.B != want.B || !equalNull(g.I, want.I) ||
			!equalNull(g.F, want.F) || *g.At != want.At || g.Score != float32(i) {
			t.Fatalf("row %d is %+v, want %+v", i, g, want)
		}
	}
}

func equalNull[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// Text that no Parquet column can hold, and names that are there twice, are refused.
func TestScoreFileErrors(t *testing.T) {
	o := RowOptions{Env: env.Real(), Format: FormatCSV, Recipe: &Recipe{}, Keep: []string{"a"}}
	rows, err := OpenRows(o)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewScoreWriter(new(bytes.Buffer), rows.KeptColumns())
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(AppendScore(nil, [][]byte{[]byte("\xff")}, float32(math.Pi)))
	checkError(t, err, `--keep: column "a" holds bytes that are no UTF-8`)
	for _, keep := range [][]string{{"a", "a"}, {"score"}} {
		rows.o.Keep = keep
		if _, err := NewScoreWriter(new(bytes.Buffer), rows.KeptColumns()); !errors.Is(err, ErrInput) {
			t.Errorf("%q: %v", keep, err)
		}
	}
}
