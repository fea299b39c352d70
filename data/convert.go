package data

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/xxh3"
)

// Converted is the result of Convert.
type Converted struct {
	File    string
	Samples int64
	Skipped int64   // malformed lines left out
	Bad     []error // the first malformed lines that this call read
	Made    bool    // false: it was there already
}

// maxReported is how many malformed lines Converted names.
const maxReported = 10

// openText converts text sources, unless that has been done, and opens the result.
func openText(f *Format, o *Options) (Source, error) {
	dense, categorical := f.Columns(o.CSV)
	schema := o.schema(dense)
	if n := schema.Features(); n != categorical {
		return nil, f.tablesError(categorical, n)
	}
	schema.Tables = o.countedTables()
	if err := schema.checkLimits(); err != nil {
		return nil, err
	}
	c, err := Convert(*o, "")
	if err != nil {
		return nil, err
	}
	return openRecords(o, []string{c.File})
}

// Convert makes the record file of text sources. If there is one of
// the same, unchanged sources, it returns that. to is the name of the file; "" is a
// name in Options.RecordDir that depends on the sources' names, the columns and the version
// of the converter. Runs may share that folder.
//
// Memory is bounded. A conversion that was interrupted resumes where it stopped. One
// that fails on bad input leaves no file. The file gets its name when it is complete.
// Two processes that convert to the same file take turns. Options.Tables is not used:
// one conversion serves any tables.
func Convert(o Options, to string) (*Converted, error) {
	names := o.Files
	if err := o.listFiles(); err != nil {
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
		for _, name := range names {
			if listsFile(name, to) || listsFile(name, to+textsEnding) {
				return nil, keyError("cache", "the conversion %s would be read as samples, as %q lists it; set data.cache to another folder", to, name)
			}
		}
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
	c, err := job.findExisting()
	if c == nil && err == nil {
		c, err = job.makeFile()
	}
	if errors.Is(err, ErrInput) {
		_ = o.Env.Do("rmdir", func() error {
			for _, d := range made {
				os.Remove(d) // fails if it is not empty
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

// converterVersion is part of the name of a record file in a cache. Raise it whenever a format makes other
// records of the same files, so that no run uses records of an older ecrec. TestConverterVersion notices.
const converterVersion = 3

// conversion is one run of Convert.
type conversion struct {
	o     *Options
	to    string
	text  textFormat
	head  recordHeader
	name  uint64     // hash of the sources' names and the settings
	sizes []int64    // of the sources
	texts []*textSet // of the parsers and the reader; nil: texts are not kept
	spill *spill     // of all of texts
}

func newConversion(o *Options) (*conversion, error) {
	f, err := o.findFormat()
	if err != nil {
		return nil, err
	}
	if f.text == nil {
		return nil, usageErr("format %q is not converted: only %s are", o.Format, strings.Join(textNames(), " and "))
	}
	j := &conversion{o: o}
	if j.text, err = f.text(o); err != nil {
		return nil, err
	}
	kind, dense, tables := j.text.recordLayout()
	var what strings.Builder
	fmt.Fprintf(&what, "converter %d %q%s", converterVersion, o.Format, j.text.settingsText())
	if dense > maxDense || tables > maxTables {
		return nil, usageErr("%d dense and %d categorical columns; at most %d and %d are possible", dense, tables, maxDense, maxTables)
	}
	for _, name := range o.Files {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, &Error{File: name, What: "cannot find the file's absolute name", Err: err}
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
		if err := j.checkKind(f); err != nil {
			f.Close()
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
	if t, ok := j.text.(bagged); ok {
		j.head.setBags(t.bagLayout())
	}
	return j, nil
}

// checkKind refuses a file that is not of the format, by its first bytes.
func (j *conversion) checkKind(f *os.File) error {
	head, err := readHead(j.o.Env, f)
	if err != nil {
		return err
	}
	if c, ok := j.text.(chunked); ok {
		return c.checkHead(f.Name(), head)
	}
	return checkText(j.o.Format, f.Name(), head)
}

func (j *conversion) defaultName() string {
	base := filepath.Base(j.o.Files[0])
	return fmt.Sprintf("%s-%016x.rec", strings.TrimSuffix(base, filepath.Ext(base)), j.name)
}

// findExisting returns the file when it is there and of these sources.
func (j *conversion) findExisting() (*Converted, error) {
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
		return nil, fileErr(j.to, "the record file has %d bytes, its %d samples take %d; delete it to convert the sources again", size,
			h.samples, h.fileBytes())
	}
	return &Converted{File: j.to, Samples: int64(h.samples), Skipped: int64(h.skipped)}, nil
}

// newTextSets makes conversion.texts. It returns the sets of the parsers, nil if texts are not kept.
func (j *conversion) newTextSets(parsers int) []*textSet {
	n := j.countKept()
	if n == 0 {
		return make([]*textSet, parsers)
	}
	j.spill = newSpill(j.o.Env, filepath.Dir(j.to), j.o.limits.orDefault().memory)
	j.texts = nil
	for range parsers + 1 {
		j.texts = append(j.texts, newTextSet(n, j.spill, parsers+1))
	}
	return j.texts[:parsers]
}

// dropTexts ends the use of conversion.texts.
func (j *conversion) dropTexts() {
	if j.spill != nil {
		j.spill.closeFile()
	}
}

// ofReader is the set of the reader, nil if texts are not kept.
func (j *conversion) ofReader() *textSet {
	if j.texts == nil {
		return nil
	}
	return j.texts[len(j.texts)-1]
}

// writeTexts writes the texts of a record file that is about to be complete.
func (j *conversion) writeTexts() error {
	if j.texts == nil {
		return nil
	}
	return writeWhole(j.o.Env, j.to+textsEnding, func(w io.Writer) error { return writeTextSets(w, j.texts, j.head.source) })
}
