package data

import (
	"maps"
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

// Limits on a schema, far above any published model. They bound the size of a record.
const (
	maxDense  = 1 << 14
	maxTables = 1 << 14
	maxBag    = 1 << 20 // ids of one field
)

// Schema is the shape of a sample.
type Schema struct {
	Dense  int     // dense features
	Tables []int64 // rows per table
	// TableOf is the table of each categorical feature. Nil: feature f looks up table f.
	TableOf []int
	// SampleWeights reports whether samples have weights.
	SampleWeights bool
	// IDs is the number of ids of a sample, a mean if it varies. 0: each feature has one.
	IDs float64
}

// Features is the number of categorical features.
func (s *Schema) Features() int {
	if s.TableOf != nil {
		return len(s.TableOf)
	}
	return len(s.Tables)
}

// TableOfFeature is the table of a feature.
func (s *Schema) TableOfFeature(f int) int {
	if s.TableOf == nil {
		return f
	}
	return s.TableOf[f]
}

// FeatureRows is the number of rows of the table of each feature.
func (s *Schema) FeatureRows() []int64 {
	if s.TableOf == nil {
		return s.Tables
	}
	rows := make([]int64, len(s.TableOf))
	for f, t := range s.TableOf {
		rows[f] = s.Tables[t]
	}
	return rows
}

// IDsPerSample is the number of ids of a sample, a mean if it varies.
func (s *Schema) IDsPerSample() float64 {
	if s.IDs > 0 {
		return s.IDs
	}
	return float64(s.Features())
}

// tableSets holds the table sets that have a name.
var tableSets = map[string][]int64{
	// Criteo Kaggle Display Advertising Challenge, 33,762,577 rows.
	"criteo-kaggle": {1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992,
		5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572},
	// Criteo Terabyte, 882,774,559 rows.
	"criteo-terabyte": {227605432, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 130229467, 3067956, 405282, 10, 2209, 11938, 155, 4,
		976, 14, 292775614, 40790948, 187188510, 590152, 12973, 108, 36},
	// Kaggle's Avazu without hour, which BagPipe reads as a number, 9,449,205 rows: C1, banner_pos, site_id, site_domain, site_category,
	// app_id, app_domain, app_category, device_id, device_ip, device_model, device_type, device_conn_type and C14 to C21.
	"avazu": {7, 7, 4737, 7745, 26, 8552, 559, 36, 2686408, 6729486, 8251, 5, 4, 2626, 8, 9, 435, 4, 68, 172, 60},
	// Criteo Terabyte with ids modulo 40,000,000 (MLPerf), 187,767,399 rows.
	"criteo-terabyte-40m": {39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10,
		2208, 11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36},
}

// Tables returns the rows per table of the table set of a name.
func Tables(name string) ([]int64, error) {
	t, ok := tableSets[name]
	if !ok {
		names := make([]string, 0, len(tableSets))
		for k := range tableSets {
			names = append(names, k)
		}
		sort.Strings(names)
		return nil, usageErr("no table set is called %q; there are %s", name, strings.Join(names, ", "))
	}
	return slices.Clone(t), nil
}

// hotSets holds the named numbers of ids of each feature.
var hotSets = map[string][]int{
	// MLPerf's multi-hot Criteo Terabyte for DLRM-DCNv2, 214 ids a sample.
	"mlperf": {3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1},
	// 8 features of 100 ids.
	"hundred": {100, 100, 100, 100, 100, 100, 100, 100},
}

// HotSet returns the numbers of ids of a name.
func HotSet(name string) ([]int, error) {
	h, ok := hotSets[name]
	if !ok {
		return nil, usageErr("no numbers of ids are called %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(hotSets)), ", "))
	}
	return slices.Clone(h), nil
}

func (s Schema) checkLimits() error {
	if s.Dense < 0 || s.Dense > maxDense {
		return usageErr("%d dense features; from 0 to %d are possible", s.Dense, maxDense)
	}
	if n := max(len(s.Tables), len(s.TableOf)); n > maxTables {
		return usageErr("%d tables or features; at most %d are possible", n, maxTables)
	}
	for t, rows := range s.Tables {
		if rows < 1 || rows > maxRows {
			return usageErr("table %d has %d rows; from 1 to %d are possible", t, rows, int64(maxRows))
		}
	}
	return nil
}
