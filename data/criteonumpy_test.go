package data

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/data/numpytest"
	"github.com/ecrec/ecrec/internal/env"
)

// randomDay draws samples with some ids for each feature.
func randomDay(r *rand.Rand, n int, hots []int) *numpytest.Day {
	d := &numpytest.Day{IDs: make([][][]int64, len(hots))}
	for range n {
		numbers := make([]float32, criteoDense)
		for j := range numbers {
			numbers[j] = r.Float32()*9 - 2
		}
		d.Numbers, d.Labels = append(d.Numbers, numbers), append(d.Labels, float64(r.IntN(2)))
		for f, hot := range hots {
			bag := make([]int64, hot)
			for p := range bag {
				bag[p] = int64(r.Int32N(1 << r.IntN(31)))
			}
			d.IDs[f] = append(d.IDs[f], bag)
		}
	}
	return d
}

// checkDay compares sample i of b with sample k of the day.
func checkDay(t *testing.T, d *numpytest.Day, b *Batch, i, k int, rows []int64) {
	t.Helper()
	if b.Labels[i] != float32(d.Labels[k]) || !slices.Equal(b.Dense[i*criteoDense:][:criteoDense], d.Numbers[k]) {
		t.Fatalf("sample %d: label %v, numbers %v; want %v and %v", k, b.Labels[i], b.Dense[i*criteoDense:][:criteoDense], d.Labels[k], d.Numbers[k])
	}
	for f := range rows {
		cell := i*len(rows) + f
		ids := b.IDs[cell:][:1]
		if b.Offsets != nil {
			ids = b.IDs[b.Offsets[cell]:b.Offsets[cell+1]]
		}
		var want []uint32
		for _, id := range d.IDs[f][k] {
			want = append(want, uint32(id%rows[f]))
		}
		if !slices.Equal(ids, want) {
			t.Fatalf("sample %d, feature %d: ids %d, want %d", k, f, ids, want)
		}
	}
}

var numpyTables = []int64{7, 1 << 31, 3, 1000}

func numpyOptions(t *testing.T, files ...string) Options {
	return Options{Env: env.Real(), Format: FormatCriteoNumPy, Files: files, Tables: numpyTables, RecordDir: t.TempDir(), Threads: 2}
}

// Days of all types and numbers of ids are read at any positions, and converted to record files of the same samples.
func TestCriteoNumPy(t *testing.T) {
	rnd := random(t)
	for _, c := range []struct {
		name, ending, ids, labels string
		hots                      []int
	}{
		{"several ids", multiHotEnding, "<i4", "<i4", []int{3, 1, 2, 5}},
		{"wide", multiHotEnding, "<i8", "<i8", []int{1, 1, 100, 1}},
		{"one id", multiHotEnding, "<i4", "<f4", []int{1, 1, 1, 1}},
		{"matrix", oneHotEnding, "<i4", "<i4", []int{1, 1, 1, 1}},
		{"wide matrix", oneHotEnding, "<i8", "<f4", []int{1, 1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			sizes := []int{2*shuffleBlock + 7, 1, 3000}
			var all numpytest.Day
			all.IDs = make([][][]int64, len(c.hots))
			for i, n := range sizes {
				d := randomDay(rnd, n, c.hots)
				d.IDType, d.LabelType = c.ids, c.labels
				if c.ids == "<i8" {
					d.IDs[1][0][0] = 1<<40 + 5
				}
				d.Write(t, filepath.Join(dir, fmt.Sprint("day_", i, c.ending)))
				all.Numbers, all.Labels = append(all.Numbers, d.Numbers...), append(all.Labels, d.Labels...)
				for f := range d.IDs {
					all.IDs[f] = append(all.IDs[f], d.IDs[f]...)
				}
			}
			o := numpyOptions(t, filepath.Join(dir, "*"+c.ending))
			s := mustOpen(t, o)
			n := int64(len(all.Labels))
			if s.Len() != n || s.Schema().Dense != criteoDense {
				t.Fatalf("%d samples of %+v, want %d", s.Len(), s.Schema(), n)
			}
			to := filepath.Join(o.RecordDir, "to.rec")
			if made, err := Convert(o, to); err != nil || made.Samples != n {
				t.Fatalf("%+v, %v", made, err)
			}
			o.Format, o.Files = FormatRecord, []string{to}
			record := mustOpen(t, o)
			if a, b := s.Schema(), record.Schema(); a.IDsPerSample() != b.IDsPerSample() {
				t.Errorf("%v ids in a sample, %v in the record file", a.IDsPerSample(), b.IDsPerSample())
			}
			var a, b Batch
			for round := range 30 {
				idx := make([]int64, 1+rnd.IntN(300))
				for i := range idx {
					switch idx[i] = rnd.Int64N(n); {
					case round%3 == 1:
						idx[i] = (idx[0] + int64(i)) % n
					case round%3 == 2:
						idx[i] = min(n-1, idx[0]+rnd.Int64N(500))
					}
				}
				if err := s.Read(&a, idx); err != nil {
					t.Fatal(err)
				}
				if err := record.Read(&b, idx); err != nil {
					t.Fatal(err)
				}
				for i, k := range idx {
					checkDay(t, &all, &a, i, int(k), numpyTables)
				}
				sameBatch(t, "record file", &b, &a)
			}
		})
	}
}

