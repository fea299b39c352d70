package data

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// NewRecipe returns the recipe of the options: the one that Open uses if it is Complete.
func NewRecipe(o Options) (*Recipe, error) {
	if o.Recipe != nil {
		return o.Recipe, nil
	}
	return newRecipe(&o)
}

// newRecipe returns the recipe of settings, with the rows of Options.Tables.
func newRecipe(o *Options) (*Recipe, error) {
	f, err := o.findFormat()
	if err != nil {
		return nil, err
	}
	r := &Recipe{Version: recipeVersion, Format: f.Name, Dense: []DenseColumn{}, Categorical: []Category{}}
	if f.Topic {
		r.Format = MessageFormat(&o.CSV)
	}
	if f.Reads("csv.categorical") && len(o.CSV.Categorical) > 0 {
		r.addColumns(&o.CSV)
	} else {
		dense, categorical := f.Columns(o.CSV)
		if categorical == Any {
			categorical = len(o.featureRows())
		}
		r.addCounted(dense, categorical, f.Scaled)
	}
	if n := len(o.featureRows()); n != len(r.Categorical) {
		return nil, f.tablesError(len(r.Categorical), n)
	}
	r.setRows(o)
	return r, nil
}

// addColumns adds columns that have names.
func (r *Recipe) addColumns(c *CSV) {
	delimiter := c.Delimiter
	if delimiter == 0 {
		delimiter = ','
	}
	r.Delimiter, r.Label = string(rune(delimiter)), c.Label
	r.NA = c.NA
	for _, name := range c.Dense {
		transform, of := c.derivedFrom(name)
		r.Dense = append(r.Dense, DenseColumn{Column: name, Of: of, Transform: cmp.Or(transform, TransformLog1p)})
	}
	if slices.ContainsFunc(slices.Concat(c.Dense, c.Categorical), func(name string) bool { _, of := c.derivedFrom(name); return of != "" }) {
		r.Version = derivedVersion
	}
	mask := c.bagMask()
	for f, name := range c.Categorical {
		transform, of := c.derivedFrom(name)
		category := Category{Column: name, Of: of, Transform: transform, IDs: IDsHash}
		if mask != nil && mask[f] {
			category.Separator, category.Weighted = string(rune(cmp.Or(c.Separator, '|'))), c.Weighted // of lists: in text
		}
		r.Categorical = append(r.Categorical, category)
	}
}

// derivedFrom is the transform of a feature, and the column that it is made of if that has another name.
func (c *CSV) derivedFrom(name string) (transform, of string) {
	transform, column := transformOf(c.Transform, name)
	if column == name {
		return transform, ""
	}
	return transform, column
}

// recipeOf returns the recipe for record files of a kind but Criteo's, with a number of dense features. The columns of the
// settings may be missing.
func (o *Options) recipeOf(kind recordKind, dense int) (*Recipe, error) {
	r, features := o.Recipe, len(o.featureRows())
	switch {
	case kind == recordScaled && len(o.CSV.Categorical) > 0:
		return nil, usageErr("the columns of the record file have no names, as it was made from arrays; remove the names in [data.csv]")
	case kind == recordScaled:
		r = &Recipe{Version: recipeVersion, Format: o.Format}
		r.addCounted(dense, features, true)
		r.setRows(o)
	case r != nil && (r.Source != "" || len(r.Dense) == dense): // else the error is about the settings
	case len(o.CSV.Categorical) == features && len(o.CSV.Dense) == dense:
		r = &Recipe{Version: recipeVersion, Format: o.Format}
		r.addColumns(&o.CSV)
		r.setRows(o)
	default:
		r = &Recipe{Version: recipeVersion, Format: o.Format}
		r.addCounted(dense, features, false)
		r.setRows(o)
		for i := range r.Categorical {
			r.Categorical[i].IDs = IDsHash
		}
	}
	if len(r.Dense) != dense || len(r.Categorical) != features {
		return nil, usageErr("the recipe has %d dense and %d categorical columns, the samples have %d and %d", len(r.Dense), len(r.Categorical),
			dense, features)
	}
	if !r.Complete() {
		return nil, usageErr("the tables or transforms of the data are not counted yet; call Fit")
	}
	return r, nil
}

// An Encoder makes samples of the fields of rows, by a recipe. It computes the bits that Open's
// Source has for the same rows. It belongs to one goroutine.
type Encoder struct {
	recipe *Recipe
	schema Schema
	codec  *csvCodec
	forms  []*fieldForm // of each column
	at     []int        // its place in the record
	record []byte
	bags   *csvFormat // how fields of several ids are read; nil: no column has them
	chunk  chunk      // the heap of one sample
}

