package config

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// known maps every key of a config to the type of its value.
var known = func() map[string]reflect.Type {
	keys := map[string]reflect.Type{}
	var walk func(prefix string, t reflect.Type)
	walk = func(prefix string, t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			key := prefix + f.Tag.Get("toml")
			keys[key] = f.Type
			_, leaf := reflect.New(f.Type).Interface().(unstable.Unmarshaler)
			if f.Type.Kind() == reflect.Struct && !leaf {
				walk(key+".", f.Type)
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
	return keys
}()

// nearest is the existing key with the fewest edits from key: of the full path, or of
// the last word if the key is in the wrong table.
func nearest(key string) string { return nearestOf(key, slices.Collect(maps.Keys(known))) }

// nearestOf is nearest among all.
func nearestOf(key string, all []string) string {
	const (
		moved   = 3   // the most that another table costs: one typing error and a half
		longest = 100 // bytes of a key that are compared
	)
	key = key[:min(len(key), longest)]
	split := func(k string) (table, last string) {
		i := strings.LastIndexByte(k, '.') + 1
		return k[:i], k[i:]
	}
	table, last := split(key)
	sort.Strings(all)
	best, cost, apart := "", math.MaxInt, 0
	for _, k := range all {
		t, l := split(k)
		a := edits(table, t)
		c := 2*edits(last, l) + min(2*a, moved)
		if c < cost || c == cost && a < apart {
			best, cost, apart = k, c, a
		}
	}
	return best
}

// edits is how many bytes must be inserted, deleted, replaced or exchanged with the next one to make b
// of a (optimal string alignment).
func edits(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := range len(a) {
		for j := range len(b) {
			replaced := rows[i][j]
			if a[i] != b[j] {
				replaced++
			}
			n := min(replaced, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = n
		}
	}
	return rows[len(a)][len(b)]
}

// wants describes the type of the value of a key.
func wants(key string) string {
	t, ok := known[key]
	if !ok {
		return "another type"
	}
	return wantsType(t)
}

func wantsType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int:
		return "an integer"
	case reflect.Uint64:
		return "an integer that is not negative"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list, each element " + wantsType(t.Elem())
	default:
		return "a table"
	}
}

// lines finds the line, from 1, of each key of a document. The document must parse.
func lines(doc []byte) map[string]int {
	at := map[string]int{}
	eachKey(doc, func(key, _ string, line func() int) bool {
		at[key] = line()
		return true
	})
	return at
}

// unknownKey finds the first key of a document that does not exist, and its line. It stops
// there, or at the first text that is not TOML.
func unknownKey(doc []byte) (unknown string, at int) {
	eachKey(doc, func(key, whole string, line func() int) bool {
		if _, ok := known[key]; !ok && !namesColumn(key) {
			unknown, at = whole, line()
		}
		return unknown == ""
	})
	return unknown, at
}

// namesColumn reports whether a key is below one whose keys are the names of columns.
func namesColumn(key string) bool {
	return strings.HasPrefix(key, "data.transform.") || strings.HasPrefix(key, "model.tables.")
}

// keyWalk calls see for the keys of a document in order, until see returns false. For a.b it
// calls see with "a" and with "a.b", and both times with "a.b" as the full key.
type keyWalk struct {
	p     unstable.Parser
	see   func(key, whole string, line func() int) bool
	ended bool
}

func eachKey(doc []byte, see func(key, whole string, line func() int) bool) {
	w := &keyWalk{see: see}
	w.p.Reset(doc)
	prefix := ""
	for !w.ended && w.p.NextExpression() {
		e := w.p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			prefix = w.walkKey("", e) + "."
		case unstable.KeyValue:
			w.walkValue(prefix, e)
		}
	}
}

// walkKey walks the parts of a node's key, and returns all of it.
func (w *keyWalk) walkKey(prefix string, n *unstable.Node) string {
	var parts []string
	for it := n.Key(); it.Next(); {
		parts = append(parts, strings.ToLower(string(it.Node().Data)))
	}
	whole := prefix + strings.Join(parts, ".")
	it := n.Key()
	for i := 0; !w.ended && it.Next(); i++ {
		key := prefix + strings.Join(parts[:i+1], ".")
		w.ended = !w.see(key, whole, func() int { return w.p.Shape(it.Node().Raw).Start.Line })
	}
	return whole
}

func (w *keyWalk) walkValue(prefix string, kv *unstable.Node) {
	key := w.walkKey(prefix, kv)
	if v := kv.Value(); v.Kind == unstable.InlineTable {
		for it := v.Children(); !w.ended && it.Next(); {
			w.walkValue(key+".", it.Node())
		}
	}
}

// Keys lists every key that takes a value, sorted.
func Keys() (keys []string) {
	for key, t := range known {
		_, leaf := reflect.New(t).Interface().(unstable.Unmarshaler)
		if t.Kind() != reflect.Struct || leaf {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	return keys
}
