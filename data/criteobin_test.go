package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// testTables are 26 tables of any size.
var testTables = func() []int64 {
	t := make([]int64, criteoTables)
	for i := range t {
		t[i] = []int64{1, 2, 3, 50, 1000, 10131227, maxRows}[i%7]
	}
	return t
}()

// randomRecords are n well-formed criteo-bin records.
func randomRecords(rnd *rand.Rand, n int) []int32 {
	r := make([]int32, n*criteoFields)
	for i := range n {
		rec := r[i*criteoFields:][:criteoFields]
		rec[0] = rnd.Int32N(2)
		for j := 1; j < criteoFields; j++ {
			rec[j] = int32(rnd.Uint32()) >> rnd.IntN(32)
		}
	}
	return r
}

func recordBytesOf(r []int32) []byte {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, r); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func writeFile(t testing.TB, name string, b []byte) string {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.TempDir(), name)
	}
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

func mustOpen(t testing.TB, o Options) Source {
	t.Helper()
	if o.Env == nil {
		o.Env = env.Real()
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openFails checks that Open refuses, as bad input, with all the words given.
func openFails(t *testing.T, o Options, words ...string) {
	t.Helper()
	if o.Env == nil {
		o.Env = env.Real()
	}
	s, err := Open(o)
	if err == nil {
		s.Close()
		t.Errorf("no error; want one with %q", words)
		return
	}
	checkError(t, err, words...)
}

func checkError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want one with %q", words)
		return
	}
	if !errors.Is(err, ErrInput) {
		t.Errorf("%q is not ErrInput", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// checkCriteo compares sample i of b with a record.
func checkCriteo(t *testing.T, b *Batch, i int, rec []int32, tables []int64) {
	t.Helper()
	if b.Labels[i] != float32(rec[0]) {
		t.Fatalf("sample %d: label %v, want %d", i, b.Labels[i], rec[0])
	}
	for j, x := range rec[1 : 1+criteoDense] {
		want := float32(math.Log1p(max(float64(x), 0)))
		if got := b.Dense[i*criteoDense+j]; math.Abs(float64(got-want)) > 2e-6 {
			t.Fatalf("sample %d: dense %d is %v, want %v", i, j, got, want)
		}
	}
	for j, x := range rec[1+criteoDense:] {
		if got := b.IDs[i*criteoTables+j]; int64(got) != int64(uint32(x))%tables[j] {
			t.Fatalf("sample %d: id %d is %d of %d rows, from %d", i, j, got, tables[j], uint32(x))
		}
	}
}

func TestCriteoBin(t *testing.T) {
	rnd := random(t)
	records := randomRecords(rnd, 20_000)
	raw := recordBytesOf(records)
	cut := []int{0, 1, 4097, 12_000, 20_000}
	var files []string
	for i := range cut[1:] {
		files = append(files, writeFile(t, "part.bin", raw[cut[i]*criteoBytes:cut[i+1]*criteoBytes]))
	}
	s := mustOpen(t, Options{Format: FormatCriteoBin, Files: files, Tables: testTables})
	if s.Len() != 20_000 {
		t.Fatalf("Len is %d", s.Len())
	}
	idx := map[string][]int64{"none": nil, "last": {19_999}, "repeated": {5, 5, 5, 0}}
	for i := range int64(20_000) {
		idx["all"] = append(idx["all"], i)
	}
	for range 3000 {
		idx["random"] = append(idx["random"], rnd.Int64N(20_000))
		idx["near"] = append(idx["near"], 9000+rnd.Int64N(3000))
	}
	var b Batch
	for name, idx := range idx {
		t.Run(name, func(t *testing.T) {
			if err := s.Read(&b, idx); err != nil {
				t.Fatal(err)
			}
			if b.N != len(idx) || len(b.Labels) != b.N || len(b.Dense) != b.N*13 || len(b.IDs) != b.N*26 {
				t.Fatalf("sizes %d %d %d %d", b.N, len(b.Labels), len(b.Dense), len(b.IDs))
			}
			for i, p := range idx {
				checkCriteo(t, &b, i, records[p*criteoFields:][:criteoFields], testTables)
			}
			if n := testing.AllocsPerRun(3, func() { s.Read(&b, idx) }); n != 0 {
				t.Errorf("%v allocations per Read", n)
			}
		})
	}
	for _, i := range []int64{-1, 20_000} {
		checkError(t, s.Read(&b, []int64{0, i}), "there are 20000")
	}
}

func TestCriteoBinBadInput(t *testing.T) {
	records := randomRecords(rand.New(rand.NewPCG(1, 1)), 10)
	good := recordBytesOf(records)
	tables := Options{Format: FormatCriteoBin, Tables: testTables}
	with := func(files ...string) Options { o := tables; o.Files = files; return o }

	openFails(t, with(), "no data files")
	openFails(t, with(filepath.Join(t.TempDir(), "absent.bin")), "absent.bin", "no such file")
	openFails(t, with(writeFile(t, "empty.bin", nil)), "empty.bin", "empty")
	openFails(t, with(t.TempDir()), "not a regular file")
	openFails(t, with(writeFile(t, "a.bin", good), writeFile(t, "cut.bin", good[:len(good)-1])), "cut.bin", "1599 bytes", "160")
	o := with(writeFile(t, "a.bin", good))
	o.Tables = testTables[:25]
	openFails(t, o, "26", "25")
	o.Tables = slices.Clone(testTables)
	o.Tables[3] = 0
	openFails(t, o, "table 3", "0 rows")
	o.Tables, o.Format = testTables, "criteo-bim"
	openFails(t, o, "criteo-bim", "criteo-bin")

	// A file that shrinks while it is in use.
	name := writeFile(t, "shrinks.bin", good)
	s := mustOpen(t, with(name))
	if err := os.Truncate(name, 200); err != nil {
		t.Fatal(err)
	}
	checkError(t, s.Read(new(Batch), []int64{0, 1, 2}), "shrinks.bin", "shorter")
}

func TestCriteoBinBadLabels(t *testing.T) {
	records := randomRecords(rand.New(rand.NewPCG(1, 1)), 9000)
	bad := []int{0, 1, 4095, 5000, 8999}
	for _, i := range bad {
		records[i*criteoFields] = int32(-i - 1)
	}
	raw := recordBytesOf(records)
	o := Options{Format: FormatCriteoBin, Tables: testTables,
		Files: []string{writeFile(t, "a.bin", raw[:4096*criteoBytes]), writeFile(t, "b.bin", raw[4096*criteoBytes:])}}
	openFails(t, o, "a.bin", "record 1:", "label")

	// Beyond the records that Open looks at, and when a file changes in use, Read
	// finds them.
	sound := o
	sound.Files = []string{writeFile(t, "a.bin", make([]byte, 4096*criteoBytes)),
		writeFile(t, "b.bin", make([]byte, len(raw)-4096*criteoBytes))}
	s := mustOpen(t, sound)
	writeFile(t, sound.Files[1], raw[4096*criteoBytes:])
	checkError(t, s.Read(new(Batch), []int64{4999, 5000, 5001}), "b.bin", "record 905:", "label")
	large := &fixed{env: env.Real(), files: s.(*fixed).files, fileSamples: fileSamples{samples: 9000}}
	if err := large.eachBad(&o, 904, large.badLabel); err != nil {
		t.Errorf("904 records of each file: %v", err)
	}
	checkError(t, large.eachBad(&o, 905, large.badLabel), "b.bin", "record 905:")

	o.SkipBad = true
	s = mustOpen(t, o)
	if s.Skipped() != int64(len(bad)) || s.Len() != int64(9000-len(bad)) {
		t.Fatalf("%d skipped, %d left", s.Skipped(), s.Len())
	}
	var b Batch
	if err := s.Read(&b, Order{Samples: s.Len(), Batch: 9000}.Slice(1, 0, 1, nil)); err != nil {
		t.Fatal(err)
	}
	at := 0
	for i := range 9000 {
		if !slices.Contains(bad, i) {
			checkCriteo(t, &b, at, records[i*criteoFields:][:criteoFields], testTables)
			at++
		}
	}
	for i := range records {
		if i%criteoFields == 0 {
			records[i] = 7
		}
	}
	o.Files = []string{writeFile(t, "bad.bin", recordBytesOf(records))}
	openFails(t, o, "none of its 9000")
}

// FuzzCriteoBin: any bytes are samples within their tables or an error, and
// never a panic.
func FuzzCriteoBin(f *testing.F) {
	f.Add(recordBytesOf(randomRecords(rand.New(rand.NewPCG(1, 1)), 3)), true)
	f.Add(make([]byte, 159), false)
	f.Add(make([]byte, 161), false)
	f.Fuzz(func(t *testing.T, raw []byte, skip bool) {
		checkAnyFile(t, Options{Env: env.Real(), Format: FormatCriteoBin, Tables: testTables, SkipBad: skip,
			Files: []string{writeFile(t, "x.bin", raw)}})
	})
}

// checkAnyFile reads all samples of a file that may hold anything.
func checkAnyFile(t *testing.T, o Options) {
	s, err := Open(o)
	if err != nil {
		checkError(t, err)
		return
	}
	defer s.Close()
	var b Batch
	if err := s.Read(&b, Order{Samples: s.Len(), Batch: int(s.Len())}.Slice(1, 0, 1, nil)); err != nil {
		checkError(t, err)
		return
	}
	tables := s.Schema().Tables
	for i, id := range b.IDs {
		if int64(id) >= tables[i%len(tables)] {
			t.Fatalf("id %d of table %d is beyond its %d rows", id, i%len(tables), tables[i%len(tables)])
		}
	}
	for _, x := range b.Dense {
		if !(x >= 0) {
			t.Fatalf("dense value %v", x)
		}
	}
	for _, y := range b.Labels {
		if y != 0 && y != 1 {
			t.Fatalf("label %v", y)
		}
	}
}

func BenchmarkCriteoBin(b *testing.B) {
	const n = 50_000
	records := randomRecords(rand.New(rand.NewPCG(1, 1)), n)
	s := mustOpen(b, Options{Format: FormatCriteoBin, Files: []string{writeFile(b, "a.bin", recordBytesOf(records))}, Tables: testTables})
	for _, shuffle := range []bool{false, true} {
		b.Run(map[bool]string{false: "in order", true: "shuffled"}[shuffle], func(b *testing.B) {
			o := Order{Samples: n, Batch: 2048, Shuffle: shuffle, Seed: 3}
			var batch Batch
			var idx []int64
			total := 0
			for i := range b.N {
				idx = o.Slice(int64(i+1), 0, 2, idx)
				if err := s.Read(&batch, idx); err != nil {
					b.Fatal(err)
				}
				total += len(idx)
			}
			b.ReportMetric(float64(total)/b.Elapsed().Seconds()/1e6, "Msamples/s")
		})
	}
}
