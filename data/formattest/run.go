package formattest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
)

// Sample is a sample as a file holds it.
type Sample struct {
	Label int32
	Dense []int32
	IDs   []uint32
	Bad   bool // malformed in some way
}

// Suite is a format that reads files, with a way to write them, or an Endless format.
type Suite struct {
	// Options name the format, the tables and the columns. Run sets the rest.
	Options data.Options
	// Write writes samples as a file. nil for an Endless format.
	Write func(t *testing.T, path string, samples []Sample)
	// Ending is that of the names of its files, if they must have one. An error may name a file with another ending.
	Ending string
	// Line is the line of sample i, counted from 0; nil for files without lines.
	Line func(i int) int64
	// NeverBad is set if no sample of a file can be malformed.
	NeverBad bool
}

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	format, ok := data.FindFormat(s.Options.Format)
	if !ok {
		t.Fatalf("no format %q in data.Formats", s.Options.Format)
	}
	t.Run("Entry", func(t *testing.T) { s.testEntry(t, format) })
	t.Run("Slices", s.testSlices)
	if format.Endless {
		return
	}
	t.Run("Values", s.testValues)
	t.Run("Files", s.testFiles)
	t.Run("BoundedReads", s.testBoundedReads)
	t.Run("CutShort", s.testCutShort)
	t.Run("NoFile", s.testNoFile)
	if !s.NeverBad {
		t.Run("BadSamples", s.testBadSamples)
	}
}

// testEntry checks the entry of the registry.
func (s Suite) testEntry(t *testing.T, f *data.Format) {
	if f.Name == "" || f.Doc == "" || f.Columns == nil {
		t.Errorf("the entry has no name, no doc or no columns: %+v", f)
	}
	if f.Endless != (len(f.Endings) == 0) {
		t.Errorf("endless: %t, and the endings of its files are %q", f.Endless, f.Endings)
	}
	dense, categorical := f.Columns(s.Options.CSV)
	if dense < 0 {
		t.Errorf("%d columns of numbers: the model needs their number before a file is opened", dense)
	}
	if categorical != data.Any && categorical != len(s.Options.Tables) {
		t.Errorf("%d categorical columns for %d tables", categorical, len(s.Options.Tables))
	}
	if categorical == data.Any && f.Open == nil {
		t.Error("a format of text has data.Any categories: the layout of its records needs their number")
	}
	if f.Check != nil {
		if err := f.Check(&s.Options); err != nil {
			t.Errorf("the suite's settings are refused: %v", err)
		}
	}
}

// random draws samples that fit the format's columns.
func (s Suite) random(n int) []Sample {
	r, format := rand.New(rand.NewPCG(1, uint64(n))), s.Options.Format
	f, _ := data.FindFormat(format)
	dense, _ := f.Columns(s.Options.CSV)
	samples := make([]Sample, n)
	for i := range samples {
		x := Sample{Label: r.Int32N(2), Dense: make([]int32, dense), IDs: make([]uint32, len(s.Options.Tables))}
		for j := range x.Dense {
			x.Dense[j] = r.Int32N(1000) - 20
		}
		for j := range x.IDs {
			x.IDs[j] = r.Uint32N(1 + r.Uint32N(1<<20))
		}
		samples[i] = x
	}
	return samples
}

// write writes samples to a new folder.
func (s Suite) write(t *testing.T, samples []Sample) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "samples"+s.Ending)
	s.Write(t, path, samples)
	return path
}

// open opens files. The caller closes the source.
func (s Suite) open(t *testing.T, skipBad bool, files ...string) (data.Source, error) {
	t.Helper()
	o := s.Options
	o.Env, o.Files, o.SkipBad, o.RecordDir, o.Threads = env.Real(), files, skipBad, t.TempDir(), 2
	return data.Open(o)
}

// mustOpen opens files of well-formed samples until the test ends.
func (s Suite) mustOpen(t *testing.T, files ...string) data.Source {
	t.Helper()
	src, err := s.open(t, false, files...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { src.Close() })
	return src
}

