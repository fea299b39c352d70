package data

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/env"
)

// Inferred describes the columns of a file, by its beginning.
type Inferred struct {
	Format    string // FormatCSV or FormatParquet
	Delimiter byte   // of text
	Label     string
	NA        []string // texts of numbers' columns that mean missing
	Columns   []InferredColumn
	Rows      int64 // of the file, an estimate unless Whole
	Whole     bool  // all rows were read
}

// InferredColumn is a column of an Inferred.
type InferredColumn struct {
	Name      string
	Use       Use
	Transform string // "": the default
	List      bool   // a row has several values
	Why       string // the reason, in a few words
}

// Use is the use of a column.
type Use int

// The uses of a column.
const (
	UseNone Use = iota
	UseLabel
	UseNumber
	UseCategory
)

// Bounds on the rows that Infer reads.
const (
	inferBytes = 64 << 20
	inferRows  = 200_000
)

// likelyLabels are names of labels, the likeliest first.
var likelyLabels = []string{"label", "target", "click", "clicked", "is_click", "y", "income", "conversion", "converted", "is_converted",
	"purchase", "purchased", "bought", "churn", "churned", "class", "outcome", "survived", "default"}

// likelyMissing are texts that usually mean a missing value.
var likelyMissing = []string{"NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none", "?", "-", `\N`}

// Infer reads the beginning of a CSV or TSV file with a header, or of a Parquet file, and decides on the use of each
// column. label is the name of the label's column; "": a column of 0 and 1 with a likely name.
func Infer(e env.Env, name, label string) (*Inferred, error) {
	f, _, err := openFile(e, name)
	if err != nil {
		return nil, err
	}
	head, err := readHead(e, f)
	f.Close()
	if err != nil {
		return nil, err
	}
	if kind := sniff(head); kind != nil && kind.is == parquetKind {
		return inferParquet(e, name, label)
	}
	return inferDelimited(e, name, label)
}

// columnSample describes the values of a column in some rows.
type columnSample struct {
	name           string
	list           bool
	unread         string // the reason that the column is not read; "": it is
	rows, empty    int64
	texts          map[uint64]int // distinct texts
	na             []string       // of likelyMissing, that are there
	naRows         int64
	numbers, whole int64 // rows
	binary         int64 // 0 or 1
	low, high      float64
	sum, squares   float64
	ascending      int64
	last           float64
	times, clocks  int64 // ISO times; those with a time of day
}

func newColumnSample(name string) columnSample {
	return columnSample{name: name, texts: map[uint64]int{}, low: math.Inf(1), high: math.Inf(-1)}
}

func (c *columnSample) addField(field []byte) {
	c.rows++
	if len(bytes.TrimSpace(field)) == 0 {
		c.empty++
		return
	}
	if text := string(field); slices.Contains(likelyMissing, text) {
		c.naRows++
		if !slices.Contains(c.na, text) {
			c.na = append(c.na, text)
		}
		return
	}
	c.texts[xxh3.Hash(field)]++
	if x, ok := parseDecimal(field); ok {
		c.addNumber(float64(x))
		return
	}
	if t, ok := parseTime(string(field)); ok {
		c.times++
		if len(bytes.TrimSpace(field)) > len("2006-01-02") && (t.Hour() != 0 || t.Minute() != 0) {
			c.clocks++
		}
	}
}

func (c *columnSample) addNumber(x float64) {
	c.numbers++
	if x == math.Trunc(x) {
		c.whole++
	}
	if x == 0 || x == 1 {
		c.binary++
	}
	if x > c.last || c.numbers == 1 {
		c.ascending++
	}
	c.last = x
	c.low, c.high = min(c.low, x), max(c.high, x)
	c.sum += x
	c.squares += float64(x * x)
}

func (c *columnSample) present() int64 { return c.rows - c.empty - c.naRows }

// isLabel reports whether the column could be the label.
func (c *columnSample) isLabel(rows int64) bool {
	return c.rows == rows && c.present() == rows && c.binary == rows && len(c.texts) >= 2
}

