package data

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// TestSampleWeights reads weights of samples from CSV, with and without bags, from the record file and from Parquet.
func TestSampleWeights(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	type row struct {
		Label int32    `parquet:"y"`
		W     *float64 `parquet:"w,optional"`
		X     float32  `parquet:"x"`
		C     string   `parquet:"c"`
	}
	const samples = 5000 // more than a block
	var text strings.Builder
	var rows []row
	var want []float32
	text.WriteString("c,w,x,y\n")
	for i := range samples {
		w := float64(r.IntN(64)) / 8
		x := row{Label: r.Int32N(2), W: &w, X: float32(i), C: fmt.Sprint("c", r.IntN(9), "|d")}
		fmt.Fprintf(&text, "%s,%v,%v,%d\n", x.C, w, x.X, x.Label)
		rows, want = append(rows, x), append(want, float32(w))
	}
	c := CSV{Label: "y", Weight: "w", Dense: []string{"x"}, Categorical: []string{"c"}}
	csv := textOptions(t, text.String(), c, 50)
	plain := csv
	plain.CSV.Weight = ""
	bags := csv
	bags.CSV.Separator = '|'
	columns := csv
	columns.Format, columns.Files = FormatParquet, []string{writeParquet(t, r, t.TempDir()+"/a.parquet", rows)}
	done, err := Convert(csv, "")
	if err != nil {
		t.Fatal(err)
	}
	record := csv
	record.Format, record.Files = FormatRecord, []string{done.File}
	unweighted := readAll(t, plain)
	if unweighted.SampleWeights != nil {
		t.Error("samples without weights have some")
	}
	for name, o := range map[string]Options{"csv": csv, "bags": bags, "parquet": columns, "record": record} {
		b := readAll(t, o)
		if !slices.Equal(b.SampleWeights, want) {
			t.Errorf("%s: weights %v..., want %v...", name, b.SampleWeights[:5], want[:5])
		}
		if !slices.Equal(b.Labels, unweighted.Labels) || !slices.Equal(b.Dense, unweighted.Dense) || name != "bags" && !slices.Equal(b.IDs, unweighted.IDs) {
			t.Errorf("%s: weights change the other values", name)
		}
	}
	rows[7].W = nil
	columns.Files = []string{writeParquet(t, r, t.TempDir()+"/b.parquet", rows)}
	if _, err := Open(columns); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "row 8") {
		t.Errorf("a null as weight: %v", err)
	}
}

// TestBadWeights refuses weights that are no numbers or negative, and columns that are named twice.
func TestBadWeights(t *testing.T) {
	c := CSV{Label: "y", Weight: "w", Categorical: []string{"c"}}
	for _, w := range []string{"", " ", "-1", "x", "nan", "1e99"} {
		_, err := Open(textOptions(t, "y,w,c\n1,1,a\n0,"+w+",b\n", c, 9))
		checkError(t, err, "train.csv:3", "field 2 (w)", "the weight must be a number, and not negative")
	}
	for _, column := range []string{"y", "c"} {
		c.Weight = column
		if err := checkCSV(&Options{Env: env.Real(), CSV: c}); err == nil || !strings.Contains(err.Error(), "name it once") {
			t.Errorf("column %q is also the weight: %v", column, err)
		}
	}
}
