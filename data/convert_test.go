package data

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// tsvOf writes criteo-bin records as Criteo's text.
func tsvOf(records []int32) []byte {
	var b []byte
	for i, x := range records {
		switch j := i % criteoFields; {
		case x == 0 && j > 0 && i%3 == 0: // missing
		case j <= criteoDense:
			b = strconv.AppendInt(b, int64(x), 10)
		case i%5 == 0:
			from := len(b)
			b = strconv.AppendUint(b, uint64(uint32(x)), 16)
			copy(b[from:], bytes.ToUpper(b[from:]))
		default: // eight digits
			from := len(b)
			b = strconv.AppendUint(b, 1<<32|uint64(uint32(x)), 16)
			b = slices.Delete(b, from, from+1)
		}
		if i%criteoFields == criteoFields-1 {
			b = append(b, '\n')
		} else {
			b = append(b, '\t')
		}
	}
	return b
}

func readAllOf(t testing.TB, s Source) *Batch {
	t.Helper()
	b := new(Batch)
	if err := s.Read(b, Order{Samples: s.Len(), Batch: int(s.Len())}.Slice(1, 0, 1, nil)); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTSV(t *testing.T) {
	rnd := random(t)
	const n = 15_000 // some 4 MB: several chunks and blocks
	records := randomRecords(rnd, n)
	text := tsvOf(records)
	lines := bytes.SplitAfter(text, []byte{'\n'})
	first := bytes.Join(lines[:1000], nil)
	second := bytes.TrimSuffix(bytes.Join(lines[1000:], nil), []byte{'\n'})
	crlf := bytes.ReplaceAll(first, []byte{'\n'}, []byte("\r\n\n")) // and empty lines
	o := Options{Env: env.Real(), Format: FormatCriteoTSV, Tables: testTables, RecordDir: filepath.Join(t.TempDir(), "new"),
		Files: []string{writeFile(t, "a.tsv", crlf), writeFile(t, "b.tsv", second)}}
	var told []int64
	o.Progress = func(p Progress) error { told = append(told, p.Done); return nil }
	for round, made := range []bool{true, false} {
		told = nil
		s := mustOpen(t, o)
		if s.Len() != n || s.Schema().Dense != criteoDense {
			t.Fatalf("round %d: %d samples, %+v", round, s.Len(), s.Schema())
		}
		b := readAllOf(t, s)
		for i := range n {
			checkCriteo(t, b, i, records[i*criteoFields:][:criteoFields], testTables)
		}
		if made != (len(told) > 0) || !slices.IsSorted(told) || made && told[len(told)-1] != int64(len(crlf)+len(second)) {
			t.Errorf("round %d: progress %v", round, told)
		}
	}
}

// One conversion serves any tables; changed sources are converted again.
func TestConvertOnce(t *testing.T) {
	records := randomRecords(rand.New(rand.NewPCG(1, 1)), 100)
	name := writeFile(t, "a.tsv", tsvOf(records))
	o := Options{Env: env.Real(), Format: FormatCriteoTSV, Files: []string{name}, RecordDir: t.TempDir()}
	c, err := Convert(o, "")
	if err != nil || !c.Made || c.Samples != 100 {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, tables := range [][]int64{testTables, kaggle(t)} {
		o.Tables = tables
		checkCriteo(t, readAllOf(t, mustOpen(t, o)), 0, records[:criteoFields], tables)
		r := Options{Format: FormatRecord, Files: []string{c.File, c.File}, Tables: tables}
		if s := mustOpen(t, r); s.Len() != 200 {
			t.Errorf("twice the record file has %d samples", s.Len())
		}
	}
	if again, err := Convert(o, ""); err != nil || again.Made || again.File != c.File || again.Samples != 100 {
		t.Errorf("%+v, %v", again, err)
	}
	writeFile(t, name, tsvOf(records[:50*criteoFields]))
	if again, err := Convert(o, ""); err != nil || !again.Made || again.File != c.File || again.Samples != 50 {
		t.Errorf("changed source: %+v, %v", again, err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(name, later, later); err != nil {
		t.Fatal(err)
	}
	if again, err := Convert(o, ""); err != nil || !again.Made {
		t.Errorf("touched source: %+v, %v", again, err)
	}
	if left, _ := filepath.Glob(o.RecordDir + "/*"); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// A conversion that is stopped anywhere ends, when it is started again, with the
// file of one that was not, and does not start over.
func TestConvertResumes(t *testing.T) {
	rnd := random(t)
	records := randomRecords(rnd, 40_000)
	text := tsvOf(records)
	at := 0
	for i := 0; i < 40_000; i += 700 { // some malformed lines
		at = bytes.IndexByte(text[i*100:], '\n') + i*100 + 1
		text = slices.Insert(text, at, []byte("x\n")...)
	}
	half := bytes.IndexByte(text[len(text)/2:], '\n') + len(text)/2 + 1
	o := Options{Env: env.Real(), Format: FormatCriteoTSV, SkipBad: true,
		Files: []string{writeFile(t, "a.tsv", text[:half]), writeFile(t, "b.tsv", text[half:])}}
	dir := t.TempDir()
	whole, err := Convert(o, filepath.Join(dir, "whole.rec"))
	if err != nil || whole.Samples != 40_000 || whole.Skipped != 58 || len(whole.Bad) != maxReported {
		t.Fatalf("%+v, %v", whole, err)
	}
	want, _ := os.ReadFile(whole.File)
	to := filepath.Join(dir, "parts.rec")
	stop := errors.New("stop")
	var begun []int64
	for kills := 0; ; kills++ {
		budget, first := 1+rnd.IntN(3), int64(-1)
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
			got, _ := os.ReadFile(to)
			// The last trailer's place depends on how the text was cut; the samples do not.
			if c.Samples != whole.Samples || c.Skipped != whole.Skipped || len(got) != len(want) {
				t.Fatalf("after %d kills: %+v, want %+v", kills, c, whole)
			}
			break
		}
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
		if kills > 50 {
			t.Fatalf("it never ends: the runs began at %v", begun)
		}
		// A kill leaves a piece of a block, a power cut a torn one.
		part, err := os.OpenFile(to+".part", os.O_RDWR|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		part.Write(make([]byte, rnd.IntN(2*maxBlockBytes)))
		part.Close()
	}
	if !slices.IsSorted(begun) || begun[len(begun)-1] == begun[0] {
		t.Errorf("the runs began at %v", begun)
	}
	a := readAllOf(t, mustOpen(t, Options{Format: FormatRecord, Files: []string{whole.File}, Tables: testTables}))
	b := readAllOf(t, mustOpen(t, Options{Format: FormatRecord, Files: []string{to}, Tables: testTables}))
	if !slices.Equal(a.IDs, b.IDs) || !slices.Equal(a.Dense, b.Dense) || !slices.Equal(a.Labels, b.Labels) {
		t.Error("the samples differ")
	}
	for i := range a.N {
		checkCriteo(t, a, i, records[i*criteoFields:][:criteoFields], testTables)
	}
}

// Several at once make one file.
func TestConvertTogether(t *testing.T) {
	name := writeFile(t, "a.tsv", tsvOf(randomRecords(rand.New(rand.NewPCG(1, 1)), 5000)))
	o := Options{Env: env.Real(), Format: FormatCriteoTSV, Files: []string{name}, RecordDir: t.TempDir()}
	var wg sync.WaitGroup
	made := make([]bool, 4)
	for i := range made {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := Convert(o, "")
			if err != nil || c.Samples != 5000 {
				t.Errorf("%+v, %v", c, err)
				return
			}
			made[i] = c.Made
		}()
	}
	wg.Wait()
	if n := len(slices.DeleteFunc(made, func(m bool) bool { return !m })); n != 1 {
		t.Errorf("%d of 4 made the file", n)
	}
}

// Bad input leaves no new file behind.
func TestConvertOfBadInputLeavesNothing(t *testing.T) {
	csv := CSV{Label: "label", Dense: []string{"a"}, Categorical: []string{"c"}}
	for _, text := range []string{"label,a,c\n0,1,x\n2,2,y\n", "label,a,c\n3,1,x\n", "label,b,c\n0,1,x\n"} {
		for _, skip := range []bool{false, true} {
			o := Options{Env: env.Real(), Format: FormatCSV, CSV: csv, SkipBad: skip, Files: []string{writeFile(t, "a.csv", []byte(text))}}
			dir := t.TempDir()
			_, err := Convert(o, filepath.Join(dir, "new", "er", "a.rec"))
			if skip && err == nil {
				continue // the first text has a sample
			}
			if !errors.Is(err, ErrInput) {
				t.Fatalf("%q: %v", text, err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("%q leaves %v, %v", text, left, err)
			}
		}
	}
}

// A process that waits for the conversion of another can be stopped.
func TestConvertStopsWaiting(t *testing.T) {
	to := filepath.Join(t.TempDir(), "a.rec")
	other, err := os.Create(to + ".part")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	o := Options{Env: env.Real(), Format: FormatCSV, CSV: CSV{Label: "label", Dense: []string{"a"}, Categorical: []string{"c"}},
		Files: []string{writeFile(t, "a.csv", []byte("label,a,c\n0,1,x\n"))}, Progress: func(Progress) error { return stop }}
	if _, err := Convert(o, to); err != stop {
		t.Errorf("got %v", err)
	}
}

func TestTSVBadLines(t *testing.T) {
	good := strings.TrimSuffix(string(tsvOf(randomRecords(rand.New(rand.NewPCG(1, 1)), 1))), "\n")
	with := func(field int, text string) string {
		f := strings.Split(good, "\t")
		f[field-1] = text
		return strings.Join(f, "\t")
	}
	long := strings.Repeat("9", 60)
	for _, c := range []struct{ line, want string }{
		{with(7, "x1"), `field 7 "x1": not an integer`},
		{with(7, "1x"), `field 7 "1x": not an integer`},
		{with(7, "-"), `field 7 "-": not an integer`},
		{with(2, "1.5"), `field 2 "1.5": not an integer`},
		{with(14, "2147483648"), `field 14 "2147483648": not an integer of 32 bits`},
		{with(14, long), `field 14 "` + long[:40] + `": not an integer`},
		{with(1, "2"), `field 1 "2": the label must be 0 or 1`},
		{with(1, "-1"), `field 1 "-1": the label must be 0 or 1`},
		{with(1, ""), `field 1 "": the label must be 0 or 1`},
		{with(15, "g"), `field 15 "g": not a hexadecimal id`},
		{with(40, "0x12"), `field 40 "0x12": not a hexadecimal id`},
		{with(20, "123456789"), `field 20 "123456789": not a hexadecimal id of at most 8`},
		{"1", "1 fields, not 40"},
		{good + "\t5", "41 fields, not 40"},
		{good[2:], "39 fields, not 40"},
		{" ", "1 fields, not 40"},
	} {
		text := good + "\n\n" + good + "\r\n" + c.line + "\n" + good + "\n"
		o := Options{Env: env.Real(), Format: FormatCriteoTSV, Tables: testTables, RecordDir: t.TempDir(),
			Files: []string{writeFile(t, "bad.tsv", []byte(text))}}
		openFails(t, o, "bad.tsv:4: "+c.want)
		o.SkipBad = true
		s := mustOpen(t, o)
		if s.Len() != 3 || s.Skipped() != 1 {
			t.Errorf("%q: %d samples, %d skipped", c.line, s.Len(), s.Skipped())
		}
		o.SkipBad = false
		openFails(t, o, "bad.tsv:4: "+c.want) // also when a file with the line left out is there
		o.Files = []string{writeFile(t, "end.tsv", []byte(c.line))}
		openFails(t, o, "end.tsv:1: "+c.want)
	}
	o := Options{Env: env.Real(), Format: FormatCriteoTSV, Tables: testTables, RecordDir: t.TempDir(), SkipBad: true}
	openFails(t, o, "no data files")
	o.Files = []string{writeFile(t, "none.tsv", []byte("x\ny\n"))}
	openFails(t, o, "none.tsv", "no well-formed sample", "2 malformed")
	o.Files = []string{writeFile(t, "long.tsv", bytes.Repeat([]byte{'1'}, 3<<20))}
	openFails(t, o, "long.tsv:1:", "a line of more than")
	o.Files = []string{writeFile(t, "empty.tsv", nil)}
	openFails(t, o, "empty.tsv", "empty")
	o.Files = []string{writeFile(t, "a.tsv", []byte(good))}
	o.RecordDir = ""
	openFails(t, o, "no folder")
	o.RecordDir = filepath.Join(o.Files[0], "sub")
	openFails(t, o, "cannot make the folder")
}

func BenchmarkParseTSV(b *testing.B) {
	tables := kaggle(b)
	s, err := newSynthetic(Schema{Dense: criteoDense, Tables: tables}, 1)
	if err != nil {
		b.Fatal(err)
	}
	var records []int32
	for i := range int64(5000) {
		rec := s.record(i)
		for j := 0; j < len(rec); j += 4 {
			x := uint32(rec[j]) | uint32(rec[j+1])<<8 | uint32(rec[j+2])<<16 | uint32(rec[j+3])<<24
			if j >= 4*(1+criteoDense) {
				x = mix32(x) // as the real ids are: 8 digits
			}
			records = append(records, int32(x))
		}
	}
	c := chunk{text: tsvOf(records)}
	b.SetBytes(int64(len(c.text)))
	b.ReportAllocs()
	for range b.N {
		c.records = c.records[:0]
		tsvParser{}.parseChunk(&c, "x")
	}
	if len(c.records) != 5000*criteoBytes || len(c.bad) > 0 {
		b.Fatal("not parsed", len(c.records), c.bad)
	}
}

// plainTSV reads one line the slow way.
func plainTSV(line string) ([]int32, bool) {
	fields := strings.Split(line, "\t")
	rec := make([]int32, len(fields))
	for j, f := range fields {
		var x int64
		var err error
		switch {
		case f == "":
		case j <= criteoDense && !strings.HasPrefix(f, "+") && len(f) < 19:
			x, err = strconv.ParseInt(f, 10, 32)
		case j > criteoDense && len(f) <= 8:
			var u uint64
			u, err = strconv.ParseUint(f, 16, 32)
			x = int64(u)
		default:
			return nil, false
		}
		if err != nil {
			return nil, false
		}
		rec[j] = int32(x)
	}
	return rec, len(fields) == criteoFields && fields[0] != "" && (rec[0] == 0 || rec[0] == 1)
}

// FuzzTSV compares any text with a plain parser: the same samples, and errors for the other lines.
func FuzzTSV(f *testing.F) {
	f.Add(tsvOf(randomRecords(rand.New(rand.NewPCG(1, 1)), 3)))
	f.Add([]byte("1\t\t\n\r\n\t"))
	f.Add(append(bytes.Repeat([]byte{'\t'}, 39), "\n0-1"...))
	f.Fuzz(func(t *testing.T, text []byte) {
		var want []int32
		var bad []int64
		for i, line := range strings.Split(string(text), "\n") {
			line = strings.TrimSuffix(line, "\r")
			if rec, ok := plainTSV(line); ok {
				want = append(want, rec...)
			} else if line != "" {
				bad = append(bad, int64(i+1))
			}
		}
		c := chunk{text: text, at: place{line: 1}}
		tsvParser{}.parseChunk(&c, "x")
		if !bytes.Equal(c.records, recordBytesOf(want)) {
			t.Fatalf("records % x, want %d", c.records, want)
		}
		var lines []int64
		for _, e := range c.bad {
			lines = append(lines, e.Line)
		}
		if !slices.Equal(lines, bad) {
			t.Fatalf("bad lines %d, want %d", lines, bad)
		}
	})
}
