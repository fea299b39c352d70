package data

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// A KeptColumn is a column of the input that is written before the score.
type KeptColumn struct {
	Name string
	node parquet.Node
	kind parquet.Kind
	text bool // from text, which must be UTF-8
}

// KeptColumns returns the columns of RowOptions.Keep, with their types in the first file: texts, if it is text.
func (r *Rows) KeptColumns() (columns []KeptColumn) {
	for i, name := range r.o.Keep {
		c := KeptColumn{Name: name, node: parquet.String(), kind: parquet.ByteArray, text: true}
		if p := r.parquet; p != nil {
			leaf := p.reader.file.leaves[len(p.reader.uses)-len(r.o.Keep)+i]
			c = KeptColumn{Name: name, node: parquet.Optional(parquet.Leaf(leaf.Type())), kind: leaf.Type().Kind()}
		}
		columns = append(columns, c)
	}
	return columns
}

// scoreColumn is the name of the column of scores.
const scoreColumn = "score"

// scoreRows is the number of rows of a row group, which a ScoreWriter holds in memory.
const scoreRows = 1 << 17

// ScoreWriter writes scores to a Parquet file: the kept columns with their types, then score, a float.
type ScoreWriter struct {
	kept   []KeptColumn
	writer *parquet.GenericWriter[any]
	rows   int // of the row group
	row    []parquet.Row
	scored parquet.Row
}

// NewScoreWriter returns a writer to a file.
func NewScoreWriter(to io.Writer, kept []KeptColumn) (*ScoreWriter, error) {
	root := orderedGroup{Group: parquet.Group{scoreColumn: parquet.Leaf(parquet.FloatType)}}
	names := []string{scoreColumn}
	for i := len(kept) - 1; i >= 0; i-- {
		if name := kept[i].Name; name == "" || root.Group[name] != nil {
			return nil, usageErr("--keep: two columns of the scores would be called %q; remove it", name)
		}
		root.Group[kept[i].Name] = kept[i].node
		names = append(names, kept[i].Name)
	}
	slices.Reverse(names)
	for _, name := range names {
		all := root.Group.Fields()
		root.fields = append(root.fields, all[slices.IndexFunc(all, func(f parquet.Field) bool { return f.Name() == name })])
	}
	w := parquet.NewGenericWriter[any](to, parquet.NewSchema("scores", root), parquet.Compression(&parquet.Snappy))
	return &ScoreWriter{kept: kept, writer: w, row: make([]parquet.Row, 1)}, nil
}

// orderedGroup is a group whose fields are in an order of their own, not in that of their names.
type orderedGroup struct {
	parquet.Group
	fields []parquet.Field
}

// Fields implements parquet.Node.
func (g orderedGroup) Fields() []parquet.Field { return g.fields }

// AppendScore appends a row to out, for Write: its kept values and its score.
func AppendScore(out []byte, kept [][]byte, score float32) []byte {
	for _, value := range kept {
		if value == nil {
			out = binary.LittleEndian.AppendUint32(out, 0)
			continue
		}
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(value))+1), value...)
	}
	return binary.LittleEndian.AppendUint32(out, math.Float32bits(score))
}

// Write writes rows of AppendScore.
func (w *ScoreWriter) Write(rows []byte) (int, error) {
	n := len(rows)
	for len(rows) > 0 {
		w.scored = w.scored[:0]
		for i := range w.kept {
			var value parquet.Value
			var err error
			if value, rows, err = w.kept[i].nextValue(rows, i); err != nil {
				return 0, err
			}
			w.scored = append(w.scored, value)
		}
		score := math.Float32frombits(binary.LittleEndian.Uint32(rows))
		rows = rows[4:]
		w.row[0] = append(w.scored, parquet.FloatValue(score).Level(0, 0, len(w.kept)))
		if _, err := w.writer.WriteRows(w.row); err != nil {
			return 0, err
		}
		if w.rows++; w.rows == scoreRows {
			w.rows = 0
			if err := w.writer.Flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// Close writes the end of the file. It does not close what it writes to.
func (w *ScoreWriter) Close() error { return w.writer.Close() }

// nextValue returns the first value of rows, which belongs to a column, and the rest of them.
func (c *KeptColumn) nextValue(rows []byte, column int) (v parquet.Value, rest []byte, err error) {
	size := int(binary.LittleEndian.Uint32(rows))
	if rows = rows[4:]; size == 0 {
		return parquet.NullValue().Level(0, 0, column), rows, nil
	}
	value := rows[:size-1]
	switch c.kind {
	case parquet.Boolean:
		v = parquet.BooleanValue(value[0] != 0)
	case parquet.Int32:
		v = parquet.Int32Value(int32(binary.LittleEndian.Uint32(value)))
	case parquet.Int64:
		v = parquet.Int64Value(int64(binary.LittleEndian.Uint64(value)))
	case parquet.Float:
		v = parquet.FloatValue(math.Float32frombits(binary.LittleEndian.Uint32(value)))
	case parquet.Double:
		v = parquet.DoubleValue(math.Float64frombits(binary.LittleEndian.Uint64(value)))
	case parquet.FixedLenByteArray:
		v = parquet.FixedLenByteArrayValue(value)
	default:
		if c.text && !utf8.Valid(value) {
			return v, nil, usageErr("--keep: column %q holds bytes that are no UTF-8, as %q does, and texts in Parquet are; write the scores as CSV", c.Name, fmt.Sprintf("%.40s", value))
		}
		v = parquet.ByteArrayValue(value)
	}
	present := 1
	if c.text {
		present = 0
	}
	return v.Level(0, present, column), rows[size-1:], nil
}
