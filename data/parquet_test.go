package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/ecrec/ecrec/internal/env"
)

// parquetRow has columns of many types.
type parquetRow struct {
	Label int32    `parquet:"label"`
	I     *int64   `parquet:"i,optional"`
	F     *float32 `parquet:"f,optional"`
	D     float64  `parquet:"d,snappy"`
	B     bool     `parquet:"b"`
	S     *string  `parquet:"s,optional,dict,zstd"`
	P     string   `parquet:"p,gzip"`
	N     int32    `parquet:"n,dict"`
	U     uint32   `parquet:"u"`
	X     float64  `parquet:"x"`
	Money int64    `parquet:"money,decimal(2:18)"`
	Day   int32    `parquet:"day,date"`
	At    int64    `parquet:"at,timestamp(microsecond)"`
	Skip  []string `parquet:"skip,list"`
}

var parquetCSV = CSV{Label: "label", Dense: []string{"i", "f", "d", "b", "n"}, Categorical: []string{"s", "p", "i2", "x", "u", "money", "day", "at", "b2"}}

// randomRows draws rows, and their text in CSV.
func randomRows(r *rand.Rand, n int) (rows []parquetRow, text []byte) {
	var csv bytes.Buffer
	csv.WriteString("label,i,f,d,b,n,s,p,i2,x,u,money,day,at,b2\n")
	for range n {
		row := parquetRow{Label: r.Int32N(2), D: float64(r.IntN(4000))/8 - 20, B: r.IntN(2) == 0, P: "p" + strconv.Itoa(r.IntN(1<<20)),
			N: r.Int32N(50), U: r.Uint32() | 1<<31, X: float64(r.IntN(5)) * 0.5, Money: r.Int64N(2000) - 1000, Day: r.Int32N(20000),
			At: r.Int64N(1e9)*1e6 + 250000*r.Int64N(4)}
		var i, f, s string
		if r.IntN(4) > 0 {
			v := r.Int64N(1<<50) - 1<<20
			row.I, i = &v, strconv.FormatInt(v, 10)
		}
		if r.IntN(4) > 0 {
			v := float32(r.IntN(1000)) / 16
			row.F, f = &v, strconv.FormatFloat(float64(v), 'g', -1, 32)
		}
		if r.IntN(4) > 0 {
			v := "s" + strconv.Itoa(r.IntN(r.IntN(300)+1))
			row.S, s = &v, v
		}
		sign, cents := "", row.Money
		if cents < 0 {
			sign, cents = "-", -cents
		}
		b := 0
		if row.B {
			b = 1
		}
		at := timeOf(row.At, 1000).Format("2006-01-02 15:04:05.999999999")
		fmt.Fprintf(&csv, "%d,%s,%s,%v,%d,%d,%s,%s,%d,%.1f,%d,%s%d.%02d,%s,%s,%t\n", row.Label, i, f, row.D, b, row.N, s, row.P, row.N, row.X, row.U,
			sign, cents/100, cents%100, timeOf(int64(row.Day)*86400, 1e9).Format("2006-01-02"), at, row.B)
		rows = append(rows, row)
	}
	return rows, csv.Bytes()
}

