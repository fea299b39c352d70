package data

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// The versions of the JSON of recipes.
const (
	recipeVersion  = 1
	derivedVersion = 2 // features are made of columns of other names
	hashesVersion  = 3 // a vocabulary has hashes
)

// Recipe describes how a row of fields becomes a sample: all that is needed to compute the inputs of a model
// from raw data. It is saved with the run and the model.
type Recipe struct {
	Version     int           `json:"version"`
	Format      string        `json:"format"`              // data.format
	Delimiter   string        `json:"delimiter,omitempty"` // csv: one byte
	NA          []string      `json:"na,omitempty"`        // texts that mean missing, beside the empty text
	Label       string        `json:"label,omitempty"`     // column; empty: it has no name
	Dense       []DenseColumn `json:"dense"`
	Categorical []Category    `json:"categorical"`
	// Source identifies the data and the settings that the recipe was fitted to; empty if
	// nothing is fitted.
	Source string `json:"source,omitempty"`
}

// DenseColumn is a column of numbers.
type DenseColumn struct {
	Column    string `json:"column,omitempty"`
	Of        string `json:"of,omitempty"` // the column of the data that it is made of; empty: Column
	Transform string `json:"transform"`    // see Transforms
	// Of TransformStandard: the mean and the standard deviation of the training data's numbers.
	Mean      float64 `json:"mean,omitempty"`
	Deviation float64 `json:"deviation,omitempty"` // 0: the column does not vary, and each value becomes 0
}

// Category is a column of categories.
type Category struct {
	Column    string `json:"column,omitempty"`
	Of        string `json:"of,omitempty"`        // the column of the data that it is made of; empty: Column
	Transform string `json:"transform,omitempty"` // of the text, before it is hashed; empty: none
	// Separator separates the ids of a field; empty: a field is one id. If Weighted, an id may have
	// a weight after a colon.
	Separator string `json:"separator,omitempty"`
	Weighted  bool   `json:"weighted,omitempty"`
	Rows      int64  `json:"rows"` // of its table; 0: not fitted yet
	// Shared is 1 + the number of the table, if any table has several categories, else 0.
	Shared int `json:"shared,omitempty"`
	// IDs is the way from a text to a row.
	IDs string `json:"ids"`
	// Reserved is the number of rows before those of values: of these row 0 is for a missing
	// value, and row 1 for a value that is not in the vocabulary. 0: a missing value is the category "".
	Reserved int64 `json:"reserved,omitempty"`
	// Vocabulary holds the texts in the order of their rows, from row Reserved on; of a table with several
	// categories, the first of them has it. Texts that are no UTF-8 are in VocabularyBytes, with all others of the
	// table, in base64.
	Vocabulary      []string `json:"vocabulary,omitempty"`
	VocabularyBytes [][]byte `json:"vocabulary_bytes,omitempty"`
	// Hashes are the 64-bit XXH3 (seed 0) of the texts of a vocabulary that is too large for its texts.
	Hashes Hashes `json:"vocabulary_xxh3,omitempty"`
}

// The values of Category.IDs.
const (
	// IDsHash: the 64-bit XXH3 of the text (seed 0) modulo the rows after the reserved ones.
	IDsHash = "xxh3-64 of the text, modulo rows"
	// IDsNumber: the unsigned 32-bit number modulo rows.
	IDsNumber = "unsigned 32-bit number, modulo rows"
	// IDsVocabulary: the position in the vocabulary.
	IDsVocabulary = "vocabulary"
)

// Transforms of columns of numbers. A missing number becomes 0.
const (
	TransformLog1p    = "log1p"    // log(1 + max(x, 0))
	TransformNone     = "none"     // x
	TransformStandard = "standard" // (x - mean) / deviation
)

// addCounted adds columns that have a place only, as those of the Criteo formats.
func (r *Recipe) addCounted(dense, categorical int, scaled bool) {
	transform := TransformLog1p
	if scaled {
		transform = TransformNone
	}
	for range dense {
		r.Dense = append(r.Dense, DenseColumn{Transform: transform})
	}
	for range categorical {
		r.Categorical = append(r.Categorical, Category{IDs: IDsNumber})
	}
}

// Schema is the shape of the samples.
func (r *Recipe) Schema() Schema {
	s := Schema{Dense: len(r.Dense), Tables: make([]int64, len(r.Categorical))}
	for f, c := range r.Categorical {
		if c.Shared > 0 {
			s.TableOf = append(s.TableOf, c.Shared-1)
			s.Tables[c.Shared-1] = c.Rows
		} else {
			s.Tables[f] = c.Rows
		}
	}
	if s.TableOf != nil {
		s.Tables = s.Tables[:slices.Max(s.TableOf)+1]
	}
	return s
}

