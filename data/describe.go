package data

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ColumnStats are figures of a column that has a name.
type ColumnStats struct {
	Name    string  `json:"name"`
	Missing float64 `json:"missing"` // share of the samples; of a bag, of empty fields and missing ids

	// Of a column of numbers.
	Number   bool    `json:"number,omitempty"`
	Negative float64 `json:"negative,omitempty"` // share of the samples
	Constant bool    `json:"constant,omitempty"` // there is one value, missing ones apart, or none; of categories too

	// Of a column of categories.
	Rows      int64   `json:"rows,omitempty"`
	Distinct  int64   `json:"distinct,omitempty"`  // categories, missing ones apart
	Colliding float64 `json:"colliding,omitempty"` // share of them that share a row with another
	Unknown   float64 `json:"unknown,omitempty"`   // share of the ids that are not in the vocabulary
}

// DescribeColumns measures the columns of up to most samples from the first on; 0: all. It
// returns nil for data whose columns have no names. Options.Recipe must be complete.
func DescribeColumns(o Options, most int64) ([]ColumnStats, error) {
	r, err := NewRecipe(o)
	if err != nil || !r.HasNames() || !r.Complete() {
		return nil, err
	}
	files := o.Files
	if f, _ := FindFormat(o.Format); f.IsConverted() {
		c, err := Convert(o, "")
		if err != nil {
			return nil, err
		}
		files = []string{c.File}
	}
	o.raw = true
	src, err := openRecords(&o, files)
	if err == nil && !o.Split.isAll() {
		src, err = o.Split.cut(src)
	}
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if most > 0 && most < src.Len() {
		src = &head{src, most}
	}
	s := o.newSpill()
	defer s.closeFile()
	c := newCensus(r, s)
	if len(c.numbers) != src.Schema().Dense {
		return nil, nil // the recipe is not that of these files
	}
	if err := eachBatch(src, &o, "stats", c.countBatch); err != nil {
		return nil, err
	}
	return c.summarize(float64(src.Len()))
}

// head is the first samples of a source.
type head struct {
	Source
	n int64
}

func (h *head) Len() int64 { return h.n }

// census counts the values of columns, with bounded memory.
type census struct {
	recipe     *Recipe
	spill      *spill
	numbers    []numberCount
	categories []*wordCounts
	empty      []int64 // bags without an id
}

type numberCount struct {
	missing, negative int64
	low, high         float32
}

func newCensus(r *Recipe, s *spill) *census {
	c := &census{recipe: r, spill: s, numbers: make([]numberCount, len(r.Dense)), categories: make([]*wordCounts, len(r.Categorical)),
		empty: make([]int64, len(r.Categorical))}
	for i := range c.numbers {
		c.numbers[i].low, c.numbers[i].high = float32(math.Inf(1)), float32(math.Inf(-1))
	}
	for i := range c.categories {
		c.categories[i] = newWordCounts(s, len(c.categories)+1)
	}
	return c
}

func (c *census) countBatch(b *Batch) {
	for i, x := range b.Dense {
		n := &c.numbers[i%len(c.numbers)]
		if x != x {
			n.missing++
			continue
		}
		if x < 0 {
			n.negative++
		}
		n.low, n.high = min(n.low, x), max(n.high, x)
	}
	features := len(c.categories)
	b.eachHash(features, func(feature int, h uint64) { c.categories[feature].countHash(h) })
	for cell := range max(len(b.Offsets)-1, 0) {
		if b.Offsets[cell] == b.Offsets[cell+1] {
			c.empty[cell%features]++
		}
	}
}