// read reads samples by index.
func read(t *testing.T, src data.Source, idx []int64) *data.Batch {
	t.Helper()
	b := new(data.Batch)
	if err := src.Read(b, idx); err != nil {
		t.Fatal(err)
	}
	return b
}

// upTo is 0, 1, ..., n-1.
func upTo(n int64) []int64 {
	idx := make([]int64, n)
	for i := range idx {
		idx[i] = int64(i)
	}
	return idx
}

// sameSample reports whether sample i of a is sample k of b, bit by bit.
func sameSample(a *data.Batch, i int, b *data.Batch, k int) bool {
	dense, ids := len(a.Dense)/a.N, len(a.IDs)/a.N
	return a.Labels[i] == b.Labels[k] && slices.Equal(a.Dense[i*dense:(i+1)*dense], b.Dense[k*dense:(k+1)*dense]) &&
		slices.Equal(a.IDs[i*ids:(i+1)*ids], b.IDs[k*ids:(k+1)*ids])
}

// testSlices compares the slices of steps with sequential reading: in any order, from
// several goroutines, and without allocating.
func (s Suite) testSlices(t *testing.T) {
	const n = 3000
	var src data.Source
	if s.Write == nil {
		src = s.mustOpen(t)
	} else {
		src = s.mustOpen(t, s.write(t, s.random(n)))
	}
	all := read(t, src, upTo(n))
	order := data.Order{Samples: n, Batch: 70, Shuffle: true, Seed: 9}
	var wait sync.WaitGroup
	for rank := range 3 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			var b data.Batch
			for _, step := range []int64{5, 1, 100, 43, 2} {
				idx := order.Slice(step, rank, 3, nil)
				if err := src.Read(&b, idx); err != nil {
					t.Errorf("step %d: %v", step, err)
					return
				}
				for i, at := range idx {
					if !sameSample(&b, i, all, int(at)) {
						t.Errorf("step %d, rank %d: sample %d is not what sequential reading gives", step, rank, at)
						return
					}
				}
			}
		}()
	}
	wait.Wait()
	var b data.Batch
	idx := order.Slice(7, 0, 1, nil)
	if allocs := testing.AllocsPerRun(20, func() { _ = src.Read(&b, idx) }); allocs > 0 {
		t.Errorf("%v allocations to read a batch", allocs)
	}
}

// testValues checks that labels and numbers are those written, that ids are below the
// rows of their tables, and that equal ids stay equal.
func (s Suite) testValues(t *testing.T) {
	samples := s.random(500)
	src := s.mustOpen(t, s.write(t, samples))
	if src.Len() != int64(len(samples)) || src.Skipped() != 0 {
		t.Fatalf("%d samples and %d skipped, want %d and 0", src.Len(), src.Skipped(), len(samples))
	}
	b := read(t, src, upTo(src.Len()))
	seen := map[string]uint32{}
	for i, x := range samples {
		if b.Labels[i] != float32(x.Label) {
			t.Fatalf("sample %d has the label %v, want %d", i, b.Labels[i], x.Label)
		}
		for j, v := range x.Dense {
			got, want := float64(b.Dense[i*len(x.Dense)+j]), math.Log1p(float64(max(v, 0)))
			if math.Abs(got-want) > 1e-6*(1+want) {
				t.Fatalf("sample %d, number %d: %d becomes %v, want %v", i, j, v, got, want)
			}
		}
		for j, id := range x.IDs {
			got, key := b.IDs[i*len(x.IDs)+j], fmt.Sprint(j, " ", id)
			if int64(got) >= s.Options.Tables[j] {
				t.Fatalf("sample %d, table %d: id %d of %d rows", i, j, got, s.Options.Tables[j])
			}
			if before, ok := seen[key]; ok && got != before {
				t.Fatalf("sample %d, table %d: id %d becomes %d, before %d", i, j, id, got, before)
			}
			seen[key] = got
		}
	}
}

