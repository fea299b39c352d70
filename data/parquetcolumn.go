package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/ecrec/ecrec/internal/env"
)

// parquetPart is values of a column for some rows in a row.
type parquetPart struct {
	rows   int
	levels []byte // of each row, whole unless it is null; nil: there is no null
	whole  byte
	index  []int32        // positions in the values, of the rows that are not null; nil: they follow each other
	first  int            // without index: the position of the first value
	in     *parquetValues // of a page or a dictionary
	use    *parquetUse

	// Of bags, which have none of the above but rows and use:
	counts []int32 // ids of each row
	heap   []byte  // the ids, as in a record file
	faults []rowFault
}

// rowFault is a malformed field.
type rowFault struct {
	row  int
	text []byte
	what string
}

// rowBits returns the bits of each row, in scratch if that is of use.
func (p *parquetPart) rowBits(scratch []uint64) []uint64 {
	bits, index := p.in.converted, p.index
	if p.levels == nil && index == nil {
		return bits[p.first:][:p.rows]
	}
	scratch = scratch[:p.rows]
	switch {
	case p.levels == nil:
		for i, at := range index[:len(scratch)] {
			scratch[i] = bits[at]
		}
	case index == nil:
		bits = bits[p.first:]
		for i, level := range p.levels[:len(scratch)] {
			scratch[i] = p.use.missing
			if level == p.whole {
				scratch[i], bits = bits[0], bits[1:]
			}
		}
	default:
		for i, level := range p.levels[:len(scratch)] {
			scratch[i] = p.use.missing
			if level == p.whole {
				scratch[i], index = bits[index[0]], index[1:]
			}
		}
	}
	return scratch
}

// eachValue calls do for each row, with the position of its value, or -1 for a null.
func (p *parquetPart) eachValue(do func(at int)) {
	value := 0
	for row := range p.rows {
		switch {
		case p.levels != nil && p.levels[row] != p.whole:
			do(-1)
			continue
		case p.index != nil:
			do(int(p.index[value]))
		default:
			do(p.first + value)
		}
		value++
	}
}

// listFaults returns the malformed fields.
func (p *parquetPart) listFaults() (faults []rowFault) {
	if p.counts != nil || len(p.in.bad) == 0 && (p.levels == nil || p.use.fault == "") {
		return p.faults
	}
	row := 0
	p.eachValue(func(at int) {
		if at < 0 && p.use.fault != "" {
			faults = append(faults, rowFault{row, nil, p.use.fault})
		} else if what, ok := p.in.bad[at]; ok {
			faults = append(faults, rowFault{row, p.in.textOf(at, !p.use.isCategory(), nil), what})
		}
		row++
	})
	return faults
}

// parquetParts is the rows of a chunk, of the columns of one worker.
type parquetParts struct {
	parts [][]parquetPart // of each column
	err   error
}

// parquetWorker reads some of the columns of a file.
type parquetWorker struct {
	file    *parquetFile
	columns []int         // indexes of parquetFile.leaves
	uses    []*parquetUse // of parquetFile.leaves
	parts   *env.Queue[parquetParts]
	ended   *env.Event
}

// readColumns puts the chunks from a row on into w.parts, until the end of the file.
func (w *parquetWorker) readColumns(row, most int64) {
	cursors := make([]*parquetCursor, len(w.columns))
	defer func() {
		for _, c := range cursors {
			c.closePages()
		}
	}()
	group := -1
	for row < w.file.rows {
		rows := w.file.nextRange(row, most)
		var got parquetParts
		for i, column := range w.columns {
			if w.file.leaves[column].Column == nil {
				got.parts = append(got.parts, nil)
				continue
			}
			if got.err == nil && rows.group != group {
				cursors[i].closePages()
				cursors[i], got.err = w.openColumn(column, rows)
			}
			if got.err == nil {
				var parts []parquetPart
				parts, got.err = cursors[i].takeParts(rows.end - rows.begin)
				got.parts = append(got.parts, parts)
			}
		}
		if !w.parts.Put(got) || got.err != nil {
			return
		}
		group = rows.group
		row += rows.end - rows.begin
	}
}

// openColumn opens the pages of a column in a row group, from rows.begin on.
func (w *parquetWorker) openColumn(column int, rows rowRange) (c *parquetCursor, err error) {
	leaf := w.file.leaves[column]
	c = &parquetCursor{file: w.file, leaf: leaf.Column, element: leaf.element, use: w.uses[column], kind: newParquetType(leaf.Type()), in: new(parquetValues)}
	if err := w.file.guard(func() error {
		c.pages = w.file.groups[rows.group].ColumnChunks()[leaf.Index()].Pages()
		return nil
	}); err != nil {
		return c, err
	}
	_, err = c.takeParts(rows.begin)
	return c, err
}

