package serve

import (
	"bytes"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/predict"
)

// The ways to write the values of a row.
const (
	rowsByName     = "columns"    // of columns with names
	rowsByPosition = "dense, ids" // the raw fields of criteo-tsv
	rowsDirect     = "as trained" // numbers as they enter the model, and ids below the rows of their tables
)

// listSeparator separates the ids of a bag in a field. No text of a request may hold it.
const listSeparator = 0

// encoder makes samples of fields, as data.Encoder does.
type encoder interface {
	Resize(b *data.Batch, n int)
	EncodeSample(b *data.Batch, i int, fields [][]byte) (bad int, what string)
}

// rowForm describes the fields of the rows of a model.
type rowForm struct {
	way       string
	recipe    *data.Recipe // whose bags are separated by listSeparator
	schema    data.Schema
	names     []string // of the fields
	uses      map[string][]int
	bag       []bool // of each field
	separator byte   // in the text of a bag
	hots      bool   // rowsDirect: all features are bags
	dense     int    // the first fields
}

func newRowForm(cfg *config.Config, form *predict.Form, recipe *data.Recipe) (*rowForm, error) {
	f := &rowForm{schema: form.Schema(), uses: map[string][]int{}, dense: form.Schema().Dense}
	if err := form.CheckRecipe(recipe); err != nil {
		return nil, err
	}
	f.bag = make([]bool, f.dense+f.schema.Features())
	switch {
	case recipe.HasNames():
		f.way = rowsByName
		r := *recipe
		r.Categorical = append([]data.Category(nil), recipe.Categorical...)
		for i := range r.Categorical {
			if c := &r.Categorical[i]; c.Separator != "" {
				f.bag[f.dense+i], f.separator = true, byte([]rune(c.Separator)[0])
				c.Separator = string(rune(listSeparator))
			}
		}
		f.recipe = &r
		e, err := r.NewEncoder()
		if err != nil {
			return nil, err
		}
		f.names = e.Columns()
		for i, name := range f.names {
			f.uses[name] = append(f.uses[name], i)
		}
		return f, nil
	case textFormat(cfg) == data.FormatCriteoTSV:
		f.way, f.recipe = rowsByPosition, recipe
	default:
		f.way, f.hots = rowsDirect, cfg.Data.Hots.IDs != nil
		for i := range f.schema.Features() {
			f.bag[f.dense+i] = true
		}
	}
	for i := range f.bag {
		if i < f.dense {
			f.names = append(f.names, "dense["+strconv.Itoa(i)+"]")
		} else {
			f.names = append(f.names, "ids["+strconv.Itoa(i-f.dense)+"]")
		}
	}
	return f, nil
}

// textFormat is the format of the rows that a run read: in files, or in the messages of a topic.
func textFormat(cfg *config.Config) string {
	if !cfg.ReadsTopic() {
		return cfg.Data.Format
	}
	columns := cfg.DataOptions(false).CSV
	return data.MessageFormat(&columns)
}

// The bounds of the ids of all fields: of a row, and of a batch that takes another one. Each id is a row in the memory of a lane.
const (
	maxRowIDs = 1 << 16
	fullBatch = 1 << 15
)

// rowReader makes batches of rows. It belongs to one goroutine.
type rowReader struct {
	*rowForm
	encoder
	fields [][]byte // of the row
	seen   []bool   // the fields that are set
	batch  data.RowBatch
	most   int
	ids    int // in the batch
}

// newReader returns a reader for batches of at most most rows.
func (f *rowForm) newReader(most int) (r *rowReader, err error) {
	r = &rowReader{rowForm: f, fields: make([][]byte, len(f.names)), seen: make([]bool, len(f.names)), most: most}
	switch f.way {
	case rowsByName:
		r.encoder, err = f.recipe.NewEncoder()
	case rowsByPosition:
		r.encoder, err = f.recipe.NewTSVEncoder()
	default:
		r.encoder = &directEncoder{form: f}
	}
	r.batch.HasLabel = make([]bool, most) // they have none
	return r, err
}

// beginBatch begins with a batch.
func (r *rowReader) beginBatch() {
	r.Resize(&r.batch.Batch, r.most)
	r.ids = 0
}

// takesMore reports whether a batch of n rows takes another one.
func (r *rowReader) takesMore(n int) bool { return n < r.most && r.ids < fullBatch }

// beginRow begins with a row.
func (r *rowReader) beginRow() { clear(r.seen) }

// setField sets a field.
func (r *rowReader) setField(i int, text []byte) error {
	if r.seen[i] {
		return badRequest("%s is there twice", r.fieldName(i))
	}
	if r.bag[i] {
		if bytes.IndexByte(text, listSeparator) >= 0 {
			return badRequest("%s: the character 0 is in it", r.fieldName(i))
		}
		if r.way == rowsByName && bytes.IndexByte(text, r.separator) >= 0 {
			text = bytes.ReplaceAll(text, []byte{r.separator}, []byte{listSeparator})
		}
	}
	r.fields[i], r.seen[i] = text, true
	return nil
}

