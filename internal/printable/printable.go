package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote returns text with every character that does not print, and every byte that is not
// UTF-8, written as in a Go string: \x1b, \u202e.
func Quote(text string) string {
	var out strings.Builder
	for text != "" {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		text = text[n:]
	}
	return out.String()
}

// omission replaces the middle of a long text. Its longest form has a number of ten digits.
const omission = " ... (%d bytes) ... "

// Shorten returns text in at most limit bytes. It omits the middle of a longer text and keeps
// its last bytes, which often name the remedy. limit must exceed last by 40 bytes or more.
func Shorten(text string, limit, last int) string {
	if len(text) <= limit {
		return text
	}
	begin, end := limit-last-len(omission)-len("1234567890"), len(text)-last
	for !utf8.RuneStart(text[begin]) {
		begin--
	}
	for !utf8.RuneStart(text[end]) {
		end++
	}
	return text[:begin] + fmt.Sprintf(omission, end-begin) + text[end:]
}

// Clip returns the begin of text, quoted, in at most limit bytes. A shortened text ends in
// "...".
func Clip(text string, limit int) string {
	if len(text) > limit { // quoting makes no text shorter
		text = text[:limit+1]
	}
	text = Quote(text)
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "..."
}

// JoinLines returns the lines of text on one line, with "; " between them.
func JoinLines(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}
