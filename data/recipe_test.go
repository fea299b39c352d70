package data

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/env"
)

func TestMissingHash(t *testing.T) {
	if h := xxh3.Hash(nil); h != missingHash {
		t.Errorf("the hash of the empty text is %#x, not %#x", h, uint64(missingHash))
	}
}

// textOptions writes a CSV file, and returns options for it.
func textOptions(t *testing.T, text string, c CSV, tables ...int64) Options {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "train.csv")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return Options{Env: env.Real(), Format: FormatCSV, Files: []string{name}, Tables: tables, CSV: c, RecordDir: dir, Threads: 2}
}

// readAll reads all samples of a source.
func readAll(t *testing.T, o Options) *Batch {
	t.Helper()
	src, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	idx := make([]int64, src.Len())
	for i := range idx {
		idx[i] = int64(i)
	}
	b := new(Batch)
	if err := src.Read(b, idx); err != nil {
		t.Fatal(err)
	}
	return b
}

// An encoder, also that of a recipe read from JSON, makes the bits of the record path.
func TestEncoderEqualsRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	numbers := []string{"", "0", "-3", "7", "1e3", "0.25", " 12 ", "16384", "123456.5"}
	words := []string{"", "a", "b", "über", "x y", "\xff\xfe"}
	var text strings.Builder
	text.WriteString("y,n,c,m,d\n")
	var rows [][][]byte
	for range 500 {
		n, m := numbers[rng.IntN(len(numbers))], numbers[rng.IntN(len(numbers))]
		c, d := words[rng.IntN(len(words))], fmt.Sprint(rng.IntN(100))
		fmt.Fprintf(&text, "%d,%s,%s,%s,%s\n", rng.IntN(2), n, c, m, d)
		rows = append(rows, [][]byte{[]byte(m), []byte(n), []byte(c), []byte(d)})
	}
	o := textOptions(t, text.String(), CSV{Label: "y", Dense: []string{"m", "n"}, Categorical: []string{"c", "d"}}, 5, 1000)
	want := readAll(t, o)
	first, err := NewRecipe(o)
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := ParseRecipe(first.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, recipe) {
		t.Errorf("read back it is %+v, want %+v", recipe, first)
	}
	e, err := recipe.NewEncoder()
	if err != nil {
		t.Fatal(err)
	}
	if names := e.Columns(); !slices.Equal(names, []string{"m", "n", "c", "d"}) {
		t.Errorf("columns %q", names)
	}
	var b Batch
	e.Resize(&b, len(rows))
	for i, fields := range rows {
		if bad, what := e.EncodeSample(&b, i, fields); bad >= 0 {
			t.Fatalf("row %d, field %d: %s", i, bad, what)
		}
	}
	if !slices.Equal(b.Dense, want.Dense) || !slices.Equal(b.IDs, want.IDs) {
		t.Error("the encoder and the record file differ")
	}
	if bad, what := e.EncodeSample(&b, 0, [][]byte{[]byte("1"), []byte("x"), nil, nil}); bad != 1 || what == "" {
		t.Errorf("a malformed number: field %d, %q", bad, what)
	}
}

// TestEncoderOfBags checks that fields with several ids become the samples that the record file has.
func TestEncoderOfBags(t *testing.T) {
	fields := [][][]byte{}
	text := "y,a,c,d\n"
	for _, row := range [][]string{{"1", "x|y:0.5|x", ""}, {"2", "", "z|x:-1"}, {"", "NA", "q"}, {"-3", "x|", "|:2|x"}} {
		text += "1," + strings.Join(row, ",") + "\n"
		fields = append(fields, [][]byte{[]byte(row[0]), []byte(row[1]), []byte(row[2])})
	}
	c := CSV{Label: "y", Dense: []string{"a"}, Categorical: []string{"c", "d"}, NA: []string{"NA"}, Separator: '|', Weighted: true}
	for _, bags := range [][]string{nil, {"c"}, {"d"}} {
		c.Bags = bags
		o := textOptions(t, text, c, 5, 1000)
		want := readAll(t, o)
		r, err := NewRecipe(o)
		if err != nil {
			t.Fatal(err)
		}
		e, err := r.NewEncoder()
		if err != nil {
			t.Fatal(err)
		}
		var b Batch
		e.Resize(&b, len(fields))
		for i, row := range fields {
			for range 2 { // the second replaces the first
				if bad, what := e.EncodeSample(&b, i, row); bad >= 0 {
					t.Fatalf("row %d, field %d: %s", i, bad, what)
				}
			}
			if bad, what := e.EncodeSample(&b, i+1, [][]byte{nil, []byte("x:1|y:"), []byte("x:1|y:")}); bad < 1 || what == "" {
				t.Errorf("a malformed weight: field %d, %q", bad, what)
			}
		}
		if !slices.Equal(b.Dense, want.Dense) || !slices.Equal(b.IDs, want.IDs) || !slices.Equal(b.Offsets, want.Offsets) || !slices.Equal(b.Weights, want.Weights) {
			t.Errorf("bags %q: ids %v %v %v, the record file has %v %v %v", bags, b.IDs, b.Offsets, b.Weights, want.IDs, want.Offsets, want.Weights)
		}
	}
}

func TestParseRecipeRefuses(t *testing.T) {
	o := textOptions(t, "y,a,c\n1,1,1\n", CSV{Label: "y", Dense: []string{"a"}, Categorical: []string{"c"}}, 5)
	r, err := NewRecipe(o)
	if err != nil {
		t.Fatal(err)
	}
	good := r.Encode()
	for _, change := range [][2]string{{`"version": 1`, `"version": 4`}, {`log1p`, `log7`}, {`modulo rows`, `modulo`}, {`"rows": 5`, `"rows": -1`}} {
		bad := bytes.ReplaceAll(good, []byte(change[0]), []byte(change[1]))
		if _, err := ParseRecipe(bad); err == nil || bytes.Equal(bad, good) {
			t.Errorf("%s is taken", change[1])
		}
	}
	o.CSV.Categorical, o.CSV.Separator, o.Tables = []string{"c", "d"}, '|', []int64{5, 5}
	if r, err = NewRecipe(o); err != nil {
		t.Fatal(err)
	}
	good = r.Encode()
	if _, err := ParseRecipe(good); err != nil {
		t.Error(err)
	}
	for _, change := range [][2]string{{`"|"`, `"||"`}, {`"|"`, `"§±"`}, {`"|"`, `"€"`}, {`"|"`, `";"`}, {`"separator": "|"`, `"weighted": true`}} {
		bad := bytes.Replace(good, []byte(change[0]), []byte(change[1]), 1)
		if _, err := ParseRecipe(bad); err == nil || bytes.Equal(bad, good) {
			t.Errorf("a separator %s is taken", change[1])
		}
	}
}