// setList sets a field to a bag. listSeparator is between its ids.
func (r *rowReader) setList(i int, ids []byte) error {
	if r.seen[i] {
		return badRequest("%s is there twice", r.fieldName(i))
	}
	if !r.bag[i] {
		return badRequest("%s has one value, not a list", r.fieldName(i))
	}
	r.fields[i], r.seen[i] = ids, true
	return nil
}

// fieldName names a field for a user.
func (r *rowReader) fieldName(i int) string {
	if r.way == rowsByName {
		return "column " + strconv.Quote(r.names[i])
	}
	return r.names[i]
}

// endRow makes row i of the batch of the fields.
func (r *rowReader) endRow(i int) error {
	for j, seen := range r.seen {
		if !seen {
			return badRequest("%s is missing; write null for a value that is not known", r.fieldName(j))
		}
	}
	ids := r.schema.Features()
	for j, bag := range r.bag {
		if bag {
			ids += bytes.Count(r.fields[j], []byte{listSeparator})
		}
	}
	if r.ids += ids; ids > maxRowIDs {
		return badRequest("it has %d ids, at most %d are allowed", ids, maxRowIDs)
	}
	if j, what := r.EncodeSample(&r.batch.Batch, i, r.fields); what != "" {
		return badRequest("%s, %.40q: %s", r.fieldName(j), bytes.ReplaceAll(r.fields[j], []byte{listSeparator}, []byte{' '}), what)
	}
	return nil
}

// endBatch cuts the batch to n rows.
func (r *rowReader) endBatch(n int) *data.RowBatch {
	b := &r.batch
	b.N = n
	if e, ok := r.encoder.(*directEncoder); ok {
		e.setBags(&b.Batch)
	}
	b.Labels, b.Dense = b.Labels[:n], b.Dense[:n*r.schema.Dense]
	if b.Offsets == nil {
		b.IDs = b.IDs[:n*r.schema.Features()]
	}
	return b
}

// directEncoder makes samples of rows as they enter the model: numbers, and ids below the rows of their tables.
type directEncoder struct {
	form           *rowForm
	offsets        []int32
	weights        []float32
	bags, weighted bool // needs of the batch
}

// Resize implements encoder.
func (e *directEncoder) Resize(b *data.Batch, n int) {
	if cap(b.Labels) < n {
		b.Labels, b.Dense = make([]float32, n), make([]float32, n*e.form.schema.Dense)
	}
	b.Labels, b.Dense, b.IDs = b.Labels[:n], b.Dense[:n*e.form.schema.Dense], b.IDs[:0]
	e.offsets, e.weights = append(e.offsets[:0], 0), e.weights[:0]
	e.bags, e.weighted = e.form.hots, false
}

// EncodeSample implements encoder.
func (e *directEncoder) EncodeSample(b *data.Batch, i int, fields [][]byte) (bad int, what string) {
	n := e.form.dense
	for j, text := range fields[:n] {
		x, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 32)
		if err != nil {
			return j, "not a number of 32 bits"
		}
		b.Dense[i*n+j] = float32(x)
	}
	for f, text := range fields[n:] {
		for more := len(text) > 0; more; {
			var id []byte
			id, text, more = bytes.Cut(text, []byte{listSeparator})
			if what = e.appendID(b, f, id); what != "" {
				return n + f, what
			}
		}
		e.bags = e.bags || int(e.offsets[len(e.offsets)-1])+1 != len(b.IDs)
		e.offsets = append(e.offsets, int32(len(b.IDs)))
	}
	return -1, ""
}

// appendID appends an id, and its weight.
func (e *directEncoder) appendID(b *data.Batch, feature int, text []byte) (what string) {
	rows := uint64(e.form.schema.Tables[e.form.schema.TableOfFeature(feature)])
	text, weight, weighted := bytes.Cut(text, []byte{':'})
	id, err := strconv.ParseUint(unsafe.String(unsafe.SliceData(text), len(text)), 10, 64)
	if err != nil || id >= rows {
		return fmt.Sprintf("not an id from 0 to %d", rows-1)
	}
	w := 1.0
	if weighted {
		if w, err = strconv.ParseFloat(string(weight), 32); err != nil {
			return "the weight after the colon is not a decimal number"
		}
		e.bags, e.weighted = true, true
	}
	b.IDs, e.weights = append(b.IDs, uint32(id)), append(e.weights, float32(w))
	return ""
}

// setBags sets the bags of the batch, if it needs them: one id in each cell has the bits of training then.
func (e *directEncoder) setBags(b *data.Batch) {
	b.Offsets, b.Weights = nil, nil
	if e.bags {
		b.Offsets = e.offsets
	}
	if e.weighted {
		b.Weights = e.weights
	}
}
