package data

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/internal/env"
)

// The samples of a day are in three files. The names differ in the endings.
const (
	multiHotEnding = "_sparse_multi_hot.npz" // an array for each feature, of one id or more for a sample
	oneHotEnding   = "_sparse.npy"           // an array of a column for each feature
	denseEnding    = "_dense.npy"
	labelsEnding   = "_labels.npy"
)

// filesOfDay is the number of files of a day: ids, numbers, labels.
const filesOfDay = 3

// dayOf returns the name of the day of a file of ids.
func dayOf(file string) (day string, ok bool) {
	if day, ok = strings.CutSuffix(file, multiHotEnding); ok {
		return day, true
	}
	return strings.CutSuffix(file, oneHotEnding)
}

// completeDays puts the other files of a day behind each file of ids, and nowhere else.
func completeDays(files []string) []string {
	days := map[string]bool{}
	for _, file := range files {
		if day, ok := dayOf(file); ok {
			days[day] = true
		}
	}
	if len(days) == 0 {
		return files
	}
	var all []string
	for _, file := range files {
		if day, ok := dayOf(file); ok {
			all = append(all, file, day+denseEnding, day+labelsEnding)
		} else if !days[strings.TrimSuffix(file, denseEnding)] && !days[strings.TrimSuffix(file, labelsEnding)] {
			all = append(all, file)
		}
	}
	return all
}

// numpyDay is the open files of a day.
type numpyDay struct {
	file  string // of the ids
	first int64  // index of its first sample
	n     int64  // samples
	// The arrays of ids, of numbers and of labels, and their files.
	arrays []npyArray
	files  []*os.File
}

// fileCheck refuses a file of another kind.
type fileCheck func(e env.Env, f *os.File) error

func (d *numpyDay) ids() []npyArray   { return d.arrays[:len(d.arrays)-2] }
func (d *numpyDay) dense() *npyArray  { return &d.arrays[len(d.arrays)-2] }
func (d *numpyDay) labels() *npyArray { return &d.arrays[len(d.arrays)-1] }

func (d *numpyDay) closeFiles() (first error) {
	for _, f := range d.files {
		first = cmp.Or(first, f.Close())
	}
	return first
}

// hots returns the number of ids of each feature.
func (d *numpyDay) hots() (hots []int) {
	if ids := d.ids(); strings.HasSuffix(d.file, multiHotEnding) {
		for i := range ids {
			hots = append(hots, ids[i].columns)
		}
		return hots
	}
	return slices.Repeat([]int{1}, d.arrays[0].columns)
}

// sampleBytes is the size of a sample in the files.
func (d *numpyDay) sampleBytes() (n int) {
	for i := range d.arrays {
		n += d.arrays[i].rowBytes()
	}
	return n
}

// openDay opens the files of the day whose ids are in a file.
func openDay(e env.Env, file string, check fileCheck) (*numpyDay, error) {
	d := &numpyDay{file: file}
	err := d.openArrays(e, check)
	if err == nil {
		err = d.checkArrays()
	}
	if err != nil {
		d.closeFiles()
		return nil, err
	}
	return d, nil
}

func (d *numpyDay) openArrays(e env.Env, check fileCheck) error {
	const (
		wantIDs    = `ids are of type "<i4" or "<i8"; convert them by astype`
		wantDense  = `numbers are of type "<f4"; convert them by astype`
		wantLabels = `labels are of type "<i4", "<i8" or "<f4"; convert them by astype`
	)
	day, _ := dayOf(d.file)
	if strings.HasSuffix(d.file, multiHotEnding) {
		if err := d.openMultiHot(e, check, wantIDs); err != nil {
			return err
		}
	} else if err := d.openNpy(e, check, d.file, wantIDs, npyInt32, npyInt64); err != nil {
		return err
	}
	if err := d.openNpy(e, check, day+denseEnding, wantDense, npyFloat32); err != nil {
		return err
	}
	return d.openNpy(e, check, day+labelsEnding, wantLabels, npyInt32, npyInt64, npyFloat32)
}

// openFile opens a file of the day.
func (d *numpyDay) openFile(e env.Env, check fileCheck, name string) (a npyArray, size int64, err error) {
	f, size, err := openFile(e, name)
	if err != nil {
		return a, 0, err
	}
	d.files = append(d.files, f)
	return npyArray{in: &readerAt{env: e, file: f, what: "read " + name}, file: name}, size, check(e, f)
}

// openNpy opens a file that is one array.
func (d *numpyDay) openNpy(e env.Env, check fileCheck, name, what string, kinds ...npyKind) error {
	a, size, err := d.openFile(e, check, name)
	if err == nil {
		err = a.readNpy(0, size, what, kinds...)
	}
	d.arrays = append(d.arrays, a)
	return err
}

// openMultiHot opens the file of ids, which has the arrays "0", "1" and so on.
func (d *numpyDay) openMultiHot(e env.Env, check fileCheck, what string) error {
	file, size, err := d.openFile(e, check, d.file)
	if err != nil {
		return err
	}
	members, err := readZip(file.in, size, maxTables)
	if err == errZip {
		return file.damaged(err.Error())
	} else if err != nil {
		return err
	}
	if len(members) == 0 {
		return file.fail("it has no arrays")
	}
	d.arrays = make([]npyArray, len(members))
	for i := range members {
		m := &members[i]
		feature, err := strconv.Atoi(m.arrayName())
		if err != nil || feature < 0 || feature >= len(members) || d.arrays[feature].in != nil || m.arrayName() != strconv.Itoa(feature) {
			return file.fail("its %d arrays are called \"0\" to \"%d\", one for each categorical feature, and one is %q; "+
				"write it with numpy.savez(file, **{\"0\": ids, ...})", len(members), len(members)-1, m.arrayName())
		}
		a := file
		a.name = "array " + strconv.Quote(m.arrayName())
		if err := a.openMember(m, size, what, npyInt32, npyInt64); err != nil {
			return err
		}
		d.arrays[feature] = a
	}
	return nil
}

// checkArrays compares the shapes of the arrays.
func (d *numpyDay) checkArrays() error {
	labels, dense := d.labels(), d.dense()
	d.n = labels.rows
	for i := range d.arrays {
		if a := &d.arrays[i]; a.rows != d.n {
			return a.fail("it has %d samples, and %s has %d; the files of a day must have the same samples", a.rows, labels.file, d.n)
		}
	}
	ids := 0
	for _, hot := range d.hots() {
		ids += hot
	}
	switch {
	case labels.columns != 1:
		return labels.fail("it has %d columns, and labels are one", labels.columns)
	case dense.columns != criteoDense:
		return dense.fail("it has %d columns, and Criteo's numbers are %d", dense.columns, criteoDense)
	case ids > maxBag:
		return fileErr(d.file, "a sample has %d ids; at most %d are possible", ids, maxBag)
	}
	return nil
}
