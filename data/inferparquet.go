package data

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/internal/env"
)

// inferParquet is Infer for a Parquet file. Lists of values are bags. Values of other columns are judged by their texts.
func inferParquet(e env.Env, name, label string) (*Inferred, error) {
	f, err := openParquet(e, name)
	if err != nil {
		return nil, err
	}
	r := &parquetReader{env: e, files: []string{name}, file: f, chunkRows: 4096, next: place{line: 1}, threads: 1}
	defer r.closeFile()
	var columns []columnSample
	var read []int
	err = f.guard(func() error {
		columns, read = f.describeColumns()
		return f.checkChunks()
	})
	if err != nil {
		return nil, err
	}
	for _, i := range read {
		r.uses = append(r.uses, newKeptUse(columns[i].name, func(dst []byte, v *parquetValues, i int) []byte {
			var scratch [64]byte
			return append(dst, v.textOf(i, true, scratch[:])...)
		}))
	}
	var c chunk
	rows := int64(0)
	for rows < min(f.rows, inferRows) {
		if _, err := r.fillChunk(&c); err != nil {
			return nil, err
		}
		for j, i := range read {
			c.parts[j].eachKept(func(_ int, value []byte) { columns[i].addField(value) })
		}
		rows += int64(c.rows)
	}
	if rows == 0 {
		return nil, fileErr(name, "it has no rows")
	}
	in := &Inferred{Format: FormatParquet, Delimiter: ',', Rows: f.rows, Whole: rows == f.rows}
	return in, in.decide(name, label, columns, rows)
}

// describeColumns returns the columns of a file, and the indexes of those with one value a row, to which it sets f.leaves.
func (f *parquetFile) describeColumns() (columns []columnSample, read []int) {
	all := leavesOf(f.root, 0, nil)
	for _, leaf := range all {
		c := newColumnSample(strings.Join(leaf.Path(), "."))
		c.list = leaf.element > 0
		if c.list {
			c.name = leaf.Path()[0]
		}
		below := 0 // columns below the same name
		for _, other := range all {
			if other.Path()[0] == leaf.Path()[0] {
				below++
			}
		}
		switch {
		case c.list && (below > 1 || leaf.MaxRepetitionLevel() > 1):
			c.unread = "a map, or a list of structs or lists"
			if slices.ContainsFunc(columns, func(known columnSample) bool { return known.name == c.name }) {
				continue
			}
		case newParquetType(leaf.Type()).as == asUnknown:
			c.unread = fmt.Sprintf("of type %v", leaf.Type())
		case !c.list:
			read = append(read, len(columns))
			f.leaves = append(f.leaves, leaf)
		}
		columns = append(columns, c)
	}
	return columns, read
}
