package data

import (
	"fmt"
	"slices"
	"strings"
)

// Formats is the registry of data formats. Open, Convert, config validation and the
// config reference read it.
//
// To add a format, write one file that defines a Format, and add it to this list. A
// format of text needs a text (textFormat), which Convert parses in parallel into a
// record file; any other needs an Open that finds each sample in O(1), and may have both. Run
// formattest.Run on the format in a test, and describe it in docs/data.md. A test may append a format of its own.
var Formats = []Format{syntheticFormat, csvTextFormat, avazuFormat, criteoTSVFormat, parquetFileFormat, criteoBinFormat,
	criteoNumPyFormat, recordFormat, kafkaFormat}

// Format is one format of data.
type Format struct {
	// Name is the value of data.format.
	Name string
	// Doc describes the content of a file in one line.
	Doc string
	// Endings are the usual endings of the names of its files, such as ".csv".
	Endings []string
	// Keys are the keys of [data] that this format reads and some other does not, such as
	// "csv.label". A config may set them for other formats too: they have no effect then.
	Keys []string
	// Named, if set, holds the columns that the keys of [data.csv] name by default.
	Named *CSV
	// Endless formats read no files: they make samples without end.
	Endless bool
	// Topic formats read a topic in place of files, in its order only.
	Topic bool
	// Columns counts the numbers and the categories of a sample. The model is laid out for
	// that many numbers before a file is opened. The count of categories may be Any, except
	// of a text.
	Columns func(c CSV) (dense, categorical int)
	// Check finds settings that do not fit each other, before any file is opened. It
	// returns a *KeyError. nil: there is nothing to check.
	Check func(o *Options) error
	// Scaled formats without names of columns have numbers as they enter the model.
	Scaled bool
	// Open opens Options.Files, of which there is one at least unless the format is
	// Endless. It is nil for text, which is converted and opened as a record file, and for a Topic.
	Open func(o *Options) (Source, error)
	// text prepares a conversion; nil if Convert does not take the format.
	text func(o *Options) (textFormat, error)
}

// Any is a number of categories that model.tables decides: one for each table.
const Any = -1

// Reads reports whether the format reads a key of [data] that only some formats read.
func (f *Format) Reads(key string) bool { return slices.Contains(f.Keys, key) }

// IsConverted reports whether files of the format are converted to a record file before they are read.
func (f *Format) IsConverted() bool { return f.text != nil && f.Open == nil }

// KeyError is a setting that a format refuses.
type KeyError struct {
	Key  string // of [data], such as "csv.label"
	What string // the mistake, and its remedy
}

func (e *KeyError) Error() string { return "data." + e.Key + ": " + e.What }

// Is makes every KeyError an ErrInput.
func (e *KeyError) Is(target error) bool { return target == ErrInput }

func keyError(key, format string, args ...any) error {
	return &KeyError{key, fmt.Sprintf(format, args...)}
}

// FindFormat returns the format of a name.
func FindFormat(name string) (format *Format, ok bool) {
	i := slices.IndexFunc(Formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return nil, false
	}
	return &Formats[i], true
}

// FormatNames lists the names of all formats.
func FormatNames() (names []string) {
	for _, f := range Formats {
		names = append(names, f.Name)
	}
	return names
}

// tablesError is the error of another number of tables than of categories.
func (f *Format) tablesError(categorical, tables int) error {
	if f.Reads("csv.categorical") {
		return usageErr("data.csv.categorical names %d columns, but model.tables names %d tables", categorical, tables)
	}
	return usageErr("%s has %d categorical features, but model.tables names %d tables", f.Name, categorical, tables)
}

// findFormat is the format that the options name.
func (o *Options) findFormat() (*Format, error) {
	f, ok := FindFormat(o.Format)
	if !ok {
		return nil, usageErr("data.format = %q does not exist; it is one of %s", o.Format, strings.Join(FormatNames(), ", "))
	}
	return f, nil
}

// textFormat is a format that Convert takes, for settings.
type textFormat interface {
	// recordLayout is the layout of the records that parseChunk makes.
	recordLayout() (kind recordKind, dense, categorical int)
	// settingsText lists the settings that the records depend on.
	settingsText() string
	// parseChunk appends the records of c's well-formed lines to c.records, and an error for
	// each of the others to c.bad.
	parseChunk(c *chunk, file string)
}

// lineFormat is a textFormat of text, one sample a line.
type lineFormat interface {
	textFormat
	// cutLines returns how many bytes of b, which begins with a line, are complete lines.
	cutLines(b []byte) int
}

// bagged is a textFormat of which columns may be bags.
type bagged interface {
	// bagLayout reports which features are bags, nil if none is, and whether ids have weights.
	bagLayout() (mask []bool, weighted bool)
}

// chunkReader cuts source files into chunks.
type chunkReader interface {
	// fillChunk reads the next chunk into c. It reports false after the last one.
	fillChunk(c *chunk) (bool, error)
	closeFile()
}

// chunked is a textFormat whose files are not text.
type chunked interface {
	// newReader returns the reader of the files from a place on. It may use a number of goroutines.
	// It adds the texts of the categories to a set, unless that is nil.
	newReader(o *Options, from place, threads int, texts *textSet) chunkReader
	// checkHead refuses a file of another kind, by its beginning.
	checkHead(name string, head []byte) error
}

// headed is a textFormat whose files begin with a header.
type headed interface {
	// parseHeader reads the header at the beginning of text. It returns its size in bytes and
	// lines, and the columns.
	parseHeader(file string, text []byte) (size int, lines int64, cols *columns, err error)
}

// textNames lists the formats that Convert takes.
func textNames() (names []string) {
	for _, f := range Formats {
		if f.text != nil {
			names = append(names, f.Name)
		}
	}
	return names
}
