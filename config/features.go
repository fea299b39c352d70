package config

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ecrec/ecrec/data"
)

// Hots is the number of ids of each feature of synthetic data: a list, or the name of a set.
type Hots struct {
	Name string
	IDs  []int
}

// maxHot is the limit on the ids of a feature of synthetic data.
const maxHot = 1 << 16

// UnmarshalTOML implements unstable.Unmarshaler.
func (h *Hots) UnmarshalTOML(raw []byte) error {
	return decode(raw, func(v any) error {
		switch v := v.(type) {
		case string:
			ids, err := data.HotSet(v)
			if err != nil {
				return fmt.Errorf("%w; or write a list of the ids of each feature", err)
			}
			*h = Hots{Name: v, IDs: ids}
			return nil
		case []any:
			ids := make([]int, len(v))
			for i, e := range v {
				n, ok := e.(int64)
				if !ok || n < 1 || n > maxHot {
					return fmt.Errorf("feature %d has %v ids; choose 1 to %d", i, e, maxHot)
				}
				ids[i] = int(n)
			}
			*h = Hots{}
			if len(ids) > 0 {
				h.IDs = ids
			}
			return nil
		}
		return errWant("a list of the number of ids of each feature, \"mlperf\" or \"hundred\"")
	})
}

// MarshalTOML implements unstable.Marshaler.
func (h Hots) MarshalTOML() ([]byte, error) {
	out := []byte{'['}
	for i, n := range h.IDs {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = strconv.AppendInt(out, int64(n), 10)
	}
	return append(out, ']'), nil
}

// Pooling is how the rows of a bag become one: a word for all features, or one for each.
type Pooling []string

const (
	poolSum  = "sum"
	poolMean = "mean"
)

// UnmarshalTOML implements unstable.Unmarshaler.
func (p *Pooling) UnmarshalTOML(raw []byte) error {
	return decode(raw, func(v any) error {
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		out := Pooling{}
		for _, e := range list {
			word, ok := e.(string)
			if !ok || word != poolSum && word != poolMean {
				return errWant("\"sum\" or \"mean\", or a list of them for each feature")
			}
			out = append(out, word)
		}
		if len(out) == 0 {
			return errWant("\"sum\" or \"mean\", or a list of them for each feature")
		}
		*p = out
		return nil
	})
}

// MarshalTOML implements unstable.Marshaler.
func (p Pooling) MarshalTOML() ([]byte, error) {
	if len(p) == 1 {
		return strconv.AppendQuote(nil, p[0]), nil
	}
	out := []byte{'['}
	for i, word := range p {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = strconv.AppendQuote(out, word)
	}
	return append(out, ']'), nil
}

// meansOf is 1 for each feature whose bags are means, and 0 for each whose bags are sums. Nil: all
// are sums.
func (p Pooling) meansOf(features int) []int32 {
	if !slices.Contains(p, poolMean) {
		return nil
	}
	means := make([]int32, features)
	for f := range means {
		if p[min(f, len(p)-1)] == poolMean {
			means[f] = 1
		}
	}
	return means
}

// uniqueNames are the different names of a list, in the order in which they are there first.
func uniqueNames(list []string) (names []string) {
	for _, name := range list {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// numberNames numbers the names of a list in the order in which they are there first. Nil: no two
// are equal.
func numberNames(list []string) []int {
	names := uniqueNames(list)
	if len(names) == len(list) {
		return nil
	}
	numbers := make([]int, len(list))
	for i, name := range list {
		numbers[i] = slices.Index(names, name)
	}
	return numbers
}
