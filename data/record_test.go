package data

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/zeebo/xxh3"
)

// recordFile makes a record file of 5,000 samples in two blocks.
func recordFile(t testing.TB) (Options, []byte, []int32) {
	t.Helper()
	records := randomRecords(rand.New(rand.NewPCG(1, 1)), 5000)
	o := Options{Env: env.Real(), Format: FormatCriteoTSV, Files: []string{writeFile(t, "a.tsv", tsvOf(records))}}
	c, err := Convert(o, filepath.Join(t.TempDir(), "x.rec"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Env: env.Real(), Format: FormatRecord, Files: []string{c.File}, Tables: testTables}, b, records
}

func TestRecordFile(t *testing.T) {
	o, _, records := recordFile(t)
	s := mustOpen(t, o)
	rnd := random(t)
	var wg sync.WaitGroup
	for range 4 { // at once, as the ranks of a process do
		seed := rnd.Uint64()
		wg.Add(1)
		go func() {
			defer wg.Done()
			rnd := rand.New(rand.NewPCG(seed, 0))
			var b Batch
			for range 50 {
				idx := make([]int64, 1+rnd.IntN(50))
				for i := range idx {
					idx[i] = rnd.Int64N(5000)
				}
				if err := s.Read(&b, idx); err != nil {
					t.Error(err)
					return
				}
				for i, p := range idx {
					if id := b.IDs[i*criteoTables+25]; int64(id) != int64(uint32(records[p*criteoFields+39]))%testTables[25] {
						t.Errorf("sample %d: last id %d", p, id)
					}
				}
			}
		}()
	}
	wg.Wait()
	b := readAllOf(t, s)
	for i := range b.N {
		checkCriteo(t, b, i, records[i*criteoFields:][:criteoFields], testTables)
	}
	o.Tables = testTables[:3]
	openFails(t, o, "26 categorical", "3 tables")
}

// The number of dense features must be that of the settings.
func TestRecordFileDense(t *testing.T) {
	o, _, _ := recordFile(t)
	o.CSV = CSV{Dense: []string{"a", "b"}, Categorical: make([]string, len(testTables))}
	openFails(t, o, "x.rec: its samples have 13 dense features, but data.csv.dense names 2; repeat the [data.csv]")
	csv := csvOptions(t, writeFile(t, "a.csv", []byte("y,a,b,name,place,x y\n1,2,3,n,p,x\n")))
	c, err := Convert(csv, "")
	if err != nil {
		t.Fatal(err)
	}
	r := Options{Env: env.Real(), Format: FormatRecord, Files: []string{c.File}, Tables: csv.Tables}
	openFails(t, r, ": its samples have 2 dense features, not Criteo's 13; repeat the [data.csv]")
	r.CSV = csv.CSV
	mustOpen(t, r)
}

func TestRecordFileDamaged(t *testing.T) {
	o, good, _ := recordFile(t)
	rewrite := func(change func(b []byte) []byte) {
		writeFile(t, o.Files[0], change(bytes.Clone(good)))
	}
	sealed := func(change func(h []byte)) func([]byte) []byte {
		return func(b []byte) []byte {
			h := b[:recordHeaderBytes]
			change(h)
			binary.LittleEndian.PutUint64(h[len(h)-8:], xxh3.Hash(h[:len(h)-8]))
			return b
		}
	}
	le := binary.LittleEndian
	for _, c := range []struct {
		want   string
		change func([]byte) []byte
	}{
		{"not a record file", func(b []byte) []byte { b[0]++; return b }},
		{"not a record file", func(b []byte) []byte { return b[:5] }},
		{"cut short within its header", func(b []byte) []byte { return b[:4000] }},
		{"header is damaged", func(b []byte) []byte { b[33]++; return b }},
		{"bytes, its 5000 samples take", func(b []byte) []byte { return b[:len(b)-1] }},
		{"bytes, its 5000 samples take", func(b []byte) []byte { return append(b, 0) }},
		{"version 3, this ecrec reads versions up to 2", sealed(func(h []byte) { le.PutUint32(h[8:], 3) })},
		{"is inconsistent", sealed(func(h []byte) { le.PutUint32(h[8:], 2) })}, // a file without bags
		{"not complete", sealed(func(h []byte) { le.PutUint64(h[32:], 0) })},
		{"is inconsistent", sealed(func(h []byte) { le.PutUint32(h[24:], 161) })},
		{"is inconsistent", sealed(func(h []byte) { le.PutUint64(h[32:], 1<<62) })},
		{"samples take", sealed(func(h []byte) { le.PutUint64(h[32:], 1<<50) })},
	} {
		rewrite(c.change)
		openFails(t, o, "x.rec", c.want)
	}
	// A damaged block is found when it is read, and only then.
	rewrite(func(b []byte) []byte { b[recordHeaderBytes+4096*160+trailerBytes+77]++; return b })
	s := mustOpen(t, o)
	var b Batch
	for range 2 {
		if err := s.Read(&b, []int64{0, 4095}); err != nil {
			t.Error(err)
		}
		checkError(t, s.Read(&b, []int64{4999}), "x.rec", "block 1 (from sample 4096) is damaged")
	}
	// A file under the name of the record file is not overwritten, unless it is a record file.
	writeFile(t, o.Files[0], []byte("precious"))
	_, err := Convert(Options{Env: env.Real(), Format: FormatCriteoTSV, Files: o.Files}, o.Files[0])
	checkError(t, err, "not a record file")
}

func FuzzRecordFile(f *testing.F) {
	o := csvOptions(f, writeFile(f, "a.csv", []byte("y,a,b,name,place,x y\n1,2,3,n,p,x\n0,,,,,\n")))
	csv, err := Convert(o, "")
	if err != nil {
		f.Fatal(err)
	}
	small, err := os.ReadFile(csv.File)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small[:64], small[recordHeaderBytes:], false)
	f.Add(small[:64], small[recordHeaderBytes:], true)
	f.Add([]byte(recordMagic), []byte{}, true)
	f.Fuzz(func(t *testing.T, head, body []byte, seal bool) {
		if seal { // with checksums that hold
			head = append(bytes.Clone(head), make([]byte, recordHeaderBytes)...)[:recordHeaderBytes]
			body = bytes.Clone(body)
			binary.LittleEndian.PutUint64(head[len(head)-8:], xxh3.Hash(head[:len(head)-8]))
			if n := len(body) - 8; n >= 0 {
				binary.LittleEndian.PutUint64(body[n:], xxh3.Hash(body[:n]))
			}
		}
		name := writeFile(t, "x.rec", append(bytes.Clone(head), body...))
		checkAnyFile(t, Options{Env: env.Real(), Format: FormatRecord, Files: []string{name}, Tables: testTables})
		checkAnyFile(t, Options{Env: env.Real(), Format: FormatRecord, Files: []string{name}, Tables: []int64{7, 1000, maxRows}, CSV: o.CSV})
	})
}
