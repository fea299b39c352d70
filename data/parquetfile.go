package data

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/ecrec/ecrec/internal/env"
)

// parquetFile is an open file.
type parquetFile struct {
	file   *os.File
	in     io.ReaderAt // file, through an Env
	name   string
	size   int64
	rows   int64
	meta   *format.FileMetaData
	groups []parquet.RowGroup
	root   *parquet.Column
	leaves []parquetLeaf // of the columns of the record
}

// parquetLeaf is a column with values.
type parquetLeaf struct {
	*parquet.Column
	// element is the least definition level of the elements of a list; 0: the column is no list.
	element byte
	// weight is the column of the weights, of a list of structs of an id and its weight; else nil.
	weight *parquet.Column
}

// openParquet opens a file and reads its footer.
func openParquet(e env.Env, name string) (*parquetFile, error) {
	file, size, err := openFile(e, name)
	if err != nil {
		return nil, err
	}
	in := &readerAt{env: e, file: file, what: "read " + name}
	f := &parquetFile{file: file, in: in, name: name, size: size}
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
			if g.NumRows() < 0 || g.NumRows() > math.MaxInt64-f.rows {
				return fmt.Errorf("a row group of %d rows", g.NumRows())
			}
			f.rows += g.NumRows()
		}
		f.root = pf.Root()
		return nil
	})
	if err != nil {
		head := make([]byte, 512)
		if n, _ := in.ReadAt(head, 0); checkParquetHead(name, head[:n]) != nil { // a file of another kind has no footer either
			err = checkParquetHead(name, head[:n])
		}
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
	case notRead:
		return fileErr(name, "%v, which is not read; write the file again with a current Parquet writer", err)
	}
	return damagedParquet(name, err)
}

func damagedParquet(name string, err error) error {
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = fmt.Errorf("it ends early")
	}
	return fileErr(name, "the Parquet file is cut short or damaged (%v); copy it again, and compare its checksum", err)
}

// parquetColumn is a column that files must have.
type parquetColumn struct {
	name     string
	list     bool   // it may be a list
	weighted bool   // the elements of the list may have weights
	optional bool   // a file may lack it
	kept     bool   // its values are kept as they are
	keptType string // in the first file
}

// leavesOf appends the leaves below a column.
func leavesOf(c *parquet.Column, element byte, leaves []parquetLeaf) []parquetLeaf {
	if c.Repeated() {
		element = byte(c.MaxDefinitionLevel())
	}
	if c.Leaf() {
		return append(leaves, parquetLeaf{Column: c, element: element})
	}
	for _, child := range c.Columns() {
		leaves = leavesOf(child, element, leaves)
	}
	return leaves
}

// findColumns sets f.leaves to columns. The leaf of a column that is not there is empty.
func (f *parquetFile) findColumns(columns []*parquetColumn) error {
	var missing, paths []string
	all := leavesOf(f.root, 0, nil)
	for _, c := range all {
		paths = append(paths, strings.Join(c.Path(), "."))
	}
	for _, c := range columns {
		i, err := f.findColumn(c, all, paths)
		switch {
		case err != nil:
			return err
		case i >= 0:
			f.leaves = append(f.leaves, all[i])
			continue
		case !c.optional:
			missing = append(missing, strconv.Quote(c.name))
		}
		f.leaves = append(f.leaves, parquetLeaf{})
	}
	if len(missing) > 0 {
		for i := range paths {
			paths[i] = strconv.Quote(paths[i])
		}
		return fileErr(f.name, "no column is called %s; there are %s", strings.Join(missing, ", "), strings.Join(paths, ", "))
	}
	return f.checkChunks()
}

