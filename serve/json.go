package serve

import (
	"bytes"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner walks a JSON text. Strings without escapes, and numbers, are returned as parts of the text.
type scanner struct {
	text    []byte
	at      int
	scratch []byte // of strings with escapes
}

// errorf returns an error at the place that is reached.
func (s *scanner) errorf(format string, args ...any) error {
	return badRequest("the request is not as expected at byte %d: %s", s.at, fmt.Sprintf(format, args...))
}

// next skips spaces, and returns the byte that follows, 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// expect skips a byte.
func (s *scanner) expect(c byte, where string) error {
	if s.next() != c {
		return s.errorf("%q is missing %s", c, where)
	}
	s.at++
	return nil
}

// more reports whether a list that ends with a byte has another element, and skips the comma before it.
func (s *scanner) more(first bool, end byte) (bool, error) {
	switch c := s.next(); {
	case c == end:
		s.at++
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, s.errorf("a comma or %q is missing", end)
	}
	s.at++
	return true, nil
}

// key reads the key of a member of an object, and the colon.
func (s *scanner) key() ([]byte, error) {
	if s.next() != '"' {
		return nil, s.errorf("a key in quotes is missing")
	}
	name, err := s.stringText()
	if err != nil {
		return nil, err
	}
	return name, s.expect(':', "after a key")
}

// kind is the kind of a value that is no list.
type kind byte

const (
	kindNull kind = iota
	kindText
	kindNumber
	kindTrue
	kindFalse
)

// scalar reads a string, a number, true, false or null.
func (s *scanner) scalar() (text []byte, k kind, err error) {
	switch c := s.next(); {
	case c == '"':
		text, err = s.stringText()
		return text, kindText, err
	case c == '-' || c >= '0' && c <= '9':
		text, err = s.number()
		return text, kindNumber, err
	case s.word("null"):
		return nil, kindNull, nil
	case s.word("true"):
		return nil, kindTrue, nil
	case s.word("false"):
		return nil, kindFalse, nil
	}
	return nil, 0, s.errorf("a string, a number, true, false or null is missing")
}

// word skips a word, if it is there.
func (s *scanner) word(w string) bool {
	if !bytes.HasPrefix(s.text[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

// digits skips digits, and returns how many there are.
func (s *scanner) digits() (n int) {
	for s.at < len(s.text) && s.text[s.at]-'0' <= 9 {
		s.at++
		n++
	}
	return n
}

// number reads a number, as RFC 8259 writes it.
func (s *scanner) number() ([]byte, error) {
	start := s.at
	if s.text[s.at] == '-' {
		s.at++
	}
	zero := s.at < len(s.text) && s.text[s.at] == '0'
	if n := s.digits(); n == 0 || zero && n > 1 {
		return nil, s.errorf("a malformed number")
	}
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at++
		if s.digits() == 0 {
			return nil, s.errorf("a malformed number")
		}
	}
	if s.at < len(s.text) && s.text[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.text) && (s.text[s.at] == '+' || s.text[s.at] == '-') {
			s.at++
		}
		if s.digits() == 0 {
			return nil, s.errorf("a malformed number")
		}
	}
	return s.text[start:s.at], nil
}

// stringText reads a string from its opening quote on.
func (s *scanner) stringText() ([]byte, error) {
	s.at++
	start := s.at
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[start : s.at-1], nil
		case c == '\\':
			return s.escapedText(start)
		case c < ' ':
			return nil, s.errorf("a control character in a string")
		}
	}
	return nil, s.errorf("a quote that is not closed")
}

// escapedText is stringText from the first escape on.
func (s *scanner) escapedText(start int) ([]byte, error) {
	first := len(s.scratch)
	s.scratch = append(s.scratch, s.text[start:s.at]...)
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '"':
			return s.scratch[first:], nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		case c < ' ':
			return nil, s.errorf("a control character in a string")
		default:
			s.scratch = append(s.scratch, c)
		}
	}
	return nil, s.errorf("a quote that is not closed")
}

// escapes are the characters after a backslash, and their meanings.
const escapes, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"

// escape appends the character that the text behind a backslash means.
func (s *scanner) escape() error {
	if s.at == len(s.text) {
		return s.errorf("a quote that is not closed")
	}
	c := s.text[s.at]
	s.at++
	if i := bytes.IndexByte([]byte(escapes), c); i >= 0 {
		s.scratch = append(s.scratch, meanings[i])
		return nil
	}
	r, ok := s.hex()
	if c != 'u' || !ok {
		return s.errorf("an unknown escape")
	}
	if utf16.IsSurrogate(r) {
		second := rune(utf8.RuneError)
		if s.word(`\u`) {
			if second, ok = s.hex(); !ok {
				return s.errorf("an unknown escape")
			}
		}
		if r = utf16.DecodeRune(r, second); r == utf8.RuneError {
			return s.errorf("half of a surrogate pair")
		}
	}
	s.scratch = utf8.AppendRune(s.scratch, r)
	return nil
}

// hex reads four hexadecimal digits.
func (s *scanner) hex() (r rune, ok bool) {
	if len(s.text)-s.at < 4 {
		return 0, false
	}
	for _, c := range s.text[s.at : s.at+4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	s.at += 4
	return r, true
}
