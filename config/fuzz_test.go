package config

import (
	"errors"
	"math"
	"testing"
)

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"512MiB", "1.5GiB", "0", "7 KB", "9223372036854775807", ".", "8388608TiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := ParseSize(in)
		if err != nil {
			return
		}
		if got < 0 {
			t.Fatalf("%q is %d", in, got)
		}
		if back, err := ParseSize(got.String()); err != nil || back != got {
			t.Fatalf("%q is %d, written %q, read back %d, %v", in, got, got, back, err)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"1.5s", "200ms", "-1s", "1h2m", "", "9e9h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		d, err := ParseDuration(in)
		if err != nil {
			return
		}
		if back, err := ParseDuration(d.String()); err != nil || back != d || d < 0 {
			t.Fatalf("%q is %v, read back %v, %v", in, d, back, err)
		}
	})
}

// Any file gives a Config that passes its own checks, or ErrInvalid; never a panic.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(base), "job.ranks=2")
	f.Add([]byte("a = 1\na.b = 2"), "x")
	f.Add([]byte("[data]\n[model]\n[train]\n"), "model.tables=[1]")
	f.Fuzz(func(t *testing.T, doc []byte, set string) {
		c := Default()
		if err := decodeStrict(doc, c); err != nil {
			if err := decodeError("f", doc, err); !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		src := &source{file: "f", set: map[string]string{}, line: lines(doc)}
		_ = apply(c, src, set)
		if err := c.resolveDefaults("/f.toml", src); err != nil {
			t.Fatal(err)
		}
		for _, check := range []func(*source) error{c.checkSupported, c.checkNames, c.checkValues} {
			if check(src) != nil {
				return
			}
		}
		if c.Job.Ranks < 1 || math.IsNaN(c.Optimizer.Dense.Eps) || len(c.Model.TableRows()) == 0 {
			t.Fatalf("passed the checks: %+v", c)
		}
		c.Resolved()
	})
}
