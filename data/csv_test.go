package data

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/zeebo/xxh3"
)

var testCSV = CSV{Label: "y", Dense: []string{"b", "a"}, Categorical: []string{"name", "place", "x y"}}

func csvOptions(t testing.TB, files ...string) Options {
	return Options{Env: env.Real(), Format: FormatCSV, CSV: testCSV, Tables: []int64{7, 1000, maxRows}, RecordDir: t.TempDir(), Files: files}
}

// Fields are equal to the ones that encoding/csv reads.
func TestCSV(t *testing.T) {
	rnd := random(t)
	texts := []string{"", " ", "plain", "Zürich", "a,b", "semi;colon", `say "hi"`, `"`, "two\nlines", "cr\r", "tab\t", "0"}
	numbers := []string{"", "0", "1", "-3", "2.5", "1e3", " 7 ", "-0.25", "16777217", "123456789012345678", "1E-3", "+4", ".5"}
	header := []string{"place", "a", "unused", "y", "x y", "b", "name"}
	for _, delimiter := range []byte{',', ';', '\t'} {
		const n = 20_000
		rows := make([][]string, n)
		for i := range rows {
			rows[i] = []string{texts[rnd.IntN(len(texts))], numbers[rnd.IntN(len(numbers))], texts[rnd.IntN(len(texts))],
				[]string{"0", "1", "1.0", "0e5"}[rnd.IntN(4)], fmt.Sprint("id", rnd.IntN(1e6)), numbers[rnd.IntN(len(numbers))],
				texts[rnd.IntN(len(texts))]}
		}
		var text bytes.Buffer
		w := csv.NewWriter(&text)
		w.Comma = rune(delimiter)
		w.UseCRLF = false
		w.Write(header)
		w.WriteAll(rows)
		o := csvOptions(t, writeFile(t, "a.csv", append([]byte("\uFEFF"), text.Bytes()...)),
			writeFile(t, "b.csv", []byte(strings.ReplaceAll("name_y_b_a_place_x y\r\nN_1_2_3_P_\"X\"\"\"\r\n\r\n", "_", string(delimiter)))))
		o.CSV.Delimiter = delimiter
		o.Threads = 3
		s := mustOpen(t, o)
		if s.Len() != n+1 || s.Schema().Dense != 2 {
			t.Fatalf("%d samples, %+v", s.Len(), s.Schema())
		}
		b := readAllOf(t, s)
		rows = append(rows, []string{"P", "3", "", "1", `X"`, "2", "N"})
		for i, row := range rows {
			number := func(j int) float64 {
				x, _ := strconv.ParseFloat("0"+strings.TrimSpace(row[j]), 64)
				if s := strings.TrimSpace(row[j]); s != "" {
					x, _ = strconv.ParseFloat(s, 64)
				}
				return math.Log1p(max(x, 0))
			}
			hash := func(j int, rows uint64) uint32 { return uint32(xxh3.HashString(row[j]) % rows) }
			if d := b.Dense[2*i:]; math.Abs(float64(d[0])-number(5)) > 1e-5 || math.Abs(float64(d[1])-number(1)) > 1e-5 {
				t.Fatalf("delimiter %q, row %d: dense %v of %q", delimiter, i, d[:2], row)
			}
			if id := b.IDs[3*i:]; id[0] != hash(6, 7) || id[1] != hash(0, 1000) || id[2] != hash(4, maxRows) {
				t.Fatalf("delimiter %q, row %d: ids %v of %q", delimiter, i, id[:3], row)
			}
			if (b.Labels[i] == 1) != (row[3][0] == '1') {
				t.Fatalf("row %d: label %v of %q", i, b.Labels[i], row)
			}
		}
	}
}

// A carriage return within quotes is part of the field, also before the end of a line with another one.
func TestCSVKeepsQuotedReturn(t *testing.T) {
	o := csvOptions(t, writeFile(t, "cr.csv", []byte("y,a,b,name,place,x y\r\n1,2,3,n,p,\"x\r\"\r\n1,2,3,n,p,\"x\"\"\r\"\r\n1,2,3,n,p,\"x\r\"\n1,2,3,n,p,x\r\n1,2,3,n,p,\"x\"\r\n")))
	b := readAllOf(t, mustOpen(t, o))
	for i, want := range []string{"x\r", "x\"\r", "x\r", "x", "x"} {
		if got := b.IDs[3*i+2]; got != uint32(xxh3.HashString(want)%maxRows) {
			t.Errorf("line %d: the last field is not %q", i+2, want)
		}
	}
}

