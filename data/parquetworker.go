package data

import (
	"github.com/ecrec/ecrec/internal/env"
)

// partsAhead is the number of chunks that a worker reads ahead.
const partsAhead = 2

// parquetParts is the rows of a chunk, of the columns of one worker.
type parquetParts struct {
	parts []parquetPart // of each column
	err   error
}

// parquetWorker reads some of the columns of a file.
type parquetWorker struct {
	file     *parquetFile
	columns  []int         // indexes of parquetFile.leaves
	uses     []*parquetUse // of parquetFile.leaves
	parts    *env.Queue[*parquetParts]
	free     *env.Queue[*parquetParts] // whose memory is reused
	ended    *env.Event
	unpacker unpacker
	scratch  parquetScratch
}

// readColumns puts the chunks from a row on into w.parts, until the end of the file.
func (w *parquetWorker) readColumns(row, most int64) {
	defer w.unpacker.closeDecoder()
	cursors := make([]*parquetCursor, len(w.columns))
	group := -1
	for row < w.file.rows {
		rows := w.file.nextRange(row, most)
		got := w.newParts()
		for i, column := range w.columns {
			part := &got.parts[i]
			if w.file.leaves[column].Column == nil {
				*part = parquetPart{}
				continue
			}
			if got.err = w.file.guard(func() (err error) {
				if rows.group != group {
					if cursors[i], err = w.openColumn(column, rows, part, most); err != nil {
						return err
					}
				}
				return cursors[i].fillPart(part, int(rows.end-rows.begin))
			}); got.err != nil {
				break
			}
		}
		if failed := got.err != nil; !w.parts.Put(got) || failed {
			return
		}
		group = rows.group
		row += rows.end - rows.begin
	}
}

// newParts returns memory for a chunk.
func (w *parquetWorker) newParts() *parquetParts {
	if w.free.Len() > 0 {
		if p, ok := w.free.Get(); ok && len(p.parts) == len(w.columns) {
			return p
		}
	}
	return &parquetParts{parts: make([]parquetPart, len(w.columns))}
}

// openColumn returns the cursor of a column in a row group at row rows.begin. It uses the memory of part.
func (w *parquetWorker) openColumn(column int, rows rowRange, part *parquetPart, most int64) (*parquetCursor, error) {
	f, leaf := w.file, w.file.leaves[column]
	c := &parquetCursor{name: f.name, leaf: leaf, use: w.uses[column], scratch: &w.scratch}
	if leaf.element > 0 {
		c.scratch = new(parquetScratch) // entries are kept from one chunk to the next
	}
	group := &f.meta.RowGroups[rows.group]
	var err error
	if c.pages, err = newParquetPages(f.in, f.size, leaf.Column, &group.Columns[leaf.Index()].MetaData, &w.unpacker); err != nil {
		return nil, err
	}
	if leaf.weight != nil {
		c.weights = &parquetCursor{name: f.name, leaf: parquetLeaf{Column: leaf.weight, element: leaf.element}, scratch: new(parquetScratch),
			use: newParquetUse(c.use.name, &fieldForm{kind: columnDense}, nil, nil)}
		m := &group.Columns[leaf.weight.Index()].MetaData
		if c.weights.pages, err = newParquetPages(f.in, f.size, leaf.weight, m, &w.unpacker); err != nil {
			return nil, err
		}
	}
	for row := int64(0); row < rows.begin; {
		n := min(most, rows.begin-row)
		if err := c.fillPart(part, int(n)); err != nil {
			return nil, err
		}
		row += n
	}
	return c, nil
}