// validate finds what no Open can make, in a recipe that was read from a file.
func (r *Recipe) validate() error {
	if r.Version < recipeVersion || r.Version > hashesVersion {
		return usageErr("the recipe has version %d, this ecrec reads versions up to %d", r.Version, hashesVersion)
	}
	for _, d := range r.Dense {
		if !slices.Contains([]string{TransformLog1p, TransformNone, TransformStandard}, d.Transform) {
			return usageErr("the recipe's transform %q of column %q is unknown", d.Transform, d.Column)
		}
	}
	var first *Category // of several ids
	for f, c := range r.Categorical {
		if c.Shared < 0 || c.Shared > len(r.Categorical) || (c.Shared > 0) != (r.Categorical[0].Shared > 0) {
			return usageErr("the recipe of column %q has no table", c.Column)
		}
		if owner := r.firstOf(f); owner < f {
			if o := &r.Categorical[owner]; c.IDs != o.IDs || c.Rows != o.Rows || c.Reserved != o.Reserved || c.size() > 0 {
				return usageErr("the recipe of column %q has another table than that of %q", c.Column, o.Column)
			}
		} else if !slices.Contains([]string{IDsHash, IDsNumber, IDsVocabulary}, c.IDs) || c.Reserved < 0 || c.Reserved > max(c.Rows, 1) ||
			c.IDs == IDsHash && c.Reserved == c.Rows || c.IDs == IDsNumber && c.Reserved > 0 || c.IDs == IDsVocabulary && (c.Reserved != reservedTwo || c.Rows != c.Reserved+c.size()) {
			return usageErr("the recipe of column %q makes no row", c.Column)
		}
		if c.Vocabulary != nil && c.VocabularyBytes != nil || c.Hashes != nil && (c.Vocabulary != nil || c.VocabularyBytes != nil) {
			return usageErr("the recipe of column %q has two vocabularies", c.Column)
		}
		if c.Transform != "" && derivations[c.Transform] == nil {
			return usageErr("the recipe's transform %q of column %q is unknown", c.Transform, c.Column)
		}
		if separator := []rune(c.Separator); len(separator) > 1 || len(separator) == 1 && separator[0] > 0xff || c.Weighted && len(separator) == 0 {
			return usageErr("the recipe of column %q separates ids by %q; one byte is possible", c.Column, c.Separator)
		}
		if first == nil && c.Separator != "" {
			first = &r.Categorical[f]
		} else if c.Separator != "" && (c.Separator != first.Separator || c.Weighted != first.Weighted) {
			return usageErr("the recipe separates the ids of column %q otherwise than those of %q", c.Column, first.Column)
		}
	}
	return r.Schema().checkLimits()
}

// HasNames reports whether there is a recipe whose columns have names.
func (r *Recipe) HasNames() bool {
	return r != nil && len(r.Categorical) > 0 && r.Categorical[0].Column != ""
}

func (r *Recipe) setRows(o *Options) {
	for f, rows := range o.featureRows() {
		r.Categorical[f].Rows = rows
		if o.TableOf != nil {
			r.Categorical[f].Shared = o.TableOf[f] + 1
		}
	}
}

// Complete reports whether nothing of the recipe has to be counted from data.
func (r *Recipe) Complete() bool {
	for _, d := range r.Dense {
		if d.Transform == TransformStandard && r.Source == "" {
			return false
		}
	}
	for _, c := range r.Categorical {
		if c.Rows == 0 {
			return false
		}
	}
	return true
}

// columnNames lists the columns of the data that the features are made of.
func (r *Recipe) columnNames() (names []string) {
	for _, d := range r.Dense {
		names = append(names, cmp.Or(d.Of, d.Column))
	}
	for _, c := range r.Categorical {
		names = append(names, cmp.Or(c.Of, c.Column))
	}
	return names
}

// firstOf returns the first category of the table of category f.
func (r *Recipe) firstOf(f int) int {
	shared := r.Categorical[f].Shared
	if shared == 0 {
		return f
	}
	return slices.IndexFunc(r.Categorical, func(c Category) bool { return c.Shared == shared })
}

// checkTexts moves the vocabulary to VocabularyBytes if a text is no UTF-8.
func (c *Category) checkTexts() {
	if !slices.ContainsFunc(c.Vocabulary, func(text string) bool { return !utf8.ValidString(text) }) {
		return
	}
	for _, text := range c.Vocabulary {
		c.VocabularyBytes = append(c.VocabularyBytes, []byte(text))
	}
	c.Vocabulary = nil
}

// hashes returns the hashes of the texts of the vocabulary of the category itself.
func (c *Category) hashes() []uint64 {
	if c.Hashes != nil {
		return c.Hashes
	}
	var hashes []uint64
	for _, text := range c.Vocabulary {
		hashes = append(hashes, xxh3.HashString(text))
	}
	for _, text := range c.VocabularyBytes {
		hashes = append(hashes, xxh3.Hash(text))
	}
	return hashes
}

// size returns the number of texts of the vocabulary of the category itself.
func (c *Category) size() int64 {
	return int64(max(len(c.Vocabulary), len(c.VocabularyBytes), len(c.Hashes)))
}
