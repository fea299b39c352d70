package data

import (
	"slices"
	"sort"
	"strings"
)

// The Criteo layout: a label, 13 integers and 26 ids.
const (
	criteoDense  = 13
	criteoTables = 26
	criteoFields = 1 + criteoDense + criteoTables
	criteoBytes  = 4 * criteoFields
)

// maxRows is the limit on the rows of one table: ids are 32 bits wide.
const maxRows = 1<<32 - 1

// Limits on a schema, far above any known model; they keep a record's size sane.
const (
	maxDense  = 1 << 14
	maxTables = 1 << 14
)

// Schema is the shape of a sample.
type Schema struct {
	Dense  int     // dense features
	Tables []int64 // rows per table, one table per categorical feature
}

// known holds the table sets that have a name.
var known = map[string][]int64{
	// Criteo Kaggle Display Advertising Challenge, 33,762,577 rows.
	"criteo-kaggle": {1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992,
		5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572},
	// Criteo Terabyte with ids modulo 40,000,000 (MLPerf), 187,767,399 rows.
	"criteo-terabyte-40m": {39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10,
		2208, 11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36},
}

// Tables returns the rows per table of a table set known by name.
func Tables(name string) ([]int64, error) {
	t, ok := known[name]
	if !ok {
		names := make([]string, 0, len(known))
		for k := range known {
			names = append(names, k)
		}
		sort.Strings(names)
		return nil, usageErr("no table set is called %q; known are %s", name, strings.Join(names, ", "))
	}
	return slices.Clone(t), nil
}

func (s Schema) check() error {
	if s.Dense < 0 || s.Dense > maxDense {
		return usageErr("%d dense features; from 0 to %d are possible", s.Dense, maxDense)
	}
	if len(s.Tables) > maxTables {
		return usageErr("%d tables; at most %d are possible", len(s.Tables), maxTables)
	}
	for t, rows := range s.Tables {
		if rows < 1 || rows > maxRows {
			return usageErr("table %d has %d rows; from 1 to %d are possible", t, rows, int64(maxRows))
		}
	}
	return nil
}
