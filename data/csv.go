package data

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// csvTextFormat is the registry's entry.
var csvTextFormat = Format{
	Name:    FormatCSV,
	Doc:     "text with a header, fields separated by commas or another byte; columns are named in [data.csv]",
	Endings: []string{".csv", ".tsv", ".txt"},
	Keys:    []string{"csv.label", "csv.weight", "csv.dense", "csv.categorical", "csv.delimiter", "csv.na", "transform", "csv.separator", "csv.bags", "csv.weighted"},
	Columns: func(c CSV) (dense, categorical int) { return len(c.Dense), len(c.Categorical) },
	Check:   checkCSV,
	text: func(o *Options) (textFormat, error) {
		f, err := newCSV(o.CSV)
		if err != nil {
			return nil, err
		}
		f.texts = o.fitsTables()
		return f, nil
	},
}

// checkCSV checks that the columns are named, each once.
func checkCSV(o *Options) error {
	v := o.CSV
	switch {
	case v.Label == "":
		return keyError("csv.label", "names no column; name the column that holds 0 or 1")
	case len(v.Categorical) == 0:
		return keyError("csv.categorical", "names no column; each embedding table needs one")
	}
	used := map[string]string{v.Label: "data.csv.label"}
	if v.Weight == v.Label {
		return keyError("csv.weight", "column %q is already named in data.csv.label; name it once", v.Weight)
	}
	if v.Weight != "" {
		used[v.Weight] = "data.csv.weight"
	}
	for _, list := range []struct {
		key     string
		columns []string
	}{{"csv.dense", v.Dense}, {"csv.categorical", v.Categorical}} {
		for i, column := range list.columns {
			if column == "" {
				return keyError(list.key, "column %d has an empty name", i)
			}
			if other, ok := used[column]; ok {
				return keyError(list.key, "column %q is already named in %s; name it once", column, other)
			}
			used[column] = "data." + list.key
		}
	}
	if err := checkBags(&v, o.Format == FormatParquet); err != nil {
		return err
	}
	return v.checkTransforms()
}

// csvFormat reads comma-separated text with a header, as RFC 4180 describes it:
// a field may be quoted, and a quote in it is doubled. Its records are
// label float32, dense [Dense]float32, ids [Categorical]uint64, little-endian. If samples
// have weights, the weight, float32, follows the label.
type csvFormat struct {
	label     string
	weight    string // "": there is none
	dense     []string
	cats      []string
	delimiter byte
	na        []string
	transform map[string]string
	texts     bool // the texts of the categories are kept

	bags      []bool // of cats; nil: none are bags
	separator byte
	weighted  bool
}

// columns is where the columns of one file go.
type columns struct {
	names []string
	form  []*fieldForm // nil: the column is not read
}

func newCSV(c CSV) (*csvFormat, error) {
	f := &csvFormat{label: c.Label, weight: c.Weight, dense: c.Dense, cats: c.Categorical, delimiter: c.Delimiter, na: c.NA, transform: c.Transform,
		bags: c.bagMask(), separator: c.Separator, weighted: c.Weighted}
	if f.delimiter == 0 {
		f.delimiter = ','
	}
	if f.delimiter == '"' || f.delimiter == '\n' || f.delimiter == '\r' {
		return nil, usageErr("data.csv.delimiter = %q cannot separate fields", f.delimiter)
	}
	if f.label == "" {
		return nil, usageErr("data.csv.label names no column")
	}
	seen := map[string]bool{}
	for _, name := range slices.Concat(f.headNames(), f.dense, f.cats) {
		if seen[name] {
			return nil, usageErr("data.csv names column %q twice", name)
		}
		seen[name] = true
	}
	return f, nil
}

// columnNames lists the columns of a file in the order of the record. A column of which several features are made is
// there for each of them.
func (f *csvFormat) columnNames() []string {
	names := slices.Concat(f.headNames(), f.dense, f.cats)
	for i := len(f.headNames()); i < len(names); i++ {
		_, names[i] = transformOf(f.transform, names[i])
	}
	return names
}

// headNames lists the columns before the numbers.
func (f *csvFormat) headNames() []string {
	if f.weight == "" {
		return []string{f.label}
	}
	return []string{f.label, f.weight}
}

// kind is the kind of the records.
func (f *csvFormat) kind() recordKind {
	if f.weight == "" {
		return recordCSV
	}
	return recordWeighted
}

func (f *csvFormat) recordLayout() (kind recordKind, dense, categorical int) {
	return f.kind(), len(f.dense), len(f.cats)
}

func (f *csvFormat) settingsText() string {
	text := fmt.Sprintf("%q %q %q %q missing numbers are NaN", f.label, f.dense, f.cats, f.delimiter)
	if f.weight != "" {
		text += fmt.Sprintf(" weight %q", f.weight)
	}
	if len(f.na) > 0 {
		text += fmt.Sprintf(" na %q", f.na)
	}
	for _, name := range f.cats {
		if t := f.transform[name]; t != "" {
			text += fmt.Sprintf(" %q is %s", name, t)
		}
	}
	for _, name := range f.dense {
		if _, column := transformOf(f.transform, name); column != name { // the transform is applied to records
			text += fmt.Sprintf(" %q of %q", name, column)
		}
	}
	if f.texts {
		text += " with all texts"
	}
	if f.bags != nil {
		text += fmt.Sprintf(" bags %q %v %v", f.separator, f.bags, f.weighted)
	}
	return text
}

