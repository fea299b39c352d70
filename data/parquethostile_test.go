package data

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/ecrec/ecrec/internal/env"
)

// Files that are not as a writer makes them: they are refused, and take no more memory than others.

// A time in a unit that the format does not have yet is of no known type. It ended the process.
func TestParquetUnknownUnit(t *testing.T) {
	type row struct {
		Label int32  `parquet:"label"`
		At    int64  `parquet:"at,timestamp(microsecond)"`
		Hour  int64  `parquet:"hour,time(microsecond)"`
		C     string `parquet:"c"`
	}
	name := writeParquet(t, rand.New(rand.NewPCG(1, 1)), "a.parquet", []row{{1, 2, 3, "a"}, {0, 4, 5, "b"}})
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	unit := []byte{0x1C, 0x2C, 0, 0} // field 2, the unit, is a union; its field 2, microseconds, is a struct without fields
	if n := bytes.Count(b, unit); n != 2 {
		t.Fatalf("%d units, want those of two columns", n)
	}
	writeTo(t, name, bytes.ReplaceAll(b, unit, []byte{0x1C, 0x7C, 0, 0}))
	for _, column := range []string{"at", "hour"} {
		o := Options{Format: FormatParquet, Tables: []int64{9}, RecordDir: t.TempDir(), Files: []string{name},
			CSV: CSV{Label: "label", Categorical: []string{column}}}
		openFails(t, o, fmt.Sprintf("column %q is of type TIME", column), "which is not read")
	}
	if in, err := Infer(env.Real(), name, "label"); err != nil || !strings.HasPrefix(in.Columns[1].Why, "of type TIME") {
		t.Errorf("%+v, %v", in, err)
	}
}

// A decimal with more digits after the point than any writer makes is of no known type. Its text took as much memory as the file named.
func TestParquetScale(t *testing.T) {
	for scale, want := range map[int]parquetAs{0: asDecimal, 2: asDecimal, mostScale: asDecimal,
		mostScale + 1: asUnknown, 1 << 30: asUnknown, -1: asUnknown} {
		if as := newParquetType(parquet.Decimal(scale, 18, parquet.Int64Type).Type()).as; as != want {
			t.Errorf("scale %d: type %d, want %d", scale, as, want)
		}
	}
}

// Of a row with too many ids, no more are kept than a row may have, in every form of bags. The row is malformed.
func TestLargeBags(t *testing.T) {
	type row struct {
		Label int32   `parquet:"label"`
		Items []int64 `parquet:"items,list,dict"`
	}
	const heap = maxBag * 8
	many := make([]int64, 3*maxBag)
	name := writeParquet(t, rand.New(rand.NewPCG(1, 1)), "a.parquet", []row{{1, []int64{5, 6}}, {1, many}, {0, []int64{7}}})
	if st, err := os.Stat(name); err != nil || st.Size() > maxBag {
		t.Fatalf("the file is not small: %v", err)
	}
	o := Options{Env: env.Real(), Format: FormatParquet, Tables: []int64{9}, RecordDir: t.TempDir(), Files: []string{name}, SkipBad: true, Threads: 1,
		CSV: CSV{Label: "label", Categorical: []string{"items"}, Bags: []string{"items"}}}
	text, err := parquetFileFormat.text(&o)
	if err != nil {
		t.Fatal(err)
	}
	f := text.(*parquetFormat)
	r := f.newReader(&o, place{line: 1}, 1, nil)
	defer r.closeFile()
	var c chunk
	if _, err := r.fillChunk(&c); err != nil {
		t.Fatal(err)
	}
	if p := c.parts[1]; !slices.Equal(p.counts, []int32{2, maxBag, 1}) || len(p.heap) != heap+24 || len(p.faults) != 1 || p.faults[0].row != 1 {
		t.Errorf("counts %d, %d bytes of ids, %d faults", p.counts, len(p.heap), len(p.faults))
	}
	if f.parseChunk(&c, name); len(c.bad) != 1 || !strings.Contains(c.bad[0].Error(), `row 2, column "items", "": `+bagTooLarge) {
		t.Errorf("malformed rows %v", c.bad)
	}

	c = chunk{}
	bags := &csvFormat{separator: '|'}
	form := &fieldForm{kind: columnBag}
	var rec [8]byte
	if what := bags.storeBag(&c, form, bytes.Repeat([]byte{'|'}, 8*maxBag), rec[:], 0); what != bagTooLarge || len(c.heap) > heap {
		t.Errorf("a field of text: %q, %d bytes of ids", what, len(c.heap))
	}
	if what := bags.storeBag(&chunk{}, form, bytes.Repeat([]byte{'|'}, maxBag-1), rec[:], 0); what != "" {
		t.Errorf("a field with as many ids as are possible: %s", what)
	}
}

// A malformed value that many rows have is copied in part for each of them.
func TestLongFaults(t *testing.T) {
	type row struct {
		Label int32  `parquet:"label"`
		X     string `parquet:"x,dict"`
	}
	rows := slices.Repeat([]row{{1, strings.Repeat("z", 1<<20)}}, 200)
	name := writeParquet(t, rand.New(rand.NewPCG(1, 1)), "a.parquet", rows)
	u := newParquetUse("x", &fieldForm{kind: columnDense}, nil, nil)
	r := &parquetReader{env: env.Real(), files: []string{name}, uses: []*parquetUse{u}, chunkRows: 1000, next: place{line: 1}, threads: 1}
	defer r.closeFile()
	var c chunk
	if _, err := r.fillChunk(&c); err != nil {
		t.Fatal(err)
	}
	bytes := 0
	for _, bad := range c.parts[0].faults {
		bytes += cap(bad.text)
	}
	if n := len(c.parts[0].faults); n != len(rows) || bytes > 100*n {
		t.Errorf("%d faults of %d rows have %d bytes of text", n, len(rows), bytes)
	}
}