// NewEncoder returns an encoder for rows of text.
func (r *Recipe) NewEncoder() (*Encoder, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	e := &Encoder{recipe: r, schema: r.Schema(), bags: r.bagFormat()}
	switch r.Format {
	case FormatCSV, FormatAvazuCSV, FormatParquet, FormatRecord:
		e.codec = newCSVCodec(r, recordCSV)
		at := 4
		for range r.Dense {
			e.forms, e.at = append(e.forms, &fieldForm{kind: columnDense, na: r.NA}), append(e.at, at)
			at += 4
		}
		for i := range r.Categorical {
			form := &fieldForm{kind: columnCategorical, na: r.NA, derive: derivations[r.Categorical[i].Transform]}
			if e.bags != nil && e.bags.bags[i] {
				form.kind = columnBag
			}
			e.forms, e.at = append(e.forms, form), append(e.at, at)
			at += 8
		}
		if e.bags != nil {
			at += 4 // the place of the ids in the heap: always 0
		}
		e.record = make([]byte, at)
		return e, nil
	}
	return nil, usageErr("rows of data.format = %q have no columns with names; an encoder needs csv", r.Format)
}

// Columns lists the columns in the order of the fields of EncodeSample: those of the numbers, then those of the
// categories. A column of which several features are made is there for each of them.
func (e *Encoder) Columns() (names []string) { return e.recipe.columnNames() }

// bagFormat returns the way fields of several ids are read, nil if no column has them. The recipe is valid.
func (r *Recipe) bagFormat() *csvFormat {
	mask := make([]bool, len(r.Categorical))
	f := &csvFormat{}
	for i, c := range r.Categorical {
		if mask[i] = c.Separator != ""; mask[i] {
			f.bags, f.separator, f.weighted = mask, byte([]rune(c.Separator)[0]), c.Weighted
		}
	}
	if f.bags == nil {
		return nil
	}
	return f
}

// Resize makes room in b for n samples, whose contents are undefined.
func (e *Encoder) Resize(b *Batch, n int) {
	if e.bags != nil {
		b.beginBags(n, &e.schema)
		return
	}
	b.resize(n, &e.schema)
}

// EncodeSample fills sample i of b with the fields of a row, in the order of Columns; a field
// that is not there is empty. Samples are filled in their order; one that is filled again replaces
// the last one. The label becomes 0. It returns the index of the first malformed field and the
// mistake in it, or -1.
func (e *Encoder) EncodeSample(b *Batch, i int, fields [][]byte) (bad int, what string) {
	if e.bags != nil {
		return e.encodeBags(b, i, fields)
	}
	numbers := len(e.codec.dense)
	dense, ids := b.Dense[i*numbers:][:numbers], b.IDs[i*len(e.codec.ids):][:len(e.codec.ids)]
	for j := range dense {
		x, what := e.forms[j].readNumber(fields[j])
		if what != "" {
			return j, what
		}
		dense[j] = e.codec.dense[j].mapNumber(x)
	}
	for j := range ids {
		h, what := e.forms[numbers+j].readCategory(fields[numbers+j], nil)
		if what != "" {
			return numbers + j, what
		}
		ids[j] = e.codec.ids[j].mapHash(h)
	}
	b.Labels[i] = 0
	return -1, ""
}

// encodeBags is EncodeSample for samples with bags.
func (e *Encoder) encodeBags(b *Batch, i int, fields [][]byte) (bad int, what string) {
	e.chunk.heap = e.chunk.heap[:0]
	for j, form := range e.forms {
		rec := e.record[e.at[j]:]
		if form.kind == columnBag {
			what = e.bags.storeBag(&e.chunk, form, fields[j], rec, 0)
		} else {
			what = form.storeField(fields[j], rec, nil)
		}
		if what != "" {
			return j, what
		}
	}
	binary.LittleEndian.PutUint32(e.record, 0)
	b.Offsets = b.Offsets[:1+i*len(e.codec.ids)]
	n := b.Offsets[len(b.Offsets)-1]
	b.IDs, b.Weights = b.IDs[:n], b.Weights[:min(int(n), len(b.Weights))]
	e.codec.decodeBags(b, i, e.record, e.chunk.heap, e.bags.bags, e.bags.weighted)
	return -1, ""
}