// A day is the same whether its files are named, matched by a pattern or in a folder.
func TestDaysOfNames(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		randomDay(random(t), 5, []int{1, 1, 1, 2}).Write(t, filepath.Join(dir, fmt.Sprint("day_", i, multiHotEnding)))
	}
	var want []string
	for _, day := range []string{"day_0", "day_1"} {
		for _, ending := range []string{multiHotEnding, denseEnding, labelsEnding} {
			want = append(want, filepath.Join(dir, day+ending))
		}
	}
	for _, names := range [][]string{{dir}, {filepath.Join(dir, "day_*")}, {want[0], want[3]}, want} {
		if got, err := ListFiles(env.Real(), names); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q means %q, %v; want %q", names, got, err, want)
		}
		if s := mustOpen(t, numpyOptions(t, names...)); s.Len() != 10 {
			t.Errorf("%q: %d samples", names, s.Len())
		}
	}
	openFails(t, numpyOptions(t, want[1]), "day_0_dense.npy: it is no file of ids; names of those end in _sparse_multi_hot.npz or _sparse.npy")
	if id, err := Identify(env.Real(), want[:1]); err != nil || len(id.Files) != filesOfDay {
		t.Errorf("the identity %v, %v lacks files of the day", id, err)
	}
}

// Arrays that are no samples are refused with the file and the remedy.
func TestCriteoNumPyErrors(t *testing.T) {
	ids := func(f, n, hot int) numpytest.Member {
		return numpytest.Member{Name: fmt.Sprint(f, ".npy"), Content: numpytest.Array(1, "<i4", []int{n, hot}, make([]float64, n*hot))}
	}
	good := []numpytest.Member{ids(0, 4, 2), ids(1, 4, 1), ids(2, 4, 1), ids(3, 4, 1)}
	with := func(m numpytest.Member) []byte { return numpytest.Archive(append(slices.Clone(good[:3]), m)...) }
	array := func(kind string, shape ...int) []byte {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return numpytest.Array(1, kind, shape, make([]float64, n))
	}
	edit := func(text string) []byte { return append(numpytest.Header(1, text), make([]byte, 16)...) }
	fourth := func(content []byte) []byte { return with(numpytest.Member{Name: "3.npy", Content: content}) }
	for _, c := range []struct {
		ending  string
		content []byte
		words   string
	}{
		{multiHotEnding, with(numpytest.Member{Name: "3.npy", Content: good[3].Content, Method: 8}),
			`array "3": it is compressed, and samples are read by position; write the file with numpy.savez`},
		{multiHotEnding, with(numpytest.Member{Name: "3.npy", Content: good[3].Content, Flags: 1}), `array "3": it is encrypted`},
		{multiHotEnding, with(numpytest.Member{Name: "arr_0.npy", Content: good[3].Content}),
			`its 4 arrays are called "0" to "3", one for each categorical feature, and one is "arr_0"`},
		{multiHotEnding, with(numpytest.Member{Name: "2.npy", Content: good[3].Content}), `and one is "2"`},
		{multiHotEnding, with(numpytest.Member{Name: "03.npy", Content: good[3].Content}), `and one is "03"`},
		{multiHotEnding, numpytest.Archive(good[:3]...), `its samples have 3 categorical features, but model.tables names 4 tables`},
		{multiHotEnding, numpytest.Archive(), `it is not npz (NumPy)`},
		{multiHotEnding, numpytest.Archive(good...)[:300], `its directory of arrays is missing or damaged`},
		{multiHotEnding, with(ids(3, 5, 1)), `array "3": it has 5 samples, and`},
		{multiHotEnding, fourth(array("<f8", 4, 1)), `array "3": its type is "<f8", and ids are of type "<i4" or "<i8"; convert them by astype`},
		{multiHotEnding, fourth(array(">i4", 4, 1)), `its type is ">i4"`},
		{multiHotEnding, fourth(array("<i4", 4, 1, 1)), `its shape is [4 1 1], and a row for each sample is needed`},
		{multiHotEnding, fourth(array("<i4", 4, 0)), `its shape is [4 0]: it has no numbers`},
		{multiHotEnding, fourth(numpytest.Array(4, "<i4", []int{4}, make([]float64, 4))), `it has version 4 of NumPy's format`},
		{multiHotEnding, fourth(edit("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 2), }")),
			`stored one after the other (Fortran order); write numpy.ascontiguousarray of it`},
		{multiHotEnding, fourth(edit("{'descr': '<i4', 'fortran_order': False, 'shape': (4000000000000000000, 1), }")),
			`16 bytes for the shape [4000000000000000000 1]`},
		{multiHotEnding, fourth(edit("{'descr': '<i4', 'fortran_order': False, 'shape': (1, 1048577), }")), `of at most 1048576 numbers`},
		{multiHotEnding, fourth(edit("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (4,), }")), `its header is not read`},
		{multiHotEnding, fourth([]byte("text, and no array")), `array "3": it is no array in NumPy's format`},
		{multiHotEnding, fourth(append([]byte(npyMagic), 2, 0, 0xff, 0xff, 0xff, 0x7f)), `a header of 2147483647 bytes`},
		{multiHotEnding, array("<i4", 4, 4), `it is npy (NumPy), and its name is that of npz (NumPy)`},
		{oneHotEnding, numpytest.Archive(good...), `it is npz (NumPy), and its name is that of npy (NumPy)`},
		{oneHotEnding, array("<i4", 4, 3), `its samples have 3 categorical features, but model.tables names 4 tables`},
		{denseEnding, array("<f4", 4, 12), `it has 12 columns, and Criteo's numbers are 13`},
		{denseEnding, array("<f8", 4, 13), `its type is "<f8", and numbers are of type "<f4"`},
		{denseEnding, array("<f4", 3, 13), `it has 3 samples, and`},
		{denseEnding, array("<f4", 4, 13)[:200], `bytes for the shape [4 13]`},
		{labelsEnding, array("<i4", 4, 2), `it has 2 columns, and labels are one`},
		{labelsEnding, nil, `the file is empty`},
	} {
		path := filepath.Join(t.TempDir(), "day_0"+multiHotEnding)
		if c.ending == oneHotEnding {
			path = strings.TrimSuffix(path, multiHotEnding) + oneHotEnding
		}
		day := &numpytest.Day{Numbers: make([][]float32, 4), Labels: make([]float64, 4), IDs: make([][][]int64, 4)}
		for i := range 4 {
			day.Numbers[i], day.IDs[i] = make([]float32, criteoDense), [][]int64{{1}, {1}, {1}, {1}}
		}
		day.Write(t, path)
		mustOpen(t, numpyOptions(t, path))
		file := filepath.Join(filepath.Dir(path), "day_0"+c.ending)
		writeFile(t, file, c.content)
		openFails(t, numpyOptions(t, path), file, c.words)
	}
}

