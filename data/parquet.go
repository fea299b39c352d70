package data

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/ecrec/ecrec/internal/env"
)

// parquetFileFormat is the registry's entry. It is converted as text is.
var parquetFileFormat = Format{
	Name:    FormatParquet,
	Doc:     "Apache Parquet; columns are named in [data.csv]",
	Endings: []string{".parquet"},
	Keys:    []string{"csv.label", "csv.weight", "csv.dense", "csv.categorical", "csv.na", "transform", "csv.separator", "csv.bags", "csv.weighted"},
	Columns: csvTextFormat.Columns,
	Check: func(o *Options) error {
		columns := *o
		columns.CSV.Delimiter = 0
		return checkCSV(&columns)
	},
	text: func(o *Options) (textFormat, error) {
		c := o.CSV
		c.Delimiter = 0
		f, err := newCSV(c)
		if err != nil {
			return nil, err
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
	return &parquetReader{env: o.Env, files: o.Files, uses: f.newUses(texts), chunkRows: f.chunkRows(), next: from, threads: threads}
}

// newUses returns the uses of the columns, in the order of the record.
func (f *parquetFormat) newUses(texts *textSet) (uses []*parquetUse) {
	add := func(kind columnKind, i int, texts *textSet) {
		uses = append(uses, newParquetUse(f.columnNames()[len(uses)], f.formOf(kind, i), texts, nil))
	}
	add(columnLabel, 0, nil)
	if f.weight != "" {
		add(columnWeight, 0, nil)
	}
	for i := range f.dense {
		add(columnDense, i, nil)
	}
	for i := range f.cats {
		if f.bags != nil && f.bags[i] {
			add(columnBag, i, texts)
			uses[len(uses)-1].setBag(f.csvFormat)
			continue
		}
		add(columnCategorical, i, texts)
	}
	return uses
}

// checkHead implements checked.
func (f *parquetFormat) checkHead(name string, head []byte) error {
	return checkParquetHead(name, head)
}

// checkParquetHead returns an error if the beginning of a file is that of another kind of file.
func checkParquetHead(name string, head []byte) error {
	switch kind := sniff(head); {
	case bytes.HasPrefix(head, []byte(parquetMagic)): // also if the rest is text, as in a file that is cut short
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
	rows := int64(min(max(512<<10/f.recordBytes(), 1<<8), 1<<15))
	if f.bags != nil {
		return min(rows, bagBlockRecords)
	}
	return rows
}

// parquetReader cuts the rows of Parquet files into chunks. Columns are read by several
// goroutines, each of which has some of them. A place's offset counts rows of the file.
type parquetReader struct {
	env       env.Env
	files     []string
	uses      []*parquetUse // of the columns
	chunkRows int64
	next      place
	threads   int

	file    *parquetFile     // nil: none is open
	workers []*parquetWorker // of file; nil: it is not being read yet
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
		w.free.Close()
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
		if r.workers == nil {
			r.startWorkers()
		}
		if r.next.offset < r.file.rows {
			break
		}
		r.closeFile()
		r.next = place{file: r.next.file + 1, line: 1}
	}
	rows := r.file.nextRange(r.next.offset, r.chunkRows)
	n := rows.end - rows.begin
	c.at, c.text, c.rows = r.next, nil, int(n)
	if len(c.parts) != len(r.file.leaves) {
		c.parts = make([]parquetPart, len(r.file.leaves))
	}
	for _, w := range r.workers {
		got, ok := w.parts.Get()
		if !ok {
			panic("data: rows are read after their reader was closed")
		}
		if got.err != nil {
			return false, got.err
		}
		for i, column := range w.columns {
			c.parts[column], got.parts[i] = got.parts[i], c.parts[column]
		}
		if w.free.Len() < partsAhead {
			w.free.Put(got)
		}
	}
	r.next.offset += n
	r.next.line += n
	c.fileBytes = int64(float64(r.file.size) * (float64(r.next.offset) / float64(r.file.rows)))
	return true, nil
}

// openNext opens the file at r.next and finds its columns.
func (r *parquetReader) openNext() error {
	f, err := openParquet(r.env, r.files[r.next.file])
	if err != nil {
		return err
	}
	var columns []*parquetColumn
	for _, use := range r.uses {
		columns = append(columns, &use.parquetColumn)
	}
	if err := f.guard(func() error { return f.findColumns(columns) }); err != nil {
		f.file.Close()
		return err
	}
	r.file = f
	return nil
}

// startWorkers starts to read the columns of the open file.
func (r *parquetReader) startWorkers() {
	f := r.file
	for _, columns := range f.shareColumns(min(max(r.threads, 1), len(f.leaves))) {
		w := &parquetWorker{file: f, uses: r.uses, columns: columns, ended: env.NewEvent(r.env, "parquet ended"),
			parts: env.NewQueue[*parquetParts](r.env, "parquet parts", partsAhead), free: env.NewQueue[*parquetParts](r.env, "parquet free", partsAhead)}
		r.workers = append(r.workers, w)
		first, most := r.next.offset, r.chunkRows
		r.env.Go("parquet columns", func() {
			defer w.ended.Set(nil)
			w.readColumns(first, most)
		})
	}
}

// shareColumns shares the indexes of f.leaves out to n goroutines, so that each has about as much work.
func (f *parquetFile) shareColumns(n int) [][]int {
	work := make([]int64, len(f.leaves))
	order := make([]int, len(f.leaves))
	for i, leaf := range f.leaves {
		order[i] = i
		for _, g := range f.meta.RowGroups {
			if leaf.Column != nil {
				m := &g.Columns[leaf.Index()].MetaData
				work[i] += m.NumValues + 2*m.TotalUncompressedSize // measured: two values take as long as a byte
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(work[b], work[a]) })
	shares, sums := make([][]int, n), make([]int64, n)
	for _, i := range order {
		to := slices.Index(sums, slices.Min(sums))
		if len(shares[to]) > 0 && slices.ContainsFunc(shares, func(s []int) bool { return len(s) == 0 }) {
			to = slices.IndexFunc(shares, func(s []int) bool { return len(s) == 0 })
		}
		shares[to] = append(shares[to], i)
		sums[to] += work[i]
	}
	return shares
}
