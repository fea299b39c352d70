package data

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/filelock"
)

// fitsTables reports whether Fit counts tables, or has counted them.
func (o *Options) fitsTables() bool {
	if o.Recipe != nil {
		for _, c := range o.Recipe.Categorical {
			if c.Reserved > 0 {
				return true
			}
		}
	}
	for _, rows := range o.Tables {
		if rows == 0 {
			return true
		}
	}
	return false
}

// countedTables is Options.Tables, where Fit has counted them: else one row.
func (o *Options) countedTables() []int64 {
	if o.Recipe != nil {
		return o.Recipe.Schema().Tables
	}
	tables := make([]int64, len(o.Tables))
	for i, rows := range o.Tables {
		tables[i] = max(rows, 1)
	}
	return tables
}

// Fit returns a complete recipe: if the options ask for tables whose rows are counted, or for transforms with
// parameters, they are computed from the part of the training data that Options.Split selects. The result is a
// function of the samples, their order and the settings alone. It is kept in Options.RecordDir, and not
// computed again while the sources are the same.
//
// A table gets a vocabulary: the texts of its columns that at least Options.MinCount samples have, by count
// descending, then bytes ascending. Row 0 is for missing values, row 1 for texts outside of the vocabulary. A
// vocabulary has up to 2^25 texts. A column with more is hashed into twice as many rows as it has distinct texts,
// of which row 0 is for missing values.
//
// Memory is bounded, but for the recipe: it has the texts of a vocabulary of up to 2^20 texts, and 8 bytes for each text
// of a larger one.
func Fit(o Options) (*Recipe, error) {
	r, err := NewRecipe(o)
	if err != nil || r.Complete() {
		return r, err
	}
	if f, _ := FindFormat(o.Format); f.Topic {
		_, err := NewMessages(&o)
		return nil, err
	}
	if err := o.listFiles(); err != nil {
		return nil, err
	}
	files := o.Files
	if f, _ := FindFormat(o.Format); f.IsConverted() {
		c, err := Convert(o, "")
		if err != nil {
			return nil, err
		}
		files = []string{c.File}
	}
	f := &fit{o: &o, recipe: r, files: files}
	if err := f.identify(); err != nil {
		return nil, err
	}
	if o.RecordDir == "" {
		return r, f.compute()
	}
	return f.loadOrCompute(filepath.Join(o.RecordDir, f.name()))
}

// fit is one run of Fit.
type fit struct {
	o       *Options
	recipe  *Recipe
	files   []string // record files
	headers []recordHeader
}

// identify sets Recipe.Source.
func (f *fit) identify() error {
	h := xxh3.New()
	for _, name := range f.files {
		file, _, head, err := readRecordHeader(f.o.Env, name)
		if err != nil {
			return err
		}
		file.Close()
		f.headers = append(f.headers, head)
		h.Write(head.source[:])
		fmt.Fprintf(h, " %d ", head.samples)
	}
	fmt.Fprintf(h, "%q %d %q %s", f.o.Tables, max(f.o.MinCount, 1), f.o.Split.String(), f.recipe.Encode())
	sum := h.Sum128()
	f.recipe.Source = fmt.Sprintf("%016x%016x", sum.Hi, sum.Lo)
	return nil
}

func (f *fit) name() string {
	base := filepath.Base(f.files[0])
	return fmt.Sprintf("%s-%s.recipe.json", base[:len(base)-len(filepath.Ext(base))], f.recipe.Source[:16])
}

// loadOrCompute reads the recipe from a file, which one of the processes that call it makes.
func (f *fit) loadOrCompute(name string) (*Recipe, error) {
	part := name + ".part"
	for waited := false; ; waited = true {
		if r, err := ReadRecipe(f.o.Env, name); err == nil && r.Source == f.recipe.Source {
			if waited {
				err = f.o.reportProgress("", 0, 0)
			}
			return r, err
		}
		var file *os.File
		if err := f.o.Env.Do("open "+part, func() (err error) {
			file, err = os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o666)
			return err
		}); err != nil {
			return nil, &Error{File: part, What: "cannot create the recipe of the data", Err: err}
		}
		err := filelock.Try(file, filelock.Exclusive)
		if err == nil {
			r, err := f.computeInto(file, name)
			file.Close()
			return r, err
		}
		file.Close()
		if err != filelock.ErrHeld {
			return nil, fmt.Errorf("lock %s: %w", part, err)
		}
		if err := f.o.reportProgress("waiting for another process to count the data", 0, 0); err != nil {
			return nil, err
		}
		f.o.Env.Sleep(lockPoll)
	}
}

