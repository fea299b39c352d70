package lineage

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
)

// Entry is a key of a recipe and its value.
type Entry struct{ Key, Value string }

// MarshalText implements encoding.TextMarshaler: an entry is a line of TOML.
func (e Entry) MarshalText() ([]byte, error) { return []byte(e.Key + " = " + e.Value), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *Entry) UnmarshalText(text []byte) error {
	key, value, ok := strings.Cut(string(text), " = ")
	if !ok || key == "" || strings.ContainsFunc(string(text), unicode.IsControl) {
		return fmt.Errorf("%q is not KEY = VALUE", text)
	}
	*e = Entry{key, value}
	return nil
}

// Recipe defines a run's result. It is sorted by key.
type Recipe []Entry

// Inputs are the identities of a run's files.
type Inputs struct {
	Train, Eval data.Identity
	InitFrom    data.Identity // of model.init_from
}

// None is the value of a key of files if a run has none.
var None = strconv.Quote(data.Identity{}.String())

// Of is the recipe of a config with these files.
func Of(c *config.Config, in Inputs) Recipe {
	r := OfConfig(c)
	for key, id := range map[string]data.Identity{"data.train": in.Train, "data.eval": in.Eval, "model.init_from": in.InitFrom} {
		r = append(r, Entry{key, strconv.Quote(id.String())})
	}
	return r.sortByKey()
}

// OfConfig is the part of a recipe that needs no file.
func OfConfig(c *config.Config) Recipe {
	var r Recipe
	linear, values := c.HasLinear(), map[string]string{}
	for _, kv := range c.KeyValues() {
		values[kv.Key] = kv.Value
	}
	for _, kv := range c.KeyValues() {
		name, ofLinear := strings.CutPrefix(kv.Key, linearKeys)
		switch class := classes[kv.Key]; {
		case ofLinear && (!linear || kv.Value == values[sparseKeys+name]):
		case class == free, kv.Key == "data.train", kv.Key == "data.eval", kv.Key == "model.init_from":
		case kv.Key == "job.ranks":
			r = append(r, Entry{kv.Key, strconv.Itoa(c.Trainers())})
		default:
			r = append(r, Entry{kv.Key, kv.Value})
		}
	}
	return r.sortByKey()
}

// linearKeys begin the keys of the rule of linear weights, sparseKeys those of the rule whose
// values they have if the config gives no others.
const (
	linearKeys = "optimizer.linear."
	sparseKeys = "optimizer.sparse."
)

// valueOf is Value, except that a missing key of [optimizer.linear] has the value of
// [optimizer.sparse].
func (r Recipe) valueOf(key string) (value string, ok bool) {
	if value, ok = r.Value(key); ok {
		return value, true
	}
	if name, linear := strings.CutPrefix(key, linearKeys); linear {
		return r.Value(sparseKeys + name)
	}
	return "", false
}

func (r Recipe) sortByKey() Recipe {
	slices.SortFunc(r, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return r
}

// Value returns the value of a key, and whether the recipe has the key.
func (r Recipe) Value(key string) (value string, ok bool) {
	for _, e := range r {
		if e.Key == key {
			return e.Value, true
		}
	}
	return "", false
}

// With is the recipe with another value of a key that it has.
func (r Recipe) With(key, value string) Recipe {
	r = slices.Clone(r)
	for i := range r {
		if r[i].Key == key {
			r[i].Value = value
		}
	}
	return r
}

// Difference is a key in which two recipes differ.
type Difference struct {
	Key, There, Here string
	class            class
}

// String describes the difference for a message.
func (d Difference) String() string {
	return fmt.Sprintf("%s is %s there, %s here", d.Key, d.There, d.Here)
}

// Defines reports whether the key defines the result.
func (d Difference) Defines() bool { return d.class >= defines }

// Fixed reports whether no run can resume if the key differs.
func (d Difference) Fixed() bool { return d.class == fixed }

// missing is the value of a key that this version does not have, or does not use.
const missing = "missing"

// Diff lists the keys in which a recipe differs from that of a run here. A key that r lacks
// had its default. If r is partial, only its own keys are compared.
func (r Recipe) Diff(here Recipe, partial bool) []Difference {
	var list []Difference
	add := func(key, there, value string) {
		if there != value {
			list = append(list, Difference{key, there, value, max(r.classOf(key), here.classOf(key))})
		}
	}
	for _, e := range r {
		value, ok := here.valueOf(e.Key)
		if !ok {
			if partial {
				continue
			}
			value = missing
		}
		add(e.Key, e.Value, value)
	}
	if partial {
		return list
	}
	defaults := OfConfig(config.Default())
	for _, e := range here {
		if _, ok := r.Value(e.Key); ok {
			continue
		}
		there, ok := r.valueOf(e.Key)
		if !ok {
			there, ok = defaults.valueOf(e.Key)
		}
		if !ok {
			there = missing
		}
		add(e.Key, there, e.Value)
	}
	slices.SortFunc(list, func(a, b Difference) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// Refused returns the differences that define the result and are not in allowed, and all
// fixed ones.
func Refused(list []Difference, allowed []string) []Difference {
	return slices.DeleteFunc(slices.Clone(list), func(d Difference) bool {
		return !d.Defines() || !d.Fixed() && slices.Contains(allowed, d.Key)
	})
}

// Text lists the first few differences on one line.
func Text(list []Difference) string {
	const most = 8
	var parts []string
	for i, d := range list {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-most))
			break
		}
		parts = append(parts, d.String())
	}
	return strings.Join(parts, ", ")
}

// CheckAllowed returns an error if a key of --allow is unknown or fixed.
func CheckAllowed(key string) error {
	if known, nearest := config.Known(key); !known {
		return fmt.Errorf("--allow %s: unknown key; the nearest known key is %s", key, nearest)
	}
	if classes[key] == fixed {
		return fmt.Errorf("--allow %s: no run can resume where it differs: the checkpoint would hold another model", key)
	}
	return nil
}