// decide sets the label and the use of each column.
func (in *Inferred) decide(file, label string, columns []columnSample, rows int64) error {
	var could []string
	for i := range columns {
		if columns[i].isLabel(rows) {
			could = append(could, columns[i].name)
		}
	}
	if label == "" {
		for _, likely := range likelyLabels {
			if i := slices.IndexFunc(could, func(name string) bool { return strings.EqualFold(name, likely) }); i >= 0 && label == "" {
				label = could[i]
			}
		}
	}
	i := slices.IndexFunc(columns, func(c columnSample) bool { return c.name == label })
	switch {
	case label == "" && len(could) > 0:
		return fileErr(file, "no column of 0 and 1 has the name of a label; give --label NAME: columns of 0 and 1 are %s", strings.Join(could, ", "))
	case label == "":
		return fileErr(file, "no column holds 0 and 1 in every row, as a label does; write the label as 0 or 1")
	case i < 0:
		return usageErr("--label %s: %s has no such column; there are %s", label, filepath.Base(file), joinNames(columns))
	case !slices.Contains(could, label):
		return usageErr("--label %s: the column does not hold 0 or 1 in every row, and both; write the label as 0 or 1", label)
	}
	in.Label = label
	na := map[string]bool{}
	for i := range columns {
		d := columns[i].decide(rows)
		if columns[i].name == label {
			d = InferredColumn{Name: label, Use: UseLabel}
		}
		if d.Use == UseNumber || d.Use == UseCategory {
			for _, text := range columns[i].na {
				na[text] = true
			}
		}
		in.Columns = append(in.Columns, d)
	}
	for _, text := range likelyMissing {
		if na[text] {
			in.NA = append(in.NA, text)
		}
	}
	return in.balance(columns)
}

// Count is the number of columns of a use.
func (in *Inferred) Count(use Use) (n int) {
	for _, c := range in.Columns {
		if c.Use == use {
			n++
		}
	}
	return n
}

// balance gives a model that needs a column of categories one, of the numbers.
func (in *Inferred) balance(columns []columnSample) error {
	if in.Count(UseCategory) == 0 && in.Count(UseNumber) > 1 {
		best := -1
		for i, c := range in.Columns {
			if c.Use == UseNumber && (best < 0 || len(columns[i].texts) < len(columns[best].texts)) {
				best = i
			}
		}
		c := &in.Columns[best]
		c.Use, c.Transform, c.Why = UseCategory, TransformLog2Bucket, "numbers in buckets: a model needs a column of categories"
	}
	if in.Count(UseCategory) == 0 {
		return usageErr("the file has %d columns of numbers and none of categories, and a model needs a column of categories; see whether --label names the right one",
			in.Count(UseNumber))
	}
	return nil
}

func joinNames(columns []columnSample) string {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].name
	}
	return strings.Join(names, ", ")
}

// decide decides on the use of one column.
func (c *columnSample) decide(rows int64) InferredColumn {
	d := InferredColumn{Name: c.name}
	distinct, present := int64(len(c.texts)), c.present()
	unique := distinct == present && present >= 20
	const fewest = 2
	switch {
	case c.unread != "":
		d.Why = c.unread
	case c.list:
		d.Use, d.List, d.Why = UseCategory, true, "a list"
	case present == 0:
		d.Why = "always missing"
	case distinct < fewest && present == c.rows:
		d.Why = "never varies"
	case c.numbers == present:
		c.decideNumber(&d, unique)
	case c.times == present:
		d.Use, d.Transform, d.Why = UseCategory, TransformWeekday, "a date"
		if c.clocks > 0 {
			d.Transform, d.Why = TransformHour, "a time"
		}
	case unique:
		d.Why = "different in every row, as an id"
	default:
		d.Use, d.Why = UseCategory, fmt.Sprintf("%d distinct texts", distinct)
		if d.Why += " seen"; present < c.rows {
			d.Why += fmt.Sprintf(", %.1f %% missing", 100*float64(c.rows-present)/float64(rows))
		}
	}
	return d
}

// decideNumber decides on a column of numbers: an id, or a number and its transform.
func (c *columnSample) decideNumber(d *InferredColumn, unique bool) {
	whole := c.whole == c.numbers
	switch {
	case whole && unique && (namesID(c.name) || c.ascending == c.numbers):
		d.Why = "different in every row, as an id"
		return
	case whole && namesID(c.name):
		d.Use, d.Why = UseCategory, fmt.Sprintf("an id by its name, %d distinct seen", len(c.texts))
		return
	}
	n := float64(c.numbers)
	mean := c.sum / n
	deviation := math.Sqrt(max(c.squares/n-float64(mean*mean), 0))
	d.Use, d.Transform = UseNumber, TransformStandard
	d.Why = fmt.Sprintf("from %.6g to %.6g", c.low, c.high)
	if c.low >= 0 && deviation > mean {
		d.Transform = TransformLog1p
		d.Why += ", most of them small"
	}
}

// namesID reports whether a name is that of an id.
func namesID(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("_- .", r) })
	last := cmp.Or(strings.Join(words[max(len(words)-1, 0):], ""), "")
	return slices.Contains([]string{"id", "uuid", "guid", "code", "zip", "zipcode", "postcode", "index", "row", "key"}, last) || strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "ID")
}