// A sample that is malformed beyond the part that Open checks is an error of the Read, with its place.
func TestCriteoNumPyBadSample(t *testing.T) {
	for _, c := range []struct {
		change func(d *numpytest.Day)
		what   string
	}{
		{func(d *numpytest.Day) { d.IDs[2][7][1] = -3 }, multiHotEnding + `:8: array "2": id 2 is -3, and must not be negative`},
		{func(d *numpytest.Day) { d.IDType, d.IDs[0][7][0] = "<i8", -1<<40 }, multiHotEnding + `:8: array "0": id 1 is -1099511627776, and must`},
		{func(d *numpytest.Day) { d.Numbers[7][12] = float32(math.NaN()) }, denseEnding + ":8: number 13 is NaN"},
		{func(d *numpytest.Day) { d.Numbers[7][0] = float32(math.Inf(-1)) }, denseEnding + ":8: number 1 is -Inf"},
		{func(d *numpytest.Day) { d.LabelType, d.Labels[7] = "<f4", math.NaN() }, labelsEnding + ":8: the label is NaN, and must be 0 or 1"},
		{func(d *numpytest.Day) { d.Labels[7] = -1 }, labelsEnding + ":8: the label is -1, and must be 0 or 1"},
	} {
		path := filepath.Join(t.TempDir(), "day_0"+multiHotEnding)
		d := randomDay(random(t), 10, []int{1, 1, 2, 1})
		c.change(d)
		d.Write(t, path)
		what := c.what
		o := numpyOptions(t, path)
		openFails(t, o, what, `repair the file, or set data.on_error = "skip"`)
		if _, err := Convert(o, ""); err == nil {
			t.Error("the malformed sample is converted")
		} else {
			checkError(t, err, what)
		}
		o.SkipBad = true
		made, err := Convert(o, "")
		if err != nil || made.Samples != 9 || made.Skipped != 1 {
			t.Fatalf("%+v, %v", made, err)
		}
		s := mustOpen(t, o).(*numpySource)
		s.bad = nil // as if Open had checked fewer samples
		var b Batch
		checkError(t, s.Read(&b, []int64{1, 7}), what)
	}
}

