package numbers

import (
	"bytes"
	_ "embed"
	"encoding/csv"
)

// Number is a claim, with the record that has it.
type Number struct {
	Claim  Claim
	Record string // empty: none has it
	Place  string // in the record, or the source of a number that no record has
}

// table is the numbers of README.md and docs, which the test compares with the documents.
//
//go:embed numbers.csv
var table []byte

// All returns the numbers of README.md and docs that are measured, counted or quoted, in the order of the documents.
func All() ([]Number, error) { return readTable(table) }

var columns = []string{"document", "section", "number", "unit", "record", "place"}

func readTable(b []byte) (all []Number, err error) {
	r := csv.NewReader(bytes.NewReader(b))
	r.FieldsPerRecord = len(columns)
	lines, err := r.ReadAll()
	if err != nil || len(lines) == 0 {
		return nil, err
	}
	for _, l := range lines[1:] {
		all = append(all, Number{Claim{Doc: l[0], Section: l[1], Text: l[2], Unit: l[3]}, l[4], l[5]})
	}
	return all, nil
}

func writeTable(all []Number) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	lines := [][]string{columns}
	for _, n := range all {
		lines = append(lines, []string{n.Claim.Doc, n.Claim.Section, n.Claim.Text, n.Claim.Unit, n.Record, n.Place})
	}
	err := w.WriteAll(lines)
	return b.Bytes(), err
}
