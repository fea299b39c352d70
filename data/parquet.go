package data

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/ecrec/ecrec/internal/env"
)

// parquetFileFormat is the registry's entry. It is converted as text is.
var parquetFileFormat = Format{
	Name:    FormatParquet,
	Doc:     "Apache Parquet; columns are named in [data.csv]",
	Endings: []string{".parquet"},
	Keys:    []string{"csv.label", "csv.weight", "csv.dense", "csv.categorical", "csv.na", "transform"},
	Columns: csvTextFormat.Columns,
	Check:   checkCSV,
	text: func(o *Options) (textFormat, error) {
		c := o.CSV
		c.Delimiter = 0
		f, err := newCSV(c)
		if err != nil {
			return nil, err
		}
		if f.bags != nil {
			return nil, keyError("csv.separator", "fields of Parquet files are one id each; leave it out, or write the columns as CSV")
		}
		f.texts = o.fitsTables()
		return &parquetFormat{csvFormat: f}, nil
	},
}

// parquetFormat makes csvFormat's records of the columns that csvFormat names. A value is
// stored as its text in a CSV file would be. Row groups are read in the order of the file.
type parquetFormat struct{ *csvFormat }

// newReader implements chunked.
func (f *parquetFormat) newReader(o *Options, from place, threads int, texts *textSet) chunkReader {
	return &parquetReader{env: o.Env, files: o.Files, format: f, uses: f.newUses(texts), next: from, threads: threads}
}

// newUses returns the uses of the columns, in the order of the record.
func (f *parquetFormat) newUses(texts *textSet) (uses []*parquetUse) {
	add := func(kind columnKind, i int, texts *textSet) {
		uses = append(uses, newParquetUse(f.formOf(kind, i), texts, nil))
	}
	add(columnLabel, 0, nil)
	if f.weight != "" {
		add(columnWeight, 0, nil)
	}
	for i := range f.dense {
		add(columnDense, i, nil)
	}
	for i := range f.cats {
		add(columnCategorical, i, texts)
	}
	return uses
}

// checkHead implements checked.
func (f *parquetFormat) checkHead(name string, head []byte) error {
	switch kind := sniff(head); {
	case kind != nil && kind.is == parquetKind:
		return nil
	case kind != nil:
		return fileErr(name, "it is %s, not Parquet; %s", kind.is, kind.remedy)
	case isText(head):
		return fileErr(name, `it is text, not Parquet; set data.format = "csv"`)
	}
	return fileErr(name, "it is not Parquet; name a file of samples")
}

// chunkRows is the number of rows that are parsed at a time: their records stay in the cache of a core.
func (f *parquetFormat) chunkRows() int64 {
	return int64(min(max(512<<10/f.recordBytes(), 1<<8), 1<<15))
}

// parquetReader cuts the rows of Parquet files into chunks. Columns are read by several
// goroutines, each of which has some of them. A place's offset counts rows of the file.
type parquetReader struct {
	env     env.Env
	files   []string
	format  *parquetFormat
	uses    []*parquetUse // of the columns
	next    place
	threads int

	file    *parquetFile // nil: none is open
	workers []*parquetWorker
}

// parquetFile is an open file.
type parquetFile struct {
	file   *os.File
	name   string
	size   int64
	rows   int64
	meta   *format.FileMetaData
	groups []parquet.RowGroup
	leaves []*parquet.Column // of the columns of the record
}

// rowRange is rows of one row group, counted from its start.
type rowRange struct {
	group      int
	begin, end int64
}

// nextRange is the range of rows of the chunk that begins at a row of the file.
func (f *parquetFile) nextRange(row, most int64) (r rowRange) {
	for row >= f.groups[r.group].NumRows() {
		row -= f.groups[r.group].NumRows()
		r.group++
	}
	r.begin = row
	r.end = min(row+most, f.groups[r.group].NumRows())
	return r
}