func (c *census) summarize(samples float64) (all []ColumnStats, err error) {
	for i, n := range c.numbers {
		all = append(all, ColumnStats{Name: c.recipe.Dense[i].Column, Number: true, Missing: float64(n.missing) / samples,
			Negative: float64(n.negative) / samples, Constant: !(n.low < n.high)})
	}
	ids := newIDMaps(c.recipe)
	for i := range c.categories {
		st, err := c.summarizeCategory(i, &ids[i], samples)
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	return all, nil
}

func (c *census) summarizeCategory(i int, ids *idMap, samples float64) (ColumnStats, error) {
	column, counts := &c.recipe.Categorical[i], c.categories[i]
	st := ColumnStats{Name: column.Column, Rows: column.Rows}
	users := newWordCounts(c.spill, len(c.categories)+1) // distinct categories of each row
	defer counts.dropWords()
	defer users.dropWords()
	if err := counts.endWords(); err != nil {
		return st, err
	}
	words, lookups, missing, unknown := 0, uint64(0), uint64(c.empty[i]), uint64(0)
	err := counts.eachWord(func(w *word) error {
		words++
		lookups += w.count
		if w.hash != missingHash {
			st.Distinct++
		} else if missing += w.count; column.Reserved > 0 {
			return nil
		}
		row := ids.mapHash(w.hash)
		if column.IDs == IDsVocabulary && row == rowUnknown {
			unknown += w.count
			return nil
		}
		users.countHash(mix(uint64(row))) // their order does not matter
		return nil
	})
	if err != nil {
		return st, err
	}
	if err := users.endWords(); err != nil {
		return st, err
	}
	shared, all := uint64(0), uint64(0)
	err = users.eachWord(func(row *word) error {
		if all += row.count; row.count > 1 {
			shared += row.count
		}
		return nil
	})
	st.Missing = float64(missing) / samples
	st.Colliding = float64(shared) / max(float64(all), 1)
	st.Unknown = float64(unknown) / max(float64(lookups), 1)
	st.Constant = words < 2
	return st, err
}

// The shares from which Warnings names a column.
const (
	warnNegative  = 0.01
	warnColliding = 0.05
)

// maxNamed is how many columns one warning names.
const maxNamed = 5

// Warnings describes the columns whose settings lose information, one line for each cause: the columns, the figures and
// the remedy. samples is the number of samples that stats are of.
func (r *Recipe) Warnings(stats []ColumnStats, samples int64) (lines []string) {
	var constant, negative, colliding []string
	for i, c := range stats {
		switch name := strconv.Quote(c.Name); {
		case c.Constant:
			constant = append(constant, name)
		case c.Number && r.Dense[i].Transform == TransformLog1p && c.Negative >= warnNegative:
			negative = append(negative, fmt.Sprintf("%s (%.1f %%)", name, 100*c.Negative))
		case !c.Number && c.Colliding >= warnColliding:
			colliding = append(colliding, fmt.Sprintf("%s (%.1f %% of %d)", name, 100*c.Colliding, c.Distinct))
		}
	}
	add := func(columns []string, what string) {
		if len(columns) > 0 {
			lines = append(lines, fmt.Sprintf("in the first %d samples, %s: %s", samples, what, listNames(columns)))
		}
	}
	add(constant, "columns have one value; leave them out of [data.csv] if they never vary")
	add(negative, "numbers are negative, and log1p makes them 0; give them the transform \"standard\" in [data.transform]")
	add(colliding, "categories share a row of their table with others; set model.tables = \"auto\", or more rows")
	return lines
}

// listNames lists some names, the first ones only if there are many.
func listNames(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// WarningOfRare names the columns on which a minCount has no effect, as they have too many texts for a vocabulary;
// "" if there are none.
func (r *Recipe) WarningOfRare(minCount int64) string {
	var names []string
	for _, c := range r.Categorical {
		if c.Reserved > 0 && c.IDs == IDsHash {
			names = append(names, strconv.Quote(c.Column))
		}
	}
	if minCount <= 1 || names == nil {
		return ""
	}
	return fmt.Sprintf("data.min_count = %d has no effect on columns with more than %d texts that are as frequent, which are hashed: %s; rare texts share no row there",
		minCount, maxWords, listNames(names))
}
