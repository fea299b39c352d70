package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Size is a number of bytes: an integer, or a string like "512MiB" or "4GB".
type Size int64

// Duration is a span of time: a string like "1.5s".
type Duration time.Duration

// Rate is a number of bytes per second: RateAuto, RateMax, an integer, or a string like "64MiB".
type Rate int64

const (
	// RateAuto is a rate that the program chooses.
	RateAuto Rate = 0
	// RateMax is as fast as possible.
	RateMax Rate = -1
)

// Lookahead is the number of batches whose ids are planned ahead, or "auto".
type Lookahead struct {
	Auto    bool
	Batches int
}

// Interval is a span of time ("30m") or a number of steps; zero is never.
type Interval struct {
	Time  time.Duration
	Steps int
}

// Betas are adam's two decay rates.
type Betas [2]float64

// sizeUnits is ordered so that no suffix hides a longer one.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// ParseSize reads a size: digits with an optional fraction and an optional unit
// (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB).
func ParseSize(s string) (Size, error) {
	number, unit := strings.TrimSpace(s), int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	if strings.Trim(number, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is not a size; write a number of bytes, or a number with a unit like \"512MiB\"", s)
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n > math.MaxInt64/unit {
			return 0, fmt.Errorf("size %q is too large", s)
		}
		return Size(n * unit), nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size; write a number of bytes, or a number with a unit like \"512MiB\"", s)
	}
	if f*float64(unit) >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q is too large", s)
	}
	return Size(f * float64(unit)), nil
}

// String is the size in the largest binary unit that divides it.
func (s Size) String() string {
	for i := 3; i >= 0; i-- {
		if u := sizeUnits[i]; s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// ParseDuration reads a span of time that is not negative, such as "1.5s".
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; write a number with a unit (ms, s, m, h) like \"1.5s\"", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("duration %q is negative", s)
	}
	return d, nil
}

// decode reads raw, the TOML of one value, and calls take with it. The error points at
// raw, which is part of the document.
func decode(raw []byte, take func(v any) error) error {
	var doc struct{ V any }
	if err := toml.Unmarshal(append([]byte("v = "), raw...), &doc); err != nil {
		return unstable.NewParserError(raw, "%s", err)
	}
	if err := take(doc.V); err != nil {
		return unstable.NewParserError(raw, "%s", err)
	}
	return nil
}

// UnmarshalTOML implements unstable.Unmarshaler.
func (s *Size) UnmarshalTOML(raw []byte) error {
	return decode(raw, func(v any) (err error) {
		switch v := v.(type) {
		case string:
			*s, err = ParseSize(v)
			return err
		case int64:
			if v < 0 {
				return fmt.Errorf("size %d is negative", v)
			}
			*s = Size(v)
			return nil
		}
		return errWant("a size, an integer or a string like \"512MiB\"")
	})
}

// UnmarshalTOML implements unstable.Unmarshaler.
func (r *Rate) UnmarshalTOML(raw []byte) error {
	return decode(raw, func(v any) error {
		switch v := v.(type) {
		case string:
			switch v {
			case "auto":
				*r = RateAuto
				return nil
			case "max":
				*r = RateMax
				return nil
			}
			s, err := ParseSize(v)
			if err != nil {
				return fmt.Errorf("%q is not a rate; write bytes per second like \"64MiB\", \"auto\" or \"max\"", v)
			}
			*r = Rate(s)
			return nil
		case int64:
			if v < 0 {
				return fmt.Errorf("rate %d is negative; write bytes per second like \"64MiB\", \"auto\" or \"max\"", v)
			}
			*r = Rate(v)
			return nil
		}
		return errWant("bytes per second, an integer or a string like \"64MiB\", or \"auto\" or \"max\"")
	})
}

// UnmarshalTOML implements unstable.Unmarshaler.
func (d *Duration) UnmarshalTOML(raw []byte) error {
	return decode(raw, func(v any) error {
		text, ok := v.(string)
		if !ok {
			return errWant("a duration, a string like \"1.5s\"")
		}
		t, err := ParseDuration(text)
		*d = Duration(t)
		return err
	})
}

// UnmarshalTOML implements unstable.Unmarshaler.
func (l *Lookahead) UnmarshalTOML(raw []byte) error {
	return decode(raw, func(v any) error {
		switch v := v.(type) {
		case int64:
			if v < 1 || v > math.MaxInt32 {
				return fmt.Errorf("lookahead %d is not a positive number of batches", v)
			}
			*l = Lookahead{Batches: int(v)}
			return nil
		case string:
			if v == "auto" {
				*l = Lookahead{Auto: true}
				return nil
			}
		}
		return errWant("a number of batches or \"auto\"")
	})
}

// UnmarshalTOML implements unstable.Unmarshaler.
func (i *Interval) UnmarshalTOML(raw []byte) error {
	return decode(raw, func(v any) error {
		switch v := v.(type) {
		case int64:
			if v < 1 || v > math.MaxInt32 {
				return fmt.Errorf("%d is not a positive number of steps", v)
			}
			*i = Interval{Steps: int(v)}
			return nil
		case string:
			t, err := ParseDuration(v)
			*i = Interval{Time: t}
			return err
		}
		return errWant("a duration like \"30m\" or a number of steps")
	})
}

// UnmarshalTOML implements unstable.Unmarshaler.
func (b *Betas) UnmarshalTOML(raw []byte) error {
	return decode(raw, func(v any) error {
		list, _ := v.([]any)
		if len(list) != len(b) {
			return errWant("a list of two numbers like [0.9, 0.999]")
		}
		for i, e := range list {
			switch e := e.(type) {
			case float64:
				b[i] = e
			case int64:
				b[i] = float64(e)
			default:
				return errWant("a list of two numbers like [0.9, 0.999]")
			}
		}
		return nil
	})
}

// errWant is a value of the wrong type.
type errWant string

func (e errWant) Error() string { return "want " + string(e) }

// MarshalTOML implements unstable.Marshaler.
func (s Size) MarshalTOML() ([]byte, error) { return strconv.AppendQuote(nil, s.String()), nil }

// MarshalTOML implements unstable.Marshaler.
func (r Rate) MarshalTOML() ([]byte, error) { return strconv.AppendQuote(nil, r.String()), nil }

// String is "auto", "max", or the bytes per second as a Size.
func (r Rate) String() string {
	switch r {
	case RateAuto:
		return "auto"
	case RateMax:
		return "max"
	}
	return Size(r).String()
}

// MarshalTOML implements unstable.Marshaler.
func (d Duration) MarshalTOML() ([]byte, error) {
	return strconv.AppendQuote(nil, time.Duration(d).String()), nil
}

// MarshalTOML implements unstable.Marshaler.
func (l Lookahead) MarshalTOML() ([]byte, error) {
	if l.Auto {
		return []byte(`"auto"`), nil
	}
	return strconv.AppendInt(nil, int64(l.Batches), 10), nil
}

// MarshalTOML implements unstable.Marshaler.
func (i Interval) MarshalTOML() ([]byte, error) {
	if i.Steps > 0 {
		return strconv.AppendInt(nil, int64(i.Steps), 10), nil
	}
	return strconv.AppendQuote(nil, i.Time.String()), nil
}

// quote is a text as a basic string of TOML.
func quote(text string) string {
	out := []byte{'"'}
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case !unicode.IsPrint(r) && r > 0xffff:
			out = fmt.Appendf(out, `\U%08X`, r)
		case !unicode.IsPrint(r):
			out = fmt.Appendf(out, `\u%04X`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return string(append(out, '"'))
}