func (f *csvFormat) parseHeader(file string, text []byte) (size int, lines int64, cols *columns, err error) {
	if size, lines, err = f.headerEnd(file, text); err == nil {
		cols, err = f.readHeader(file, text[:size])
	}
	return size, lines, cols, err
}

// cutLines parses quotes if there are any, since a quoted field may hold line ends.
func (f *csvFormat) cutLines(b []byte) int {
	if bytes.IndexByte(b, '"') >= 0 {
		return f.completeRecords(b)
	}
	return bytes.LastIndexByte(b, '\n') + 1
}

// countTexts is the number of columns whose texts are kept.
func (f *csvFormat) countTexts() int {
	if !f.texts {
		return 0
	}
	return len(f.cats)
}

func (f *csvFormat) recordBytes() int {
	size := f.kind().headBytes() + 4*len(f.dense) + 8*len(f.cats)
	if f.bags != nil {
		size += 4 // the place of the sample's ids in the heap
	}
	return size
}

// headerEnd finds the size of the header and the lines it takes.
func (f *csvFormat) headerEnd(file string, text []byte) (size int, lines int64, err error) {
	size = f.recordEnd(text)
	if size == 0 || size == len(text) && text[size-1] != '\n' {
		return 0, 0, fileErr(file, "no samples follow the header, or its first line is longer than %d bytes", maxLineBytes)
	}
	return size, int64(bytes.Count(text[:size], []byte{'\n'})), nil
}

// readHeader maps a file's columns to the record.
func (f *csvFormat) readHeader(file string, line []byte) (*columns, error) {
	line = trimEOL(line)
	line = []byte(strings.TrimPrefix(string(line), "\uFEFF"))
	c := new(columns)
	s := fieldScanner{text: line, delimiter: f.delimiter}
	for s.more() {
		name, what := s.next()
		if what != "" {
			return nil, &Error{File: file, Line: 1, What: fmt.Sprintf("column %d of the header: %s", len(c.names)+1, what)}
		}
		c.names = append(c.names, string(name))
	}
	c.form = make([]*fieldForm, len(c.names))
	var missing []string
	names := f.columnNames()
	for j, form := range f.forms() {
		name := names[j]
		switch i := slices.Index(c.names, name); {
		case i < 0 && slices.Contains(names[:j], name):
		case i < 0:
			missing = append(missing, strconv.Quote(name))
		case slices.Contains(c.names[i+1:], name):
			return nil, &Error{File: file, Line: 1, What: fmt.Sprintf("two columns are called %q", name)}
		default:
			use := &c.form[i]
			for *use != nil {
				use = &(*use).next
			}
			*use = form
		}
	}
	if len(missing) > 0 {
		return nil, &Error{File: file, Line: 1, What: describeMissing(missing, c.names)}
	}
	return c, nil
}

// describeMissing says which columns a header lacks. If it has one name that holds another delimiter, it names that.
func describeMissing(missing, names []string) string {
	what := fmt.Sprintf("no column is called %s; there are %s", strings.Join(missing, ", "), strings.Join(names, ", "))
	if len(names) == 1 {
		for _, d := range []string{"\t", ";", "|", ","} {
			if strings.Contains(names[0], d) {
				return what + fmt.Sprintf("; if %q is between the columns, set data.csv.delimiter = %q", d, d)
			}
		}
	}
	return what
}

// completeRecords is how many bytes of text are complete records: up to the last line end outside of quotes.
func (f *csvFormat) completeRecords(text []byte) int {
	var marks [64]uint64
	cut, quoted, closed := 0, false, -1 // closed is the last quote that ended a field, or was the first of two
	for at := 0; at < len(text); at += 64 * len(marks) {
		block := text[at:min(at+64*len(marks), len(text))]
		for w, m := range markText(marks[:], block, '\n') {
			for ; m != 0; m &= m - 1 {
				p := at + 64*w + bits.TrailingZeros64(m)
				switch {
				case text[p] == '\n':
					if !quoted {
						cut = p + 1
					}
				case quoted:
					quoted, closed = false, p
				case p == 0 || text[p-1] == f.delimiter || text[p-1] == '\n' || closed == p-1:
					quoted = true // else it is a byte like others
				}
			}
		}
	}
	return cut
}

// recordEnd is the size of the first record of text, its line end included, or
// all of text when it does not end there.
func (f *csvFormat) recordEnd(text []byte) int {
	s := fieldScanner{text: text, delimiter: f.delimiter}
	for s.more() {
		s.next()
	}
	return s.at
}

// forms lists the ways from the columns to a record, in its order.
func (f *csvFormat) forms() (all []*fieldForm) {
	at := 0
	add := func(kind columnKind, i, size int) {
		form := f.formOf(kind, i)
		form.at = at
		all = append(all, form)
		at += size
	}
	add(columnLabel, 0, 4)
	if f.weight != "" {
		add(columnWeight, 0, 4)
	}
	for j := range f.dense {
		add(columnDense, j, 4)
	}
	for j := range f.cats {
		if f.bags != nil && f.bags[j] {
			add(columnBag, j, 8)
		} else {
			add(columnCategorical, j, 8)
		}
	}
	return all
}

// formOf is the form of a column: of category i if it is one.
func (f *csvFormat) formOf(kind columnKind, i int) *fieldForm {
	form := &fieldForm{kind: kind, na: f.na, texts: i}
	if kind == columnCategorical || kind == columnBag {
		transform, _ := transformOf(f.transform, f.cats[i])
		form.derive = derivations[transform]
	}
	return form
}
