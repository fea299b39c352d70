package printable

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"key \x1b]0;owned\x07":            `key \x1b]0;owned\x07`,
		"tab\there, line\nend":            `tab\x09here, line\x0aend`,
		"right-to-left \u202e, C1 \u009b": `right-to-left \u202e, C1 \u009b`,
		"not UTF-8 \xff\xfe":              `not UTF-8 \xff\xfe`,
		"Größe, 大小":                       "Größe, 大小",
	} {
		if got := Quote(in); got != want {
			t.Errorf("%q is quoted as %q, want %q", in, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	const limit, last = 200, 50
	if text := strings.Repeat("x", limit); Shorten(text, limit, last) != text {
		t.Error("a text of the limit's length is cut")
	}
	for _, filler := range []string{"k", "é", "大"} {
		got := Shorten("begin: "+strings.Repeat(filler, 1000)+": the end", limit, last)
		if len(got) > limit || len(got) < limit-20 || !utf8.ValidString(got) || !strings.HasPrefix(got, "begin: "+filler) ||
			!strings.HasSuffix(got, filler+": the end") || !strings.Contains(got, " bytes) ... ") {
			t.Errorf("%s: %d bytes: %q", filler, len(got), got)
		}
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"12345678", "12345678"}, {"123456789", "12345678..."}, {"1234567ö", "1234567..."}, {"\x1b\x1b\x1b", `\x1b\x1b...`},
		{strings.Repeat("\x00", 100), `\x00\x00...`},
	} {
		if got := Clip(c.in, 8); got != c.want {
			t.Errorf("%q is clipped to %q, want %q", c.in, got, c.want)
		}
	}
}

func TestJoinLines(t *testing.T) {
	if got := JoinLines("a\r\n  b \n\nc"); got != "a; b; c" {
		t.Errorf("%q", got)
	}
}