// parquetCursor walks over the values of a column in a row group.
type parquetCursor struct {
	file    *parquetFile
	leaf    *parquet.Column
	use     *parquetUse
	element byte // of parquetLeaf
	kind    parquetType
	pages   parquet.Pages

	dictionary parquet.Dictionary
	words      *parquetValues // of dictionary

	// The current page. Its memory belongs to the parts that refer to it.
	rows     int // of a list: its entries, which are elements, and one for each row without any
	row      int // the next one
	levels   []byte
	repeated []byte // of a list: 0 where a row begins
	in       *parquetValues
	index    []int32 // into words; nil: the page has no dictionary
	value    int     // the next one
	ended    bool    // no page follows
}

func (c *parquetCursor) closePages() {
	if c != nil && c.pages != nil {
		c.pages.Close()
		c.pages = nil
	}
}

// isText reports whether values are used as texts, which a separator splits.
func (c *parquetCursor) isText() bool { return c.use.bag != nil && c.element == 0 }

// takeParts returns the values of the next n rows.
func (c *parquetCursor) takeParts(n int64) ([]parquetPart, error) {
	switch {
	case c.element > 0:
		return c.takeLists(int(n))
	case c.isText():
		return c.takeFields(n)
	}
	return c.takeRows(n)
}

// takeRows returns the values of the next n rows, of a column with one value a row.
func (c *parquetCursor) takeRows(n int64) (parts []parquetPart, err error) {
	for n > 0 {
		if c.row == c.rows {
			if err := c.file.guard(c.readPage); err != nil {
				return nil, err
			}
			continue
		}
		k := int(min(n, int64(c.rows-c.row)))
		part, err := c.cutPart(k)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		n -= int64(k)
	}
	return parts, nil
}

// cutPart takes the next rows of the page.
func (c *parquetCursor) cutPart(rows int) (parquetPart, error) {
	part := parquetPart{rows: rows, in: c.in, use: c.use, first: c.value, whole: byte(c.leaf.MaxDefinitionLevel())}
	present := rows
	if len(c.levels) > 0 {
		levels := c.levels[c.row : c.row+rows]
		if present = bytes.Count(levels, []byte{part.whole}); present < rows {
			part.levels = levels
		}
	}
	if c.value+present > c.countValues() {
		return part, c.file.damaged(fmt.Errorf("column %q has too few values", c.leaf.Name()))
	}
	if c.index != nil {
		part.index = c.index[c.value : c.value+present]
		if c.use.texts != nil && !c.isText() {
			c.use.addTexts(c.words, part.index)
		}
	}
	c.row += rows
	c.value += present
	return part, nil
}

func (c *parquetCursor) countValues() int {
	if c.index != nil {
		return len(c.index)
	}
	return c.in.n
}

// readPage reads the next page.
func (c *parquetCursor) readPage() error {
	page, err := c.pages.ReadPage()
	if errors.Is(err, io.EOF) {
		c.ended = true
		return fmt.Errorf("column %q has fewer rows than its row group", c.leaf.Name())
	}
	if err != nil {
		return err
	}
	c.rows, c.row, c.value = int(page.NumRows()), 0, 0
	c.levels, c.index, c.repeated = page.DefinitionLevels(), nil, page.RepetitionLevels()
	if c.element > 0 {
		if c.rows = len(c.repeated); len(c.levels) != c.rows {
			return fmt.Errorf("column %q has levels of different numbers", c.leaf.Name())
		}
	}
	data := page.Data()
	if d := page.Dictionary(); d != nil {
		return c.readIndex(d, data.Int32())
	}
	c.in = c.kind.newValues(data, int(page.NumValues()-page.NumNulls()))
	if !c.isText() && !c.use.kept {
		c.use.convert(c.in, c.use.texts)
	}
	return nil
}

// readIndex takes the values of a page, which are positions in a dictionary.
func (c *parquetCursor) readIndex(d parquet.Dictionary, index []int32) error {
	if d != c.dictionary {
		words := d.Page()
		c.dictionary, c.words = d, c.kind.newValues(words.Data(), int(words.NumValues()))
		if !c.isText() && !c.use.kept {
			c.use.convert(c.words, nil)
		}
	}
	largest := uint32(0)
	for _, i := range index {
		largest = max(largest, uint32(i))
	}
	if len(index) > 0 && largest >= uint32(c.words.n) {
		return c.file.damaged(fmt.Errorf("column %q refers to entry %d of a dictionary of %d", c.leaf.Name(), largest, c.words.n))
	}
	if c.in, c.index = c.words, index; index == nil {
		c.index = []int32{}
	}
	return nil
}
