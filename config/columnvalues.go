package config

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/ecrec/ecrec/data"
)

// Tables is the rows of each table: a list, or the name of a set of tables, whose rows
// are then in Rows.
type Tables struct {
	Name string
	Rows []int64
	// ByColumn is the rows of the table of each column, 0 if they are counted. Nil: a list or a
	// name was given.
	ByColumn map[string]int64
}

// UnmarshalTOML implements unstable.Unmarshaler.
func (t *Tables) UnmarshalTOML(raw []byte) error {
	if first := strings.TrimSpace(string(raw)); first != "" && !strings.ContainsRune("[\"'", rune(first[0])) && strings.ContainsRune(first, '=') {
		return t.unmarshalByColumn(raw)
	}
	return decode(raw, func(v any) error {
		switch v := v.(type) {
		case string:
			if v == tablesAuto {
				*t = Tables{Name: v}
				return nil
			}
			rows, err := data.Tables(v)
			if err != nil {
				return fmt.Errorf("%w; or write a list of rows per table", err)
			}
			*t = Tables{Name: v, Rows: rows}
			return nil
		case []any:
			rows := make([]int64, len(v))
			for i, e := range v {
				n, ok := e.(int64)
				if !ok {
					return fmt.Errorf("table %d is %v, which is not a number of rows", i, e)
				}
				rows[i] = n
			}
			*t = Tables{Rows: rows}
			return nil
		}
		return errWant("a list of rows per table, a table of rows by column, \"auto\", or the name of a set such as \"criteo-kaggle\"")
	})
}

// MarshalTOML implements unstable.Marshaler.
func (t Tables) MarshalTOML() ([]byte, error) {
	if t.IsCounted() {
		return t.marshalCounted(), nil
	}
	out := []byte{'['}
	for i, n := range t.Rows {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = strconv.AppendInt(out, n, 10)
	}
	return append(out, ']'), nil
}

// Files are paths: a list, or a string for one.
type Files []string

// UnmarshalTOML implements unstable.Unmarshaler.
func (f *Files) UnmarshalTOML(raw []byte) error {
	return decode(raw, func(v any) error {
		switch v := v.(type) {
		case string:
			*f = Files{v}
			return nil
		case []any:
			files := make(Files, len(v))
			for i, e := range v {
				name, ok := e.(string)
				if !ok {
					return fmt.Errorf("element %d is %v, which is not a string", i, e)
				}
				files[i] = name
			}
			*f = files
			return nil
		}
		return errWant("a list, each element a string, or a string")
	})
}

// MarshalTOML implements unstable.Marshaler.
func (f Files) MarshalTOML() ([]byte, error) {
	parts := make([]string, len(f))
	for i, name := range f {
		parts[i] = quote(name)
	}
	return []byte("[" + strings.Join(parts, ", ") + "]"), nil
}

// Transforms holds the transform of each column that has not the default one.
type Transforms map[string]string

// decodeTable reads a table of TOML: inline, or the lines of its keys.
func decodeTable(raw []byte, take func(table map[string]any) error) error {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		var table map[string]any
		if err := toml.Unmarshal(raw, &table); err != nil {
			return unstable.NewParserError(raw, "want a table, like {age = \"standard\"}")
		}
		if err := take(table); err != nil {
			return unstable.NewParserError(raw, "%s", err)
		}
		return nil
	}
	return decode(raw, func(v any) error {
		table, ok := v.(map[string]any)
		if !ok {
			return errWant("a table")
		}
		return take(table)
	})
}

// UnmarshalTOML implements unstable.Unmarshaler.
func (t *Transforms) UnmarshalTOML(raw []byte) error {
	return decodeTable(raw, func(table map[string]any) error {
		all := Transforms{}
		for column, v := range table {
			name, ok := v.(string)
			if !ok {
				return fmt.Errorf("the transform of column %q is %v; want a string, like \"standard\"", column, v)
			}
			all[column] = name
		}
		*t = all
		return nil
	})
}

// MarshalTOML implements unstable.Marshaler.
func (t Transforms) MarshalTOML() ([]byte, error) {
	return inlineTable(slices.Sorted(maps.Keys(t)), func(column string) string { return quote(t[column]) }), nil
}

func inlineTable(keys []string, value func(key string) string) []byte {
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = quote(key) + " = " + value(key)
	}
	return []byte("{" + strings.Join(parts, ", ") + "}")
}

// tablesAuto is the value of model.tables, or of a table's rows, that means: count the data.
const tablesAuto = "auto"

// unmarshalByColumn reads the rows of tables by the names of their columns. 0 rows: they are counted.
func (t *Tables) unmarshalByColumn(raw []byte) error {
	return decodeTable(raw, func(table map[string]any) error {
		rows := map[string]int64{}
		for column, v := range table {
			n, ok := v.(int64)
			if auto := v == tablesAuto; !auto && (!ok || n < 1) {
				return fmt.Errorf("the table of column %q has %v rows; want a positive number or \"auto\"", column, v)
			}
			rows[column] = n
		}
		*t = Tables{ByColumn: rows}
		return nil
	})
}

// marshalCounted writes tables whose rows are counted: "auto", or a table by column.
func (t Tables) marshalCounted() []byte {
	if t.Name == tablesAuto {
		return []byte(quote(tablesAuto))
	}
	return inlineTable(slices.Sorted(maps.Keys(t.ByColumn)), func(column string) string {
		if n := t.ByColumn[column]; n > 0 {
			return strconv.FormatInt(n, 10)
		}
		return quote(tablesAuto)
	})
}

// IsCounted reports whether the rows of a table are counted from the data.
func (t Tables) IsCounted() bool {
	for _, n := range t.ByColumn {
		if n == 0 {
			return true
		}
	}
	return t.Name == tablesAuto
}
