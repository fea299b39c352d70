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
	seed, err := os.ReadFile(writeParquet(f, r, "seed", rows))
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
	recipe, err := NewRecipe(Options{Format: FormatParquet, Tables: []int64{9, 9, 9, 9}, CSV: CSV{Label: "label", Dense: []string{"x"},
		Categorical: []string{"money", "items", "old", "city"}, Bags: []string{"money", "items", "old"}}})
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
		read, err := OpenRows(RowOptions{Env: env.Real(), Files: []string{name}, Format: FormatParquet, Recipe: recipe, Keep: []string{"city", "x"}, Threads: 2})
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
