package data

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// randomText is text of few bytes, most of which mean something.
func randomText(rnd *rand.Rand, alphabet string, n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = alphabet[rnd.IntN(len(alphabet))]
	}
	return text
}

// A fieldIndex cuts a record into the fields, and counts the lines, of a fieldScanner.
func TestFieldIndexCutsAsTheScanner(t *testing.T) {
	rnd := random(t)
	cut, left := 0, 0
	for range 20_000 {
		delimiter := ",;\t\x01\xff"[rnd.IntN(5)]
		alphabet := string([]byte{delimiter}) + []string{"a\n\"", "abcdefgh\n", "a\"\"\r\n", "abc\x80\xff\n\r"}[rnd.IntN(4)]
		text := randomText(rnd, alphabet, 1+rnd.IntN(200))
		var x fieldIndex
		columns := rnd.IntN(12)
		x.begin(text, delimiter, columns)
		for at := 0; at < len(text); {
			s := fieldScanner{text: text[at:], delimiter: delimiter}
			var fields []string
			mistake := ""
			for s.more() {
				field, what := s.next()
				fields = append(fields, string(field))
				mistake += what
			}
			if x.cutRecord(at) {
				cut++
				var got []string
				for i := range min(x.fields, columns) {
					got = append(got, string(x.field(i)))
				}
				if mistake != "" || x.fields != len(fields) || !slices.Equal(got, fields[:min(len(fields), columns)]) || x.end != at+s.at || 1+x.lines != s.countLines() {
					t.Fatalf("%q at %d: %d fields %q to %d with %d line ends, want %q to %d, %d lines, %s", text, at, x.fields, got, x.end, x.lines,
						fields, at+s.at, s.countLines(), mistake)
				}
			} else if left++; bytes.IndexByte(text[at:at+s.at], '"') < 0 {
				t.Fatalf("%q at %d, without quotes, is left to the scanner", text, at)
			}
			at += s.at
		}
	}
	if cut < 10_000 || left < 1000 {
		t.Errorf("%d records are cut, %d left to the scanner", cut, left)
	}
}

// parseDecimal has the bits of strconv's float64, rounded, whatever the bytes are.
func TestParseDecimalIsStrconv(t *testing.T) {
	rnd := random(t)
	parsed, fast := 0, 0
	for i := range 400_000 {
		text := randomText(rnd, []string{"0123456789", "0123456789.", "0123456789.-", "01. -+eE9", "059:/.\x00\xb0"}[i%5], rnd.IntN(20))
		// Other bytes follow, or none.
		b := append(slices.Clip(slices.Clone(text)), "7777777777"[:rnd.IntN(11)]...)[:len(text)]
		got, ok := parseDecimal(b)
		trimmed := strings.Trim(string(text), " ")
		want, err := strconv.ParseFloat(trimmed, 64)
		valid := err == nil && math.Abs(want) <= math.MaxFloat32 || trimmed == ""
		if negative := strings.TrimLeft(trimmed, "-0"); negative == "" && err == nil {
			want = 0 // -0 without a point is 0
		}
		if ok != valid || ok && math.Float32bits(got) != math.Float32bits(float32(want)) {
			t.Fatalf("%q is %v, %v, want %v, %v", text, got, ok, want, valid)
		}
		if ok {
			parsed++
			if _, digits := parseDigits(b); digits {
				fast++
			}
		}
	}
	if parsed < 100_000 || fast < 20_000 {
		t.Errorf("%d numbers of which %d are short", parsed, fast)
	}
}

// Rows with quotes, mistakes and other line ends give the same records and errors, wherever they are in a block of the index.
func TestRowsAtAnyPlace(t *testing.T) {
	format, err := newCSV(testCSV)
	if err != nil {
		t.Fatal(err)
	}
	columns, err := format.readHeader("x", []byte("y,a,b,name,place,x y"))
	if err != nil {
		t.Fatal(err)
	}
	rows := "1,2,3,\"n,\n\",p,x\r\n\n0,,.5,\"\"\"\",p\"q,\"\"\n1,x,3,n,p,x\n1,2,3,n,p\n0,-1.5,1e3,\"n\"n,p,x\r\n0,4,5,6,7,\"8\r\"\r\n0,1,2,3,4,5"
	var want []byte
	for shift := range 130 {
		first := fmt.Sprintf("1,2,3,%s,p,x\n", strings.Repeat("n", shift))
		c := chunk{text: []byte(first + rows), at: place{line: 2}, columns: columns}
		format.parseChunk(&c, "f.csv")
		if c.records = c.records[format.recordBytes():]; want == nil {
			want = c.records
		}
		if len(c.records) != 4*format.recordBytes() || !bytes.Equal(c.records, want) {
			t.Fatalf("after %d bytes: %d bytes of records", len(first), len(c.records))
		}
		got := fmt.Sprint(c.bad)
		for _, bad := range []string{`f.csv:7: field 2 (a) "x"`, "f.csv:8: 5 fields", `f.csv:9: field 4 (name) "n": text follows`} {
			if !strings.Contains(got, bad) {
				t.Fatalf("after %d bytes: %s, want %s", len(first), got, bad)
			}
		}
	}
}

// Text is cut behind the last record that a fieldScanner finds complete.
func TestCompleteRecords(t *testing.T) {
	rnd := random(t)
	for range 5000 {
		f := &csvFormat{delimiter: ",;\t\x01\xff"[rnd.IntN(5)]}
		alphabet := string([]byte{f.delimiter}) + []string{"a\n\"", "abcdefgh\n\"", "a\"\"\r\n", "abc\x80\xff\n\r"}[rnd.IntN(4)]
		text := randomText(rnd, alphabet, 1+rnd.IntN(10)*rnd.IntN(1000))
		want := 0
		for at, complete := 0, true; complete && at < len(text); {
			s := fieldScanner{text: text[at:], delimiter: f.delimiter}
			for s.more() {
				_, what := s.next()
				complete = what != noClosingQuote
			}
			at += s.at
			if complete = complete && text[at-1] == '\n'; complete {
				want = at
			}
		}
		if got := f.completeRecords(text); got != want {
			t.Fatalf("%q is cut at %d, want %d", text, got, want)
		}
	}
}
