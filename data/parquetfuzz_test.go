package data

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// FuzzParquetRows reads any bytes as rows with lists and kept columns, and infers columns of them: there are rows, or an
// error of the input that names the file.
func FuzzParquetRows(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	rows, _ := randomLists(r, 40, true)
	fuzzRows(f, r, writeParquet(f, r, "seed", rows), []string{"city", "x"}, Options{Format: FormatParquet, Tables: []int64{9, 9, 9, 9}, CSV: CSV{
		Label: "label", Dense: []string{"x"}, Categorical: []string{"money", "items", "old", "city"}, Bags: []string{"money", "items", "old"}}})
}

// FuzzParquetPairs is FuzzParquetRows for ids with weights.
func FuzzParquetPairs(f *testing.F) {
	type pair struct {
		ID     *int64   `parquet:"id,optional"`
		Weight *float32 `parquet:"weight,optional"`
	}
	type row struct {
		Label int32   `parquet:"label"`
		X     float64 `parquet:"x"`
		Pairs []pair  `parquet:"pairs,list"`
	}
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([]row, 40)
	for i := range rows {
		rows[i].X = float64(i)
		for k := range r.IntN(4) {
			id, weight := int64(k), float32(i)
			rows[i].Pairs = append(rows[i].Pairs, []pair{{&id, &weight}, {&id, nil}, {nil, &weight}}[r.IntN(3)])
		}
	}
	fuzzRows(f, r, writeParquet(f, r, "seed", rows), []string{"x"}, Options{Format: FormatParquet, Tables: []int64{9},
		CSV: CSV{Label: "label", Dense: []string{"x"}, Categorical: []string{"pairs"}, Bags: []string{"pairs"}, Weighted: true}})
}

// fuzzRows reads damaged copies of a file as rows, with columns that are kept.
func fuzzRows(f *testing.F, r *rand.Rand, file string, keep []string, o Options) {
	seed, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	for range 8 {
		bad := slices.Clone(seed)
		for range 3 {
			bad[4+r.IntN(len(bad)-8)] ^= byte(1 << r.IntN(8))
		}
		f.Add(bad)
	}
	recipe, err := NewRecipe(o)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		name := writeFile(t, "x.parquet", content)
		check := func(err error) {
			if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), name) {
				t.Fatalf("the error %q is no ErrInput, or does not name the file", err)
			}
		}
		read, err := OpenRows(RowOptions{Env: env.Real(), Files: []string{name}, Format: FormatParquet, Recipe: recipe, Keep: keep, Threads: 2})
		if err != nil {
			check(err)
			return
		}
		defer read.Close()
		p, err := read.NewParser()
		if err != nil {
			t.Fatal(err)
		}
		var c RowChunk
		var b RowBatch
		for {
			more, err := read.Next(&c)
			if err != nil {
				check(err)
			}
			if !more || err != nil {
				return
			}
			p.Begin(&c)
			for more := true; more; {
				more, _ = p.Parse(&b, 512, nil)
			}
		}
	})
}