// computeInto computes the recipe and writes it to a file, which gets its name then, unless another process has
// made it meanwhile.
func (f *fit) computeInto(part *os.File, name string) (*Recipe, error) {
	e := f.o.Env
	r, err := ReadRecipe(e, name)
	if err != nil || r.Source != f.recipe.Source {
		r = f.recipe
		if err = f.compute(); err == nil {
			err = e.Do("write "+name, func() error {
				if err := part.Truncate(0); err != nil {
					return err
				}
				if err := r.writeJSON(io.NewOffsetWriter(part, 0)); err != nil {
					return err
				}
				if err := part.Sync(); err != nil {
					return err
				}
				return os.Rename(part.Name(), name)
			})
			if err == nil {
				return r, nil
			}
		}
	}
	_ = e.Do("remove "+part.Name(), func() error { return os.Remove(part.Name()) })
	return r, err
}

// compute completes the recipe.
func (f *fit) compute() error {
	o := *f.o
	o.raw, o.Recipe = true, nil
	src, err := openRecords(&o, f.files)
	if err == nil && !o.Split.isAll() {
		src, err = o.Split.cut(src)
	}
	if err != nil {
		return err
	}
	defer src.Close()
	count, err := f.newCounting()
	if err != nil {
		return err
	}
	defer count.closeFiles()
	schema := src.Schema()
	sums := make([]moments, len(f.recipe.Dense))
	for pass := range 2 {
		if pass == 1 && !f.hasStandard() {
			break
		}
		err := eachBatch(src, &o, "count", func(b *Batch) {
			for i, x := range b.Dense {
				sums[i%len(sums)].addNumber(x, pass)
			}
			if pass > 0 {
				return
			}
			b.eachHash(schema.Features(), func(feature int, h uint64) { count.countHash(schema.TableOfFeature(feature), h) })
		})
		if err != nil {
			return err
		}
		for i := range sums {
			sums[i].finish(pass)
		}
	}
	for i := range f.recipe.Dense {
		if d := &f.recipe.Dense[i]; d.Transform == TransformStandard {
			d.Mean, d.Deviation = sums[i].mean, sums[i].deviation
		}
	}
	for i := range f.recipe.Categorical {
		if c := &f.recipe.Categorical[i]; c.Rows == 0 {
			if err := f.finishColumn(count, c, i, &count.tables[schema.TableOfFeature(i)]); err != nil {
				return err
			}
		}
	}
	return f.recipe.Schema().checkLimits()
}

func (f *fit) hasStandard() bool {
	for _, d := range f.recipe.Dense {
		if d.Transform == TransformStandard {
			return true
		}
	}
	return false
}

// eachBatch visits all samples of a source in order.
func eachBatch(src Source, o *Options, what string, visit func(b *Batch)) error {
	var b Batch
	idx := make([]int64, 0, scanRecords)
	for at, n := int64(0), src.Len(); at < n; at += scanRecords {
		idx = idx[:0]
		for i := at; i < min(at+scanRecords, n); i++ {
			idx = append(idx, i)
		}
		if err := src.Read(&b, idx); err != nil {
			return err
		}
		visit(&b)
		if err := o.reportProgress(what, min(at+scanRecords, n), n); err != nil {
			return err
		}
	}
	return nil
}

// moments are the mean and the standard deviation of numbers, computed in two passes over them in their order,
// in float64. NaNs are left out.
type moments struct {
	n, sum          float64
	mean, deviation float64
}

func (m *moments) addNumber(x float32, pass int) {
	if x != x {
		return
	}
	if pass == 0 {
		m.n++
		m.sum += float64(x)
		return
	}
	d := float64(x) - m.mean
	m.sum += float64(d * d)
}

func (m *moments) finish(pass int) {
	if m.n == 0 {
		return
	}
	if pass == 0 {
		m.mean = m.sum / m.n
	} else {
		m.deviation = math.Sqrt(m.sum / m.n)
	}
	m.sum = 0
}
