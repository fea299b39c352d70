package cli

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"a: b":                            "a: b",
		"first\n  second\r\n":             "first; second",
		"key \x1b]0;owned\x07":            `key \x1b]0;owned\x07`,
		"tab\there":                       `tab\x09here`,
		"right-to-left \u202e, C1 \u009b": `right-to-left \u202e, C1 \u009b`,
		"not UTF-8 \xff\xfe":              `not UTF-8 \xff\xfe`,
		"Größe, 大小":                       "Größe, 大小",
	} {
		if got := oneLine(errors.New(in)); got != want {
			t.Errorf("%q is printed as %q, want %q", in, got, want)
		}
	}
}

// A column name of 100 KB was once printed in full.
func TestOneLineIsShort(t *testing.T) {
	for _, filler := range []string{"k", "é", "大", "\x1b", "\xff"} {
		got := oneLine(errors.New("run.toml: " + strings.Repeat(filler, 100_001) + ": choose another with job.out"))
		if len(got) > maxLine || !utf8.ValidString(got) || !strings.HasPrefix(got, "run.toml: ") ||
			!strings.HasSuffix(got, ": choose another with job.out") || !strings.Contains(got, " bytes) ... ") {
			t.Errorf("%q: %d bytes: %.60q...%q", filler, len(got), got, got[len(got)-60:])
		}
	}
}