// testFiles checks that several files read as one, and that a second opening gives the
// same samples.
func (s Suite) testFiles(t *testing.T) {
	samples := s.random(300)
	one := read(t, s.mustOpen(t, s.write(t, samples)), upTo(300))
	first, second := s.write(t, samples[:120]), s.write(t, samples[120:])
	o := s.Options
	o.Env, o.Files, o.RecordDir = env.Real(), []string{first, second}, t.TempDir()
	for range 2 {
		src, err := data.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		parts := read(t, src, upTo(300))
		for i := range samples {
			if !sameSample(one, i, parts, i) {
				t.Fatalf("sample %d differs between one file and two", i)
			}
		}
		src.Close()
	}
}

// testCutShort checks that a file that ends early gives an error that names it, or its
// first samples; the last of these may be a part of a sample.
func (s Suite) testCutShort(t *testing.T) {
	samples := s.random(60)
	path := s.write(t, samples)
	all := read(t, s.mustOpen(t, path), upTo(60))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	short := s.write(t, samples)
	for cut := 1; cut < len(content); cut += 1 + len(content)/97 {
		if err := os.WriteFile(short, content[:cut], 0o666); err != nil {
			t.Fatal(err)
		}
		src, err := s.open(t, false, short)
		if err != nil {
			s.checkError(t, fmt.Sprintf("%d of %d bytes", cut, len(content)), err, short)
			continue
		}
		n := src.Len()
		if b := read(t, src, upTo(n)); n > 60 {
			t.Errorf("%d of %d bytes hold %d samples of 60", cut, len(content), n)
		} else {
			for i := range int(n) - 1 {
				if !sameSample(b, i, all, i) {
					t.Errorf("%d of %d bytes: sample %d is not the file's", cut, len(content), i)
				}
			}
		}
		src.Close()
	}
}

// testNoFile opens an empty file, a missing one and a folder.
func (s Suite) testNoFile(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{empty, filepath.Join(dir, "missing"), dir} {
		src, err := s.open(t, true, name)
		if err == nil {
			src.Close()
			t.Errorf("%s is opened", name)
			continue
		}
		s.checkError(t, filepath.Base(name), err, name)
	}
}

// testBadSamples checks that on_error = "fail" names the file and the line of the first
// malformed sample, and that "skip" leaves those out and counts them.
func (s Suite) testBadSamples(t *testing.T) {
	samples := s.random(200)
	good := read(t, s.mustOpen(t, s.write(t, samples)), upTo(200))
	bad := []int{17, 90, 199}
	for _, i := range bad {
		samples[i].Bad = true
	}
	path := s.write(t, samples)
	src, err := s.open(t, false, path)
	if err == nil {
		src.Close()
		t.Error("malformed samples are accepted")
	} else {
		s.checkError(t, "a malformed sample", err, path)
		var at *data.Error
		if s.Line != nil && (!errors.As(err, &at) || at.Line != s.Line(bad[0])) {
			t.Errorf("%v: it does not name line %d", err, s.Line(bad[0]))
		}
	}
	if src, err = s.open(t, true, path); err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if src.Len() != 200-int64(len(bad)) || src.Skipped() != int64(len(bad)) {
		t.Fatalf("%d samples, %d skipped; want %d and %d", src.Len(), src.Skipped(), 200-len(bad), len(bad))
	}
	left, k := read(t, src, upTo(src.Len())), 0
	for i := range samples {
		if samples[i].Bad {
			continue
		}
		if !sameSample(left, k, good, i) {
			t.Fatalf("with malformed samples left out, sample %d is not sample %d of the file", k, i)
		}
		k++
	}
}

// checkError checks that an error is one of input and names a file.
func (s Suite) checkError(t *testing.T, what string, err error, file string) {
	t.Helper()
	if !errors.Is(err, data.ErrInput) || !strings.Contains(err.Error(), strings.TrimSuffix(file, s.Ending)) {
		t.Errorf("%s: the error %q is no data.ErrInput, or does not name %s", what, err, file)
	}
}
