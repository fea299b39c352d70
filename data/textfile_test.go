package data

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ecrec/ecrec/internal/env"
)

// fileOptions opens files with the columns label, a and c.
func fileOptions(t testing.TB, files ...string) Options {
	return Options{Env: env.Real(), Format: FormatCSV, Tables: []int64{9}, Files: files, RecordDir: t.TempDir(), Threads: 2,
		CSV: CSV{Label: "label", Dense: []string{"a"}, Categorical: []string{"c"}}}
}

// gzipOf compresses each part as a member.
func gzipOf(t testing.TB, parts ...[]byte) string {
	t.Helper()
	var out bytes.Buffer
	for _, part := range parts {
		w, _ := gzip.NewWriterLevel(&out, 1)
		w.Write(part)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// zstdOf compresses each part as a frame, with a skippable frame before each.
func zstdOf(t testing.TB, parts ...[]byte) string {
	t.Helper()
	var out bytes.Buffer
	for _, part := range parts {
		out.WriteString("\x50\x2a\x4d\x18\x03\x00\x00\x00abc")
		w, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w.Write(part)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// Compressed text gives the samples of the text, in one stream or several, and errors count its lines.
func TestCompressedText(t *testing.T) {
	rnd := random(t)
	records := randomRecords(rnd, 20_000) // about 5 MB: several blocks
	text := tsvOf(records)
	a, b := len(text)/3, len(text)*3/4
	want := readAllOf(t, mustOpen(t, Options{Format: FormatCriteoTSV, Tables: testTables, RecordDir: t.TempDir(),
		Files: []string{writeFile(t, "plain", text)}}))
	bad := slices.Concat(text, []byte("\nx\n"))
	for name, pack := range map[string]func(testing.TB, ...[]byte) string{"gzip": gzipOf, "zstd": zstdOf} {
		only := rnd.IntN(2) // in short tests
		for i, parts := range [][][]byte{{text}, {text[:a], nil, text[a:b], text[b:]}} {
			if testing.Short() && i != only {
				continue
			}
			o := Options{Env: env.Real(), Format: FormatCriteoTSV, Tables: testTables, RecordDir: t.TempDir(), Threads: 2,
				Files: []string{writeFile(t, "day", []byte(pack(t, parts...)))}}
			var done, total int64
			o.Progress = func(p Progress) error {
				if p.Done < done || p.Done > p.Total {
					t.Errorf("%s: progress %d after %d, of %d", name, p.Done, done, p.Total)
				}
				done, total = p.Done, p.Total
				return nil
			}
			got := readAllOf(t, mustOpen(t, o))
			if !slices.Equal(got.IDs, want.IDs) || !slices.Equal(got.Dense, want.Dense) || !slices.Equal(got.Labels, want.Labels) {
				t.Errorf("%s in %d parts: the samples differ", name, len(parts))
			}
			if st, _ := os.Stat(o.Files[0]); total != st.Size() || done != total {
				t.Errorf("%s: progress ends at %d of %d, the file has %d bytes", name, done, total, st.Size())
			}
		}
		openFails(t, Options{Format: FormatCriteoTSV, Tables: testTables, RecordDir: t.TempDir(),
			Files: []string{writeFile(t, "day", []byte(pack(t, bad)))}}, "day:20002: 1 fields, not 40")
	}
}

// A conversion of compressed files that is stopped resumes, within the right file.
func TestCompressedTextResumes(t *testing.T) {
	rnd := random(t)
	text := tsvOf(randomRecords(rnd, 20_000))
	half := bytes.IndexByte(text[len(text)/2:], '\n') + len(text)/2 + 1
	o := Options{Env: env.Real(), Format: FormatCriteoTSV, Threads: 2,
		Files: []string{writeFile(t, "day_0", []byte(gzipOf(t, text[:half]))), writeFile(t, "day_1", []byte(zstdOf(t, text[half:])))}}
	whole, err := Convert(o, filepath.Join(t.TempDir(), "whole.rec"))
	if err != nil {
		t.Fatal(err)
	}
	to, stop := filepath.Join(t.TempDir(), "parts.rec"), errors.New("stop")
	var begun []int64
	for len(begun) < 30 {
		budget, first := 3, int64(-1)
		o.Progress = func(p Progress) error {
			if first < 0 {
				first = p.Done
			}
			if budget--; budget == 0 {
				return stop
			}
			return nil
		}
		_, err := Convert(o, to)
		begun = append(begun, first)
		if err == nil {
			break
		}
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
	}
	if len(begun) < 3 || !slices.IsSorted(begun) || begun[len(begun)-1] == begun[0] {
		t.Errorf("the runs began at %d", begun)
	}
	open := func(name string) *Batch {
		return readAllOf(t, mustOpen(t, Options{Format: FormatRecord, Files: []string{name}, Tables: testTables}))
	}
	a, b := open(whole.File), open(to)
	if !slices.Equal(a.IDs, b.IDs) || !slices.Equal(a.Dense, b.Dense) || !slices.Equal(a.Labels, b.Labels) {
		t.Error("the samples differ")
	}
}

// Text is skipped up to the place of an earlier conversion, however far it is.
func TestSkipCompressedText(t *testing.T) {
	line := []byte("0,1,x\n")
	const lines = skipBytes/6 + 2_000_000
	text := append([]byte("label,a,c\n"), bytes.Repeat(line, lines)...)
	e := env.Real()
	o := fileOptions(t, writeFile(t, "a.csv.gz", []byte(gzipOf(t, text))))
	format, err := newCSV(o.CSV)
	if err != nil {
		t.Fatal(err)
	}
	at := place{offset: int64(len(text) - 5*len(line)), line: lines - 3}
	r := &lineReader{env: e, name: o.Format, files: o.Files, format: format, next: at}
	defer r.closeFile()
	var c chunk
	for empty := 0; ; empty++ {
		more, err := r.fillChunk(&c)
		if err != nil || !more {
			t.Fatalf("%t, %v", more, err)
		}
		if c.at != at {
			t.Fatalf("a chunk at %+v, want %+v", c.at, at)
		}
		if len(c.text) == 0 {
			continue
		}
		if string(c.text) != strings.Repeat(string(line), 5) || empty != 1 {
			t.Errorf("%q after %d empty chunks", c.text, empty)
		}
		break
	}
	r.closeFile()
	r = &lineReader{env: e, name: o.Format, files: o.Files, format: format, next: place{offset: int64(len(text)) + 1}}
	defer r.closeFile()
	for err = nil; err == nil; {
		_, err = r.fillChunk(&c)
	}
	checkError(t, err, "a.csv.gz", "ends 1 bytes before the place where an earlier conversion stopped")
}

// A stream that is cut or damaged is an error that names the file and the place.
func TestDamagedStreams(t *testing.T) {
	rnd := random(t)
	text := tsvOf(randomRecords(rnd, 500))
	for name, packed := range map[string]string{"gzip": gzipOf(t, text), "zstd": zstdOf(t, text)} {
		open := func(content string, words ...string) {
			t.Helper()
			openFails(t, Options{Format: FormatCriteoTSV, Tables: testTables, RecordDir: t.TempDir(),
				Files: []string{writeFile(t, "day.z", []byte(content))}}, append(words, "day.z: it is "+name)...)
		}
		for range 8 {
			cut := 30 + rnd.IntN(len(packed)-31)
			open(packed[:cut], "and ends within a stream, at byte ", "copy the file again")
		}
		middle := len(packed) / 2
		open(packed[:middle]+strings.Repeat("\xa5", 64)+packed[middle+64:], "and damaged near byte ", "copy the file again")
		open(packed+"no stream", "copy the file again")
	}
}

// A gzip file of members with names is cut at every byte. Only the cut between the members is a whole text.
func TestGzipIsCutAnywhere(t *testing.T) {
	var packed bytes.Buffer
	first := 0
	for _, part := range []string{"0,1\n", "1,2\n"} {
		first = packed.Len()
		w := gzip.NewWriter(&packed)
		w.Name, w.Comment, w.Extra = "a-name.csv", "a comment", []byte("extra")
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for cut := 10; cut <= packed.Len(); cut++ {
		name := writeFile(t, "a.gz", packed.Bytes()[:cut])
		text, err := openTextFile(env.Real(), name)
		for buf := make([]byte, 100); err == nil && text.textLeft() > 0; {
			_, err = text.readText(buf)
		}
		if text != nil {
			text.closeFile()
		}
		if whole := cut == first || cut == packed.Len(); (err == nil) != whole || err != nil && !strings.Contains(err.Error(), "ends within a stream") {
			t.Errorf("cut to %d of %d bytes, the second member from %d: %v", cut, packed.Len(), first, err)
		}
	}
}

// FuzzUnpack reads any bytes behind the magics of compressed files: the text is that of the plain
// decompressor, or there is an error of the input.
func FuzzUnpack(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	text := make([]byte, 3000)
	for i := range text {
		text[i] = byte(r.Uint32N(3))
	}
	f.Add([]byte(gzipOf(f, text[:100], text)))
	f.Add([]byte(zstdOf(f, text[:100], text)))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x88"))
	f.Fuzz(func(t *testing.T, content []byte) {
		kind := sniff(content)
		if kind == nil || kind.unpack == nil {
			t.Skip()
		}
		name := writeFile(t, "x", content)
		text, err := openTextFile(env.Real(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer text.closeFile()
		var got []byte
		buf := make([]byte, 700)
		for text.textLeft() > 0 {
			n, err := text.readText(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), name) {
					t.Fatalf("the error %q is no ErrInput, or does not name the file", err)
				}
				return
			}
			if len(got) > 8<<20 {
				t.Skip()
			}
		}
		want := []byte(nil)
		if kind.is == "gzip" {
			r, err := gzip.NewReader(bytes.NewReader(content))
			if err == nil {
				want, err = io.ReadAll(r)
			}
			if err != nil {
				t.Fatalf("there is no error, but one of the decompressor: %v", err)
			}
		} else {
			r, err := zstd.NewReader(bytes.NewReader(content), zstd.WithDecoderConcurrency(1))
			if err == nil {
				defer r.Close()
				want, err = io.ReadAll(r)
			}
			if err != nil {
				t.Fatalf("there is no error, but one of the decompressor: %v", err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes of text, want %d", len(got), len(want))
		}
	})
}
