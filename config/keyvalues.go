package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2/unstable"
)

// KeyValue is a key and its value as TOML.
type KeyValue struct{ Key, Value string }

// KeyValues lists every key of a config that takes a value, in the order of the file
// that Resolved writes.
func (c *Config) KeyValues() []KeyValue {
	var list []KeyValue
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			key, field := prefix+v.Type().Field(i).Tag.Get("toml"), v.Field(i)
			if _, leaf := field.Interface().(unstable.Marshaler); leaf || field.Kind() != reflect.Struct {
				list = append(list, KeyValue{key, valueText(field)})
				continue
			}
			walk(key+".", field)
		}
	}
	walk("", reflect.ValueOf(c).Elem())
	return list
}

// valueText is a value as TOML. A float has as many digits as it needs.
func valueText(v reflect.Value) string {
	if m, ok := v.Interface().(unstable.Marshaler); ok {
		text, err := m.MarshalTOML()
		if err != nil {
			panic("config: a value must encode: " + err.Error())
		}
		return string(text)
	}
	switch v.Kind() {
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.String:
		return quote(v.String())
	case reflect.Slice, reflect.Array:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = valueText(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	default:
		return fmt.Sprint(v.Interface())
	}
}

// Known reports whether a key exists that takes a value. If not, nearestKey is the key
// that was probably meant.
func Known(key string) (known bool, nearestKey string) {
	if _, known := defaultValues()[key]; known {
		return true, key
	}
	return false, nearest(key)
}

// defaultValues returns the value of each key of a default config. Each --set is looked up in it.
var defaultValues = sync.OnceValue(func() map[string]string {
	values := map[string]string{}
	for _, kv := range Default().KeyValues() {
		values[kv.Key] = kv.Value
	}
	return values
})

// Gives reports whether a config file or a --set gives a key. Both have been loaded before.
func Gives(path string, sets []string, key string) (bool, error) {
	for _, set := range sets {
		if k, _, _ := strings.Cut(set, "="); strings.EqualFold(strings.TrimSpace(k), key) {
			return true, nil
		}
	}
	doc, _, err := read(path)
	if err != nil {
		return false, err
	}
	src := source{line: lines(doc)}
	return src.mentions(key), nil
}