func TestCSVBadInput(t *testing.T) {
	head := "y,a,b,name,place,x y\n"
	good := "1,2,3,n,p,x\n"
	for _, c := range []struct{ line, want string }{
		{"1,2,x1,n,p,x", `field 3 (b) "x1": not a decimal number`},
		{"1,2,inf,n,p,x", `field 3 (b) "inf": not a decimal number`},
		{"1,2,NaN,n,p,x", `field 3 (b) "NaN": not a decimal number`},
		{"1,1e39,3,n,p,x", `field 2 (a) "1e39": not a decimal number`},
		{"1,1_0,3,n,p,x", `field 2 (a) "1_0": not a decimal number`},
		{"2,2,3,n,p,x", `field 1 (y) "2": the label must be 0 or 1`},
		{",2,3,n,p,x", `field 1 (y) "": the label must be 0 or 1`},
		{" ,2,3,n,p,x", `field 1 (y) " ": the label must be 0 or 1`},
		{"1,2,3,n,p", "5 fields, but the header has 6"},
		{"1,2,3,n,p,x,", "7 fields, but the header has 6"},
		{`1,2,3,"n"n,p,x`, `field 4 (name) "n": text follows the closing quote`},
	} {
		o := csvOptions(t, writeFile(t, "bad.csv", []byte(head+good+"1,2,3,\"\n\n\",p,x\n\n"+c.line+"\n"+good)))
		openFails(t, o, "bad.csv:7: "+c.want)
		o.SkipBad = true
		if s := mustOpen(t, o); s.Len() != 3 || s.Skipped() != 1 {
			t.Errorf("%q: %d samples, %d skipped", c.line, s.Len(), s.Skipped())
		}
	}
	one := func(text string) Options { return csvOptions(t, writeFile(t, "one.csv", []byte(text))) }
	openFails(t, one(head+good+"1,2,3,\"n,p,x\n"+good), "one.csv:3:", "the quote is not closed")
	openFails(t, one(head+good+"1,2,3,\"n,p,x\n"+strings.Repeat(good, 400_000)), "one.csv:3:", "is a quote not closed")
	openFails(t, one(head), "no well-formed sample")
	openFails(t, one("y,a"), "one.csv", "no samples follow the header")
	openFails(t, one(strings.Replace(head, "place", "plaice", 1)+good), "one.csv:1:",
		`no column is called "place"; there are y, a, b, name, plaice, x y`)
	openFails(t, one(strings.Replace(head, "name", "a", 1)+good), "one.csv:1:", `two columns are called "a"`)
	o := one(head + good)
	o.CSV.Dense = []string{"a", "name"}
	openFails(t, o, `"name" twice`)
	o = one(head + good)
	o.CSV.Label = ""
	openFails(t, o, "label")
	o = one(head + good)
	o.CSV.Delimiter = '"'
	openFails(t, o, "delimiter")
	o = one(head + good)
	o.Tables = o.Tables[1:]
	openFails(t, o, "3 columns", "2 tables")
}

func TestParseDecimal(t *testing.T) {
	rnd := random(t)
	for range 20_000 {
		x := (rnd.Float64() - 0.5) * math.Pow(10, float64(rnd.IntN(30)-10))
		text := strconv.FormatFloat(x, "feg"[rnd.IntN(3)], rnd.IntN(19)-1, 64)
		want, _ := strconv.ParseFloat(text, 64)
		if got, ok := parseDecimal([]byte(text)); !ok || got != float32(want) {
			t.Fatalf("%q is %v, %v", text, got, ok)
		}
	}
}

