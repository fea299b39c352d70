package config

import (
	"maps"
	"math"
	"slices"

	"github.com/ecrec/ecrec/data"
)

// resolveTables lists the rows of tables that are given by column, or counted: then they are 0 until
// Resolve.
func (c *Config) resolveTables(src *source) error {
	t, columns := &c.Model.Tables, c.Data.CSV.Categorical
	if t.Name != tablesAuto && t.ByColumn == nil {
		return nil
	}
	format, ok := data.FindFormat(c.Data.Format)
	if !ok || len(columns) == 0 || !format.Reads("csv.categorical") {
		return src.errorf("model.tables", "%s needs the names of columns in data.csv.categorical, and data.format = %q has none; list the rows of each table",
			t.marshalCounted(), c.Data.Format)
	}
	names, from := columns, "data.csv.categorical"
	if len(c.Model.TableOf) > 0 {
		names, from = uniqueNames(c.Model.TableOf), "model.table_of"
	}
	if t.Name == tablesAuto {
		t.Rows = make([]int64, len(names))
		return nil
	}
	t.Rows = t.Rows[:0]
	for _, name := range names {
		n, ok := t.ByColumn[name]
		if !ok {
			return src.errorf("model.tables", "has no table of %q of %s; add %q = \"auto\", or a number of rows", name, from, name)
		}
		t.Rows = append(t.Rows, n)
	}
	for _, name := range slices.Sorted(maps.Keys(t.ByColumn)) {
		if !slices.Contains(names, name) {
			return src.errorf("model.tables", "has a table of %q, which is not in %s; remove it, or name it there", name, from)
		}
	}
	return nil
}

// checkColumns checks the keys about the meaning of columns.
func (c *Config) checkColumns(src *source) error {
	d := c.Data
	if len(d.Eval) == 1 {
		switch _, ok, err := data.ParseSplit(d.Eval[0]); {
		case err != nil:
			return src.errorf("data.eval", "%v", err)
		case ok && c.readsNoFiles():
			return src.errorf("data.eval", "%s data has no end, and cannot be split; remove it", d.Format)
		}
	}
	if d.MinCount < 1 || d.MinCount > math.MaxInt32 {
		return src.errorf("data.min_count", "%d is out of range; choose 1 to %d", d.MinCount, math.MaxInt32)
	}
	if d.MinCount > 1 && !c.Model.Tables.IsCounted() {
		return src.errorf("data.min_count", "%d needs a vocabulary, and model.tables lists rows; set model.tables = \"auto\"", d.MinCount)
	}
	return nil
}
