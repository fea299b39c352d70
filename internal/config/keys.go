package config

import (
	"math"
	"reflect"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// known is every key of a config with the type of its value.
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

// nearest is the known key that takes the fewest edits to reach from key: of
// its whole path, or of its last word alone when it stands in the wrong table.
func nearest(key string) string {
	const moved = 3 // what another table costs at most: one typing error and a half
	split := func(k string) (table, last string) {
		i := strings.LastIndexByte(k, '.') + 1
		return k[:i], k[i:]
	}
	table, last := split(key)
	all := make([]string, 0, len(known))
	for k := range known {
		all = append(all, k)
	}
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

// edits is the Levenshtein distance of two strings, in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := diagonal
			if a[i] != b[j] {
				next = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

// wants says in words what value a key takes.
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

// lines finds the line, from 1, on which each key of a document stands. The
// document parses.
func lines(doc []byte) map[string]int {
	at := map[string]int{}
	var p unstable.Parser
	p.Reset(doc)
	prefix := ""
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			prefix = note(&p, at, "", e)
			prefix += "."
		case unstable.KeyValue:
			noteValue(&p, at, prefix, e)
		}
	}
	return at
}

// note records where the key of a node stands and returns the key.
func note(p *unstable.Parser, at map[string]int, prefix string, n *unstable.Node) string {
	key := prefix
	for it := n.Key(); it.Next(); {
		if key != "" && !strings.HasSuffix(key, ".") {
			key += "."
		}
		key += strings.ToLower(string(it.Node().Data))
		at[key] = p.Shape(it.Node().Raw).Start.Line
	}
	return key
}

func noteValue(p *unstable.Parser, at map[string]int, prefix string, kv *unstable.Node) {
	key := note(p, at, prefix, kv)
	if v := kv.Value(); v.Kind == unstable.InlineTable {
		for it := v.Children(); it.Next(); {
			noteValue(p, at, key+".", it.Node())
		}
	}
}