// writeParquet writes rows in row groups and pages of a random size.
func writeParquet[T any](t testing.TB, r *rand.Rand, name string, rows []T, options ...parquet.WriterOption) string {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.TempDir(), name)
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := parquet.NewGenericWriter[T](f, append(options, parquet.PageBufferSize(200+r.IntN(5000)), parquet.DataPageVersion(1+r.IntN(2)))...)
	for len(rows) > 0 {
		n := min(len(rows), 1+r.IntN(4000))
		if _, err := w.Write(rows[:n]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		rows = rows[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// Values are stored as their text in a CSV file is, for any row groups, pages and threads.
func TestParquetEqualsCSV(t *testing.T) {
	rnd := random(t)
	rows, text := randomRows(rnd, 12_000)
	tables := []int64{100, 1 << 20, 50, 7, maxRows, 5000, 20000, maxRows, 3}
	want := readAllOf(t, mustOpen(t, Options{Format: FormatCSV, CSV: parquetCSV, Tables: tables, RecordDir: t.TempDir(),
		Files: []string{writeFile(t, "a.csv", text)}}))
	for _, threads := range []int{1, 2, 5} {
		cut := 1 + rnd.IntN(len(rows)-1)
		o := Options{Format: FormatParquet, Tables: tables[:2], RecordDir: t.TempDir(), Threads: threads,
			CSV:   CSV{Label: "label", Dense: parquetCSV.Dense, Categorical: []string{"s", "p"}},
			Files: []string{writeParquet(t, rnd, "a", rows[:cut]), writeParquet(t, rnd, "b", rows[cut:])}}
		got := readAllOf(t, mustOpen(t, o))
		if !slices.Equal(got.Labels, want.Labels) || !slices.Equal(got.Dense, want.Dense) {
			t.Fatalf("%d threads: labels or numbers differ", threads)
		}
		o.CSV = CSV{Label: "label", Dense: []string{"d"}, Categorical: []string{"s", "p", "n", "x", "u", "money", "day", "at", "b"}}
		o.Tables, o.RecordDir = tables, t.TempDir()
		got = readAllOf(t, mustOpen(t, o))
		for i := range got.IDs {
			if got.IDs[i] != want.IDs[i] {
				t.Fatalf("%d threads: sample %d, column %s: id %d, want %d", threads, i/9, o.CSV.Categorical[i%9], got.IDs[i], want.IDs[i])
			}
		}
	}
}

// Vocabularies and parameters that are counted in Parquet files are those of the same CSV file.
func TestParquetFit(t *testing.T) {
	rnd := random(t)
	rows, text := randomRows(rnd, 12_000)
	csv := CSV{Label: "label", Dense: []string{"d", "i"}, Categorical: []string{"s", "p", "x", "n"}, NA: []string{"s1"},
		Transform: map[string]string{"d": TransformStandard, "n": TransformLog2Bucket}}
	o := Options{Env: env.Real(), Format: FormatParquet, CSV: csv, Tables: make([]int64, 4), MinCount: 2, Threads: 3,
		Files: []string{writeParquet(t, rnd, "a", rows[:5000]), writeParquet(t, rnd, "b", rows[5000:])}, RecordDir: t.TempDir()}
	got, err := Fit(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Format, o.Files, o.RecordDir = FormatCSV, []string{writeFile(t, "a.csv", bytes.ReplaceAll(text, []byte(",i2,"), []byte(",n2,")))}, t.TempDir()
	want, err := Fit(o)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Categorical, want.Categorical) || !reflect.DeepEqual(got.Dense, want.Dense) {
		t.Errorf("Parquet %s\nCSV %s", got.Encode(), want.Encode())
	}
	if n := len(want.Categorical[0].Vocabulary); n < 100 {
		t.Errorf("a vocabulary of %d texts", n)
	}
}

// A conversion that is stopped resumes at its row.
func TestParquetResumes(t *testing.T) {
	rnd := random(t)
	rows, _ := randomRows(rnd, 30_000)
	for i := range rows[:20] {
		rows[i*1000+7].Label = 5
	}
	o := Options{Env: env.Real(), Format: FormatParquet, SkipBad: true, CSV: CSV{Label: "label", Dense: []string{"i", "d"}, Categorical: []string{"s", "p"}},
		Files: []string{writeParquet(t, rnd, "a", rows[:20_000]), writeParquet(t, rnd, "b", rows[20_000:])}}
	whole, err := Convert(o, filepath.Join(t.TempDir(), "whole.rec"))
	if err != nil || whole.Samples != 30_000-20 || whole.Skipped != 20 {
		t.Fatalf("%+v, %v", whole, err)
	}
	to, stop := filepath.Join(t.TempDir(), "parts.rec"), errors.New("stop")
	var begun []int64
	for len(begun) < 100 {
		budget, first := 6+rnd.IntN(4), int64(-1)
		o.Threads = 1 + rnd.IntN(3)
		o.Progress = func(p Progress) error {
			if first < 0 {
				first = p.Done
			}
			if budget--; budget == 0 {
				return stop
			}
			return nil
		}
		c, err := Convert(o, to)
		begun = append(begun, first)
		if err == nil {
			if c.Samples != whole.Samples || c.Skipped != whole.Skipped {
				t.Errorf("%+v, want %+v", c, whole)
			}
			break
		}
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
	}
	if len(begun) < 2 || !slices.IsSorted(begun) || begun[len(begun)-1] == begun[0] {
		t.Errorf("the runs began at %d", begun)
	}
	open := func(name string) *Batch {
		return readAllOf(t, mustOpen(t, Options{Format: FormatRecord, Files: []string{name}, Tables: []int64{500, 1000}, CSV: o.CSV}))
	}
	a, b := open(whole.File), open(to)
	if !slices.Equal(a.IDs, b.IDs) || !slices.Equal(a.Dense, b.Dense) || !slices.Equal(a.Labels, b.Labels) {
		t.Error("the samples differ")
	}
}

func TestParquetErrors(t *testing.T) {
	rnd := random(t)
	rows, _ := randomRows(rnd, 300)
	rows[250].Label = 2
	name := writeParquet(t, rnd, "day.parquet", rows)
	o := func(files ...string) Options {
		return Options{Format: FormatParquet, Tables: []int64{9}, Files: files, RecordDir: t.TempDir(),
			CSV: CSV{Label: "label", Dense: []string{"d"}, Categorical: []string{"p"}}}
	}
	openFails(t, o(name), "day.parquet: row 251, column \"label\", \"2\": the label must be 0 or 1")
	for _, c := range []struct {
		dense string
		want  string
	}{
		{"none", `no column is called "none"; there are "label", "i", `},
		{"skip", `column "skip" is a list`},
		{"day", `column "day", "`},
	} {
		bad := o(name)
		bad.CSV.Dense = []string{c.dense}
		openFails(t, bad, "day.parquet", c.want)
	}
	openFails(t, o(writeFile(t, "a.parquet", []byte("label,d,p\n1,2,3\n"))), `it is text, not Parquet; set data.format = "csv"`)
	openFails(t, o(writeFile(t, "a.parquet", []byte(gzipOf(t, []byte("x"))))), "it is gzip, not Parquet")
	openFails(t, o(writeFile(t, "a.parquet", []byte("PAR1PAR1"))), "a.parquet", "cut short or damaged")
	type nan struct {
		Label int32   `parquet:"label"`
		D     float64 `parquet:"d"`
		P     string  `parquet:"p"`
	}
	zero := 0.0
	openFails(t, o(writeParquet(t, rnd, "nan.parquet", []nan{{0, 1, ""}, {1, zero / zero, ""}})), `row 2, column "d", "nan": not a decimal number`)
}

// Encodings that the decoder reads wrongly are refused.
func TestParquetRefuses(t *testing.T) {
	type row struct {
		Label int32  `parquet:"label"`
		P     string `parquet:"p,lz4"`
	}
	o := Options{Format: FormatParquet, Tables: []int64{9}, RecordDir: t.TempDir(), CSV: CSV{Label: "label", Categorical: []string{"p"}},
		Files: []string{writeParquet(t, random(t), "a.parquet", []row{{0, "x"}, {1, "y"}})}}
	openFails(t, o, `a.parquet: column "p" is compressed with LZ4_RAW, which is not read`)
	for _, c := range []struct {
		encodings []format.Encoding
		stats     []format.PageEncodingStats
		want      bool
	}{
		{[]format.Encoding{format.Plain, format.RLE}, nil, false}, // of the levels
		{[]format.Encoding{format.RLE}, nil, true},
		{[]format.Encoding{format.Plain, format.RLE}, []format.PageEncodingStats{{PageType: format.DataPage, Encoding: format.Plain, Count: 1}}, false},
		{[]format.Encoding{format.Plain, format.RLE}, []format.PageEncodingStats{{PageType: format.DataPageV2, Encoding: format.RLE, Count: 1}}, true},
	} {
		if got := hasRuns(&format.ColumnMetaData{Encoding: c.encodings, EncodingStats: c.stats}); got != c.want {
			t.Errorf("%v, %v: %t", c.encodings, c.stats, got)
		}
	}
}

// Encrypted columns, and levels in an old encoding without runs, are refused.
func TestParquetRefusesEncrypted(t *testing.T) {
	name := writeParquet(t, random(t), "a.parquet", []encodedRow{{}})
	f, err := openParquet(env.Real(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.file.Close()
	columns := []*parquetColumn{{name: "i"}, {name: "p"}}
	if err := f.findColumns(columns); err != nil {
		t.Fatal(err)
	}
	chunk := &f.meta.RowGroups[0].Columns[f.leaves[1].Index()]
	for _, value := range []format.ColumnCryptoMetaDataValue{new(format.EncryptionWithFooterKey), new(format.EncryptionWithColumnKey)} {
		chunk.CryptoMetadata.Value = value
		f.leaves = nil
		want := name + `: column "p" is encrypted, which is not read; write the file without encryption`
		if err := f.findColumns(columns); err == nil || err.Error() != want || !errors.Is(err, ErrInput) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	p := &parquetPages{leaf: f.leaves[0].Column}
	page := &parquetPage{values: make([]byte, 99)}
	err = f.guard(func() error { return p.cutLevels(page, format.RLE, format.BitPacked) })
	want := name + `: column "i" has levels in the encoding BIT_PACKED, which is not read; write the file again with a current Parquet writer`
	if err == nil || err.Error() != want || !errors.Is(err, ErrInput) {
		t.Errorf("%v, want %s", err, want)
	}
}

// Texts of numbers are those of Python.
func TestParquetTexts(t *testing.T) {
	for x, want := range map[float64]string{1: "1.0", 0: "0.0", -2.5: "-2.5", 1e15: "1000000000000000.0", 1e16: "1e+16", 1.5e-5: "1.5e-05", 0.0001: "0.0001"} {
		if got := string(appendFloat(nil, x, 64)); got != want {
			t.Errorf("%v is %q, want %q", x, got, want)
		}
	}
	if got := timeOf(-1, 1e6).Format("2006-01-02 15:04:05.999999999"); got != "1969-12-31 23:59:59.999" {
		t.Errorf("a millisecond before 1970 is %s", got)
	}
	var dst []byte
	for _, c := range []struct {
		units int64
		scale int
		want  string
	}{{5, 2, "0.05"}, {-1234, 2, "-12.34"}, {7, 0, "7"}, {0, 1, "0.0"}} {
		v := &parquetValues{parquetType: parquetType{as: asDecimal, scale: c.scale}, kind: parquet.Int64, data: binary.LittleEndian.AppendUint64(nil, uint64(c.units)), size: 8, n: 1}
		if dst = v.textOf(0, true, dst); string(dst) != c.want {
			t.Errorf("%d with scale %d is %q, want %q", c.units, c.scale, dst, c.want)
		}
	}
}

// FuzzParquet converts any bytes: there are samples, or an error of the input that names the file.
func FuzzParquet(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	rows, _ := randomRows(r, 30)
	name := writeParquet(f, r, "seed", rows)
	seed, err := os.ReadFile(name)
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
	f.Add([]byte("PAR1\xff\xff\xff\xffPAR1"))
	f.Add([]byte("PAR1\x00\x00\x00\x00PAR1"))
	f.Fuzz(func(t *testing.T, content []byte) {
		name := writeFile(t, "x.parquet", content)
		o := Options{Env: env.Real(), Format: FormatParquet, Tables: []int64{9, 9, 9}, Files: []string{name}, RecordDir: t.TempDir(), Threads: 2,
			CSV: CSV{Label: "label", Dense: []string{"i", "f"}, Categorical: []string{"s", "p", "money"}}}
		s, err := Open(o)
		if err == nil {
			s.Close()
		} else if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), name) {
			t.Fatalf("the error %q is no ErrInput, or does not name the file", err)
		}
	})
}
