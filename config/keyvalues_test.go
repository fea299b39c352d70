package config

import (
	"reflect"
	"testing"
)

// The values of all keys, set on an empty config, give the config that they are of.
func TestKeyValuesAreTheConfig(t *testing.T) {
	path := write(t, base)
	want, err := Load(path, []string{"train.iterations=7", "checkpoint.every=\"30m\"", "cache.max_bytes=\"3MiB\"", "optimizer.dense.lr=1e-12"})
	if err != nil {
		t.Fatal(err)
	}
	got, src := Default(), &source{set: map[string]string{}}
	leaves := map[string]bool{}
	for _, kv := range want.KeyValues() {
		leaves[kv.Key] = true
		if err := apply(got, src, kv.Key+"="+kv.Value); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for key := range known {
		isKnown, nearestKey := Known(key)
		if isKnown != leaves[key] || isKnown && nearestKey != key {
			t.Errorf("%s: known %v, nearest %s", key, isKnown, nearestKey)
		}
	}
}

func TestGives(t *testing.T) {
	path := write(t, base)
	for _, c := range []struct {
		key  string
		sets []string
		want bool
	}{
		{"job.ranks", nil, true}, {"job.seed", nil, false}, {"job.seed", []string{" Job.Seed = 3"}, true},
		{"job.seed", []string{"job.out=job.seed"}, false},
	} {
		if got, err := Gives(path, c.sets, c.key); err != nil || got != c.want {
			t.Errorf("%s, %q: %v, %v", c.key, c.sets, got, err)
		}
	}
}