func (r *parquetReader) closeFile() {
	for _, w := range r.workers {
		w.parts.Close()
	}
	for _, w := range r.workers {
		_ = w.ended.Wait()
	}
	if r.file != nil {
		r.file.file.Close()
	}
	r.file, r.workers = nil, nil
}

// fillChunk implements chunkReader.
func (r *parquetReader) fillChunk(c *chunk) (bool, error) {
	for {
		if r.file == nil {
			if r.next.file == len(r.files) {
				return false, nil
			}
			if err := r.openNext(); err != nil {
				return false, err
			}
		}
		if r.next.offset < r.file.rows {
			break
		}
		r.closeFile()
		r.next = place{file: r.next.file + 1, line: 1}
	}
	rows := r.file.nextRange(r.next.offset, r.format.chunkRows())
	n := rows.end - rows.begin
	c.at, c.text, c.rows = r.next, nil, int(n)
	c.parts = grown(c.parts, len(r.file.leaves))
	for _, w := range r.workers {
		got, ok := w.parts.Get()
		if !ok {
			panic("data: rows are read after their reader was closed")
		}
		if got.err != nil {
			return false, got.err
		}
		for i, column := range w.columns {
			c.parts[column] = got.parts[i]
		}
	}
	r.next.offset += n
	r.next.line += n
	c.fileBytes = int64(float64(r.file.size) * (float64(r.next.offset) / float64(r.file.rows)))
	return true, nil
}

// openNext opens the file at r.next and starts to read its columns.
func (r *parquetReader) openNext() error {
	f, err := openParquet(r.env, r.files[r.next.file])
	if err != nil {
		return err
	}
	if err := f.findColumns(r.format.columnNames()); err != nil {
		f.file.Close()
		return err
	}
	r.file = f
	n := min(max(r.threads, 1), len(f.leaves))
	for i := range n {
		w := &parquetWorker{file: f, uses: r.uses, parts: env.NewQueue[parquetParts](r.env, "parquet parts", 2), ended: env.NewEvent(r.env, "parquet ended")}
		for column := i; column < len(f.leaves); column += n {
			w.columns = append(w.columns, column)
		}
		r.workers = append(r.workers, w)
		first, most := r.next.offset, r.format.chunkRows()
		r.env.Go("parquet columns", func() {
			defer w.ended.Set(nil)
			w.readColumns(first, most)
		})
	}
	return nil
}

// readerAt reads a file through an Env.
type readerAt struct {
	env  env.Env
	file *os.File
	what string
}

// ReadAt implements io.ReaderAt.
func (r *readerAt) ReadAt(b []byte, off int64) (n int, err error) {
	err = r.env.Do(r.what, func() error {
		n, err = r.file.ReadAt(b, off)
		return err
	})
	return n, err
}

// openParquet opens a file and reads its footer.
func openParquet(e env.Env, name string) (*parquetFile, error) {
	file, size, err := openFile(e, name)
	if err != nil {
		return nil, err
	}
	f := &parquetFile{file: file, name: name, size: size}
	in := &readerAt{env: e, file: file, what: "read " + name}
	err = f.guard(func() error {
		if err := checkFooter(in, size); err != nil {
			return err
		}
		pf, err := parquet.OpenFile(in, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
		if err != nil {
			return err
		}
		f.meta, f.groups = pf.Metadata(), pf.RowGroups()
		for _, g := range f.groups {
			if g.NumRows() < 0 {
				return fmt.Errorf("a row group of %d rows", g.NumRows())
			}
			f.rows += g.NumRows()
		}
		f.leaves = leavesOf(pf.Root(), nil)
		return nil
	})
	if err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

// checkFooter checks the size of the footer, before memory is taken for it.
func checkFooter(in io.ReaderAt, size int64) error {
	var end [8]byte
	if size < 12 {
		return io.ErrUnexpectedEOF
	}
	if _, err := in.ReadAt(end[:], size-8); err != nil {
		return err
	}
	if n := int64(binary.LittleEndian.Uint32(end[:])); string(end[4:]) != "PAR1" || n > size-12 {
		return fmt.Errorf("it does not end with a footer")
	}
	return nil
}

// guard turns errors and panics of the decoder, on a damaged file, into errors
// of the input.
func (f *parquetFile) guard(do func() error) (err error) { return guardParquet(f.name, do) }

func guardParquet(name string, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = damagedParquet(name, fmt.Errorf("%v", p))
		}
	}()
	err = do()
	switch err.(type) {
	case nil, *Error:
		return err
	case *os.PathError:
		return fmt.Errorf("read Parquet: %w", err)
	}
	return damagedParquet(name, err)
}