// findColumn returns the index of the leaf of a column, -1 if there is none.
func (f *parquetFile) findColumn(c *parquetColumn, all []parquetLeaf, paths []string) (int, error) {
	name := c.name
	i := slices.Index(paths, name)
	if i < 0 {
		below := func(path string) bool { return strings.HasPrefix(path, name+".") }
		i = slices.IndexFunc(paths, below)
		if i < 0 {
			return -1, nil
		}
		if pair := findPair(all[i:], paths[i:], below); pair >= 0 {
			if weight := all[i+1-pair].Column; weight.Type().String() != "NULL" || !c.weighted { // else no element has a weight
				all[i+pair].weight = weight
			}
			i += pair
		} else if all[i].element == 0 || slices.ContainsFunc(paths[i+1:], below) {
			return 0, fileErr(f.name, "column %q is a map, a struct or a list of those; name columns with one value a row, lists of values, "+
				"or lists of structs with the fields id and weight", name)
		}
	} else if slices.Contains(paths[i+1:], name) {
		return 0, fileErr(f.name, "two columns are called %q", name)
	}
	switch leaf := all[i]; {
	case leaf.MaxRepetitionLevel() > 1:
		return 0, fileErr(f.name, "column %q is a list of lists; name columns with one value a row, or lists of values", name)
	case leaf.element > 0 && c.kept:
		return 0, fileErr(f.name, "--keep: column %q is a list; name columns with one value a row", name)
	case leaf.element > 0 && !c.list:
		return 0, fileErr(f.name, "column %q is a list; name it in data.csv.categorical and data.csv.bags, or name columns with one value a row", name)
	case leaf.weight != nil && !c.weighted:
		return 0, fileErr(f.name, "column %q has ids with weights; set data.csv.weighted = true", name)
	case leaf.weight != nil && newParquetType(leaf.weight.Type()).as == asUnknown:
		return 0, fileErr(f.name, "column %q has weights of type %v, which is not read; write them as numbers", name, leaf.weight.Type())
	case c.optional && leaf.Type().String() == "NULL": // a label that no row has
		return -1, nil
	case newParquetType(leaf.Type()).as == asUnknown:
		return 0, fileErr(f.name, "column %q is of type %v, which is not read; write it as a number or a text", name, leaf.Type())
	case c.kept && c.keptType != "" && c.keptType != leaf.Type().String():
		return 0, fileErr(f.name, "--keep: column %q is of type %v, and %s in the first file; write the files with one type", name, leaf.Type(), c.keptType)
	case c.kept:
		c.keptType = leaf.Type().String()
	}
	return i, nil
}

// findPair returns the index of the ids, 0 or 1, among the leaves of a list of structs of an id and its weight. It returns -1 if
// the first leaves are others.
func findPair(leaves []parquetLeaf, paths []string, below func(path string) bool) int {
	if len(leaves) < 2 || !below(paths[1]) || slices.ContainsFunc(paths[2:], below) {
		return -1
	}
	a, b := leaves[0], leaves[1]
	switch {
	case a.element == 0 || a.element != b.element || len(a.Path()) != len(b.Path()):
	case a.Name() == "id" && b.Name() == "weight":
		return 0
	case a.Name() == "weight" && b.Name() == "id":
		return 1
	}
	return -1
}

// checkChunks refuses encodings that the decoder reads wrongly: LZ4, whose output it loses where a page is
// compressed to more than a third, and booleans in runs, as data pages of version 2 have them.
func (f *parquetFile) checkChunks() error {
	for _, g := range f.meta.RowGroups {
		for _, leaf := range f.leaves {
			for _, column := range []*parquet.Column{leaf.Column, leaf.weight} {
				if column == nil {
					continue
				}
				if err := f.checkChunk(column, &g.Columns[column.Index()]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (f *parquetFile) checkChunk(column *parquet.Column, chunk *format.ColumnChunk) error {
	m := &chunk.MetaData
	if chunk.CryptoMetadata.Value != nil {
		return fileErr(f.name, "column %q is encrypted, which is not read; write the file without encryption", column.Name())
	}
	switch m.Codec {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd:
	default:
		return fileErr(f.name, "column %q is compressed with %v, which is not read; write the file with snappy or zstd", column.Name(), m.Codec)
	}
	if column.Type().Kind() == parquet.Boolean && hasRuns(m) {
		return fileErr(f.name, "column %q has booleans in run-length encoding, which is not read; write it as integers, or with data pages of version 1",
			column.Name())
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