// FuzzCSV: text cut between records parses as it does in one piece, and where
// encoding/csv is content, it reads the same fields.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("y,a,b,name,place,x y\n1,2,3,n,p,x\n0,,,,,\"\"\"\""))
	f.Add([]byte("1,2,\"a\nb\",b\n\n"))
	f.Add([]byte("0,1,2,\",\r\n\",-2e-3,\r\n\n\r\n,,,,,"))
	format, err := newCSV(testCSV)
	if err != nil {
		f.Fatal(err)
	}
	columns, err := format.readHeader("x", []byte("y,a,b,name,place,x y"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		parse := func(c *chunk) {
			c.columns = columns
			format.parseChunk(c, "x")
		}
		whole := chunk{text: text, at: place{line: 1}}
		parse(&whole)
		cut := format.completeRecords(text)
		parts := chunk{text: text[:cut], at: place{line: 1}}
		parse(&parts)
		parts.text, parts.at.line = text[cut:], int64(1+bytes.Count(text[:cut], []byte{'\n'}))
		parse(&parts)
		if !bytes.Equal(whole.records, parts.records) || fmt.Sprint(whole.bad) != fmt.Sprint(parts.bad) {
			t.Fatalf("cut at %d: %v, in one piece: %v", cut, parts.bad, whole.bad)
		}
		theirs := csv.NewReader(bytes.NewReader(text))
		theirs.FieldsPerRecord = -1
		rows, err := theirs.ReadAll()
		if err != nil || bytes.IndexByte(text, '\r') >= 0 {
			return
		}
		rest := text
		for i, row := range rows {
			rest = bytes.TrimLeft(rest, "\n")
			var mine []string
			s := fieldScanner{text: rest, delimiter: ','}
			for s.more() {
				field, what := s.next()
				if what != "" {
					t.Fatalf("record %d: %s", i, what)
				}
				mine = append(mine, string(field))
			}
			if !slices.Equal(mine, row) {
				t.Fatalf("record %d is %q, want %q", i, mine, row)
			}
			rest = rest[s.at:]
		}
	})
}

func BenchmarkParseCSV(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	f, _ := newCSV(testCSV)
	header := []byte("y,a,b,name,place,x y\n")
	columns, err := f.readHeader("x", header)
	if err != nil {
		b.Fatal(err)
	}
	var text []byte
	for range 10_000 {
		text = fmt.Appendf(text, "%d,%d,%.3f,name%d,place %d,\"x,%d\"\n", rnd.IntN(2), rnd.IntN(1000), rnd.Float64(),
			rnd.IntN(1000), rnd.IntN(1e6), rnd.IntN(10))
	}
	c := chunk{text: text, columns: columns}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for range b.N {
		c.records = c.records[:0]
		f.parseChunk(&c, "x")
	}
	if len(c.records) != 10_000*f.recordBytes() {
		b.Fatal("not parsed", len(c.records), c.bad)
	}
}

func TestDefaultNamesDiffer(t *testing.T) {
	text := []byte("y,a,b,name,place,x y\n1,2,3,n,p,x\n")
	o := csvOptions(t, writeFile(t, "a.csv", text))
	names := map[string]bool{}
	for _, change := range []func(){func() {}, func() { o.CSV.Dense = []string{"a", "b"} }, func() { o.Files = append(o.Files, o.Files[0]) }} {
		change()
		c, err := Convert(o, "")
		if err != nil {
			t.Fatal(err)
		}
		names[c.File] = true
	}
	if files, _ := filepath.Glob(o.RecordDir + "/a-*.rec"); len(names) != 3 || len(files) != 3 {
		t.Errorf("three conversions make %v", files)
	}
}

// A conversion of csv that was stopped resumes behind the header, between quoted fields.
func TestCSVResumes(t *testing.T) {
	var text bytes.Buffer
	text.WriteString("y,a,b,name,place,x y\n")
	for i := range 80_000 {
		fmt.Fprintf(&text, "%d,%d,.5,\"n\n%d\",p%d,\"\"\n", i%2, i, i%99, i)
	}
	o := csvOptions(t, writeFile(t, "a.csv", text.Bytes()))
	want := readAllOf(t, mustOpen(t, o))
	o.RecordDir = t.TempDir()
	stop := errors.New("stop")
	begun := int64(-1)
	o.Progress = func(p Progress) error {
		if p.Done > 2*p.Total/3 {
			return stop
		}
		return nil
	}
	if _, err := Open(o); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	o.Progress = func(p Progress) error {
		if begun < 0 {
			begun = p.Done
		}
		return nil
	}
	got := readAllOf(t, mustOpen(t, o))
	if begun < int64(text.Len()/2) {
		t.Errorf("it began anew: first progress at %d of %d bytes", begun, text.Len())
	}
	if !slices.Equal(got.IDs, want.IDs) || !slices.Equal(got.Dense, want.Dense) || !slices.Equal(got.Labels, want.Labels) {
		t.Error("the samples differ from those of a conversion in one go")
	}
}