func (f *parquetFile) damaged(err error) error { return damagedParquet(f.name, err) }

func damagedParquet(name string, err error) error {
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = fmt.Errorf("it ends early")
	}
	return fileErr(name, "the Parquet file is cut short or damaged (%v); copy it again, and compare its checksum", err)
}

// leavesOf appends the leaves below a column.
func leavesOf(c *parquet.Column, leaves []*parquet.Column) []*parquet.Column {
	if c.Leaf() {
		return append(leaves, c)
	}
	for _, child := range c.Columns() {
		leaves = leavesOf(child, leaves)
	}
	return leaves
}

// findColumns replaces f.leaves by the columns of names.
func (f *parquetFile) findColumns(names []string) error {
	var found []*parquet.Column
	var missing, all []string
	for _, c := range f.leaves {
		all = append(all, strings.Join(c.Path(), "."))
	}
	for _, name := range names {
		i := slices.Index(all, name)
		switch {
		case i < 0 && slices.ContainsFunc(all, func(path string) bool { return strings.HasPrefix(path, name+".") }):
			return fileErr(f.name, "column %q is a list, a map or a struct; name columns with one value a row", name)
		case i < 0:
			missing = append(missing, strconv.Quote(name))
		case slices.Contains(all[i+1:], name):
			return fileErr(f.name, "two columns are called %q", name)
		case f.leaves[i].MaxRepetitionLevel() > 0:
			return fileErr(f.name, "column %q is a list; name columns with one value a row", name)
		case newParquetType(f.leaves[i].Type()).as == asUnknown:
			return fileErr(f.name, "column %q is of type %v, which is not read; write it as a number or a text", name, f.leaves[i].Type())
		default:
			found = append(found, f.leaves[i])
		}
	}
	if len(missing) > 0 {
		for i := range all {
			all[i] = strconv.Quote(all[i])
		}
		return fileErr(f.name, "no column is called %s; there are %s", strings.Join(missing, ", "), strings.Join(all, ", "))
	}
	f.leaves = found
	return f.guard(f.checkChunks)
}

// checkChunks refuses encodings that the decoder reads wrongly: LZ4, whose output it loses where a page is
// compressed to more than a third, and booleans in runs, as data pages of version 2 have them.
func (f *parquetFile) checkChunks() error {
	for _, g := range f.meta.RowGroups {
		for _, leaf := range f.leaves {
			m := &g.Columns[leaf.Index()].MetaData
			switch m.Codec {
			case format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd:
			default:
				return fileErr(f.name, "column %q is compressed with %v, which is not read; write the file with snappy or zstd", leaf.Name(), m.Codec)
			}
			if leaf.Type().Kind() == parquet.Boolean && hasRuns(m) {
				return fileErr(f.name, "column %q has booleans in run-length encoding, which is not read; write it as integers, or with data pages of version 1",
					leaf.Name())
			}
		}
	}
	return nil
}

// hasRuns reports whether values, and not only levels, may be in run-length encoding.
func hasRuns(m *format.ColumnMetaData) bool {
	for _, s := range m.EncodingStats {
		if s.Encoding == format.RLE && s.PageType != format.DictionaryPage {
			return true
		}
	}
	return !slices.Contains(m.Encoding, format.Plain)
}