// Days whose samples differ in the numbers of ids are refused.
func TestDaysOfOtherShapes(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		randomDay(random(t), 5, []int{1, 1 + i, 2 - i, 1}).Write(t, filepath.Join(dir, fmt.Sprint("day_", i, multiHotEnding)))
	}
	o := numpyOptions(t, dir)
	const what = "day_1_sparse_multi_hot.npz: its samples have other numbers of ids than those of"
	openFails(t, o, what)
	_, err := Convert(o, "")
	checkError(t, err, what, "day_0_sparse_multi_hot.npz")
}

// A conversion of days that was interrupted resumes, and makes the same file.
func TestCriteoNumPyResumes(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		randomDay(random(t), 2500+i, []int{1, 3, 1, 1}).Write(t, filepath.Join(dir, fmt.Sprint("day_", i, multiHotEnding)))
	}
	o := numpyOptions(t, dir)
	want, part := filepath.Join(t.TempDir(), "want.rec"), filepath.Join(t.TempDir(), "got.rec")
	if _, err := Convert(o, want); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	stops := 0
	for stop := 1; ; stop++ {
		calls := 0
		o.Progress = func(Progress) error {
			if calls++; calls == stop {
				return os.ErrDeadlineExceeded
			}
			return nil
		}
		_, err := Convert(o, part)
		if err == nil {
			break
		}
		stops++
	}
	got, err := os.ReadFile(part)
	if err != nil || string(got) != string(whole) || stops < 2 {
		t.Errorf("after %d stops the file differs (%v)", stops, err)
	}
}

// FuzzNumPy opens damaged days.
func FuzzNumPy(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "day_0"+multiHotEnding)
	randomDay(rand.New(rand.NewPCG(1, 2)), 3, []int{2, 1, 1, 1}).Write(f, path)
	content, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content, uint8(0))
	for _, ending := range []string{denseEnding, labelsEnding} {
		if content, err = os.ReadFile(filepath.Join(dir, "day_0"+ending)); err != nil {
			f.Fatal(err)
		}
		f.Add(content, uint8(1+len(ending)%2))
	}
	f.Fuzz(func(t *testing.T, content []byte, which uint8) {
		dir := t.TempDir()
		path := filepath.Join(dir, "day_0"+multiHotEnding)
		randomDay(rand.New(rand.NewPCG(1, 2)), 3, []int{2, 1, 1, 1}).Write(t, path)
		writeFile(t, filepath.Join(dir, "day_0"+[]string{multiHotEnding, denseEnding, labelsEnding}[which%3]), content)
		for _, skip := range []bool{false, true} {
			o := numpyOptions(t, path)
			o.SkipBad = skip
			s, err := Open(o)
			if err != nil {
				checkError(t, err)
				continue
			}
			var b Batch
			if err := s.Read(&b, []int64{0, s.Len() - 1}); err != nil {
				checkError(t, err)
			}
			s.Close()
		}
	})
}
