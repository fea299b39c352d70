package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/xxh3"
)

// Converted is what Convert has made.
type Converted struct {
	File    string
	Samples int64
	Skipped int64   // malformed lines left out
	Bad     []error // the first of those that this call met
	Made    bool    // false: it was there already
}

// maxReported is how many malformed lines Converted names.
const maxReported = 10

// openText converts text sources, unless that has been done, and opens the result.
func openText(o *Options) (Source, error) {
	if o.Format == FormatCriteoTSV {
		if _, err := criteoSchema(o.Tables); err != nil {
			return nil, err
		}
	} else if len(o.Tables) != len(o.CSV.Categorical) {
		return nil, usageErr("data.csv.categorical names %d columns, but model.tables names %d tables", len(o.CSV.Categorical), len(o.Tables))
	}
	if err := (Schema{Dense: len(o.CSV.Dense), Tables: o.Tables}).check(); err != nil {
		return nil, err
	}
	c, err := Convert(*o, "")
	if err != nil {
		return nil, err
	}
	return openRecords(o, []string{c.File})
}

// Convert makes the record file of text sources (csv, criteo-tsv), or finds it
// made: the same sources, unchanged, are converted once. to is its name; "" is a
// name in Options.RecordDir that depends on the sources' names and the columns.
//
// Memory is bounded; a conversion that was ended goes on where it stopped, and one
// that met bad input leaves nothing; the file has its name only when it is complete. Two processes that want the same
// file take turns. Options.Tables is not used: one conversion serves any tables.
func Convert(o Options, to string) (*Converted, error) {
	if err := o.checkFiles(); err != nil {
		return nil, err
	}
	job, err := newConversion(&o)
	if err != nil {
		return nil, err
	}
	if to == "" {
		if o.RecordDir == "" {
			return nil, usageErr("no folder is named for the record file of %s", o.Files[0])
		}
		to = filepath.Join(o.RecordDir, job.defaultName())
	}
	job.to = to
	dir := filepath.Dir(to)
	var made []string
	err = o.Env.Do("mkdir", func() error {
		made = missing(dir)
		return os.MkdirAll(dir, 0o777)
	})
	if err != nil {
		return nil, &Error{File: to, What: "cannot make the folder of the record file", Err: err}
	}
	c, err := job.existing()
	if c == nil && err == nil {
		c, err = job.run()
	}
	if errors.Is(err, ErrInput) {
		_ = o.Env.Do("rmdir", func() error {
			for _, d := range made {
				os.Remove(d) // where it is empty
			}
			return nil
		})
	}
	return c, err
}

// missing lists dir and the folders above it that are not there, dir first.
func missing(dir string) (all []string) {
	for {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			return all
		}
		all = append(all, dir)
		dir = filepath.Dir(dir)
	}
}

// conversion is one run of Convert.
type conversion struct {
	o      *Options
	to     string
	csv    *csvFormat // nil for criteo-tsv
	parser parser
	head   recordHeader
	name   uint64  // hash of what names the file: sources and columns
	sizes  []int64 // of the sources
}

func newConversion(o *Options) (*conversion, error) {
	j := &conversion{o: o}
	var what strings.Builder
	fmt.Fprintf(&what, "%q", o.Format)
	kind, dense, tables := recordCriteo, criteoDense, criteoTables
	switch o.Format {
	case FormatCriteoTSV:
		j.parser = tsvParser{}
	case FormatCSV:
		f, err := newCSV(o.CSV)
		if err != nil {
			return nil, err
		}
		j.csv, j.parser = f, f
		kind, dense, tables = recordCSV, len(f.dense), len(f.cats)
		fmt.Fprintf(&what, "%q %q %q %q", f.label, f.dense, f.cats, f.delimiter)
	default:
		return nil, usageErr("format %q is not converted: only %s and %s are text", o.Format, FormatCSV, FormatCriteoTSV)
	}
	if dense > maxDense || tables > maxTables {
		return nil, usageErr("%d dense and %d categorical columns; at most %d and %d are possible", dense, tables, maxDense, maxTables)
	}
	for _, name := range o.Files {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, &Error{File: name, What: "cannot tell the file's whole name", Err: err}
		}
		fmt.Fprintf(&what, " %q", path)
	}
	j.name = xxh3.HashString(what.String())
	// The file's name depends on the sources' names, its validity on their content.
	for _, name := range o.Files {
		f, size, err := openFile(o.Env, name)
		if err != nil {
			return nil, err
		}
		st, err := f.Stat()
		f.Close()
		if err != nil {
			return nil, openErr(name, err)
		}
		j.sizes = append(j.sizes, size)
		fmt.Fprintf(&what, " %d %d", size, st.ModTime().UnixNano())
	}
	j.head = newRecordHeader(kind, dense, tables, xxh3.HashString128(what.String()).Bytes())
	return j, nil
}

func (j *conversion) defaultName() string {
	base := filepath.Base(j.o.Files[0])
	return fmt.Sprintf("%s-%016x.rec", strings.TrimSuffix(base, filepath.Ext(base)), j.name)
}

// existing returns the file when it is there and of these sources.
func (j *conversion) existing() (*Converted, error) {
	f, size, h, err := readRecordHeader(j.o.Env, j.to)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f.Close()
	if h.source != j.head.source || h.skipped > 0 && !j.o.SkipBad {
		return nil, nil // stale, or made while malformed lines were accepted
	}
	if size != h.fileBytes() {
		return nil, fileErr(j.to, "the record file has %d bytes, its %d samples take %d; delete it and it will be made anew", size, h.samples, h.fileBytes())
	}
	return &Converted{File: j.to, Samples: int64(h.samples), Skipped: int64(h.skipped)}, nil
}
