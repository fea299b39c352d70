package data

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/internal/f32"
)

// derivation makes a category of a text that is not empty, in scratch. It returns the mistake in the
// text, if any.
type derivation func(text, scratch []byte) (category []byte, what string)

// Transforms of columns of categories. Each makes a text, which is the category.
const (
	TransformLog2Bucket = "log2-bucket" // of a number: floor(ln(x)^2) above 2, else the integer part
	TransformHour       = "hour"        // of a time: 0 to 23
	TransformWeekday    = "weekday"     // of a time: 0 (Monday) to 6
	TransformWeekend    = "weekend"     // of a time: 1 on Saturday and Sunday, else 0
)

// transformOf is the transform of a feature and the column that it is made of: "weekday of hour" is the weekday of
// the column hour. Without "of" the feature has the name of its column.
func transformOf(all map[string]string, feature string) (transform, column string) {
	transform, column, derived := strings.Cut(all[feature], " of ")
	if !derived {
		return transform, feature
	}
	return transform, column
}

// derivations lists the transforms of categories.
var derivations = map[string]derivation{
	TransformLog2Bucket: deriveBucket,
	TransformHour:       deriveHour,
	TransformWeekday:    deriveWeekday,
	TransformWeekend:    deriveWeekend,
}

// NumberTransforms lists the transforms of columns of numbers, the default first.
func NumberTransforms() []string {
	return []string{TransformLog1p, TransformNone, TransformStandard}
}

// CategoryTransforms lists the transforms of columns of categories.
func CategoryTransforms() []string {
	return []string{TransformLog2Bucket, TransformHour, TransformWeekday, TransformWeekend}
}

// checkTransforms checks that each transform is of a column that can have it.
func (c *CSV) checkTransforms() error {
	for _, name := range slices.Sorted(maps.Keys(c.Transform)) {
		t, column := transformOf(c.Transform, name)
		number, category := slices.Contains(c.Dense, name), slices.Contains(c.Categorical, name)
		switch {
		case !number && !category:
			return keyError("transform", "column %q is in neither data.csv.dense nor data.csv.categorical; name it there, or remove its transform", name)
		case column == "":
			return keyError("transform", "%q is of a column without a name; write the column after \"of\"", name)
		case column == c.Label || column == c.Weight:
			return keyError("transform", "%q is made of %q, which is no feature but the label or the weight; name another column", name, column)
		case number && !slices.Contains(NumberTransforms(), t):
			return keyError("transform", "%q is no transform of %q, a column of numbers; use one of %s, or move the column to data.csv.categorical",
				t, name, strings.Join(NumberTransforms(), ", "))
		case category && !slices.Contains(CategoryTransforms(), t):
			return keyError("transform", "%q is no transform of %q, a column of categories; use one of %s, or remove it",
				t, name, strings.Join(CategoryTransforms(), ", "))
		}
	}
	return nil
}

// deriveBucket makes the bucket of a number: floor(ln(x)^2) of numbers above 2, the integer part of others. A text of spaces is
// missing, as in a column of numbers.
func deriveBucket(text, scratch []byte) ([]byte, string) {
	if isBlank(text) {
		return nil, ""
	}
	x, ok := parseDecimal(text)
	if !ok {
		return nil, "not a decimal number, and its transform is log2-bucket"
	}
	b := math.Trunc(float64(x))
	if x > 2 {
		l := f32.Log64(float64(x))
		b = math.Floor(l * l)
	}
	return strconv.AppendInt(scratch, int64(b), 10), ""
}

func deriveHour(text, scratch []byte) ([]byte, string) {
	t, ok := parseTime(string(text))
	if !ok {
		return nil, notTime
	}
	return strconv.AppendInt(scratch, int64(t.Hour()), 10), ""
}

func deriveWeekend(text, scratch []byte) ([]byte, string) {
	t, ok := parseTime(string(text))
	if !ok {
		return nil, notTime
	}
	if day := t.Weekday(); day == time.Saturday || day == time.Sunday {
		return append(scratch, '1'), ""
	}
	return append(scratch, '0'), ""
}

func deriveWeekday(text, scratch []byte) ([]byte, string) {
	t, ok := parseTime(string(text))
	if !ok {
		return nil, notTime
	}
	return strconv.AppendInt(scratch, int64(t.Weekday()+6)%7, 10), ""
}

const notTime = "not a time: write 2026-01-31, 2026-01-31T12:00:00, seconds since 1970, or YYMMDDHH"

// timeLayouts are the ISO forms that are read, with "T" between date and time. A fraction of a second is read too.
var timeLayouts = []string{"2006-01-02", "2006-01-02T15:04:05", time.RFC3339, "2006-01-02T15:04", "2006-01-02T15"}

// parseTime reads a time: an ISO date, with or without a time of day, whose hour is taken as it is written;
// 8 digits YYMMDDHH, as in Avazu's data; or seconds since 1970, in UTC.
func parseTime(s string) (t time.Time, ok bool) {
	s = strings.TrimSpace(s)
	if digits := strings.TrimLeft(s, "0123456789"); digits == "" && s != "" {
		if len(s) == len("06010215") {
			t, err := time.Parse("06010215", s)
			return t, err == nil
		}
		sec, err := strconv.ParseInt(s, 10, 64)
		return time.Unix(sec, 0).UTC(), err == nil && sec < 1<<40
	}
	if len(s) > 10 && s[10] == ' ' {
		s = s[:10] + "T" + s[11:]
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return t, false
}
