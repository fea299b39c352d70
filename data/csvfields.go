package data

const noClosingQuote = "the quote is not closed"

// fieldScanner walks the fields of the first record of text.
type fieldScanner struct {
	text      []byte
	at        int
	delimiter byte
	done      bool
	multiline bool   // a field was quoted, so the record may span lines
	unquoted  []byte // memory for fields with doubled quotes
}

// more reports whether the record has another field.
func (s *fieldScanner) more() bool { return !s.done }

// next returns the next field, and the mistake in it, if any. At the end of the record
// the scanner is behind the end of the line.
func (s *fieldScanner) next() (field []byte, what string) {
	text, p := s.text, s.at
	if p < len(text) && text[p] == '"' {
		s.multiline = true
		field, p, what = s.readQuoted(p + 1)
	} else {
		field = text[p:]
		delimiter := s.delimiter
		for i, ch := range field {
			if ch == delimiter || ch == '\n' {
				field = field[:i]
				break
			}
		}
		p += len(field)
		if n := len(field); n > 0 && p < len(text) && text[p] == '\n' && field[n-1] == '\r' {
			field = field[:n-1]
		}
	}
	switch {
	case p == len(text):
		s.done = true
	case text[p] == '\n':
		s.done = true
		p++
	default:
		p++
	}
	s.at = p
	return field, what
}

// readQuoted reads a quoted field from behind its opening quote on, up to the
// delimiter or line end.
func (s *fieldScanner) readQuoted(p int) (field []byte, end int, what string) {
	text, start := s.text, p
	doubled := false
	for {
		for p < len(text) && text[p] != '"' {
			p++
		}
		if p == len(text) {
			return text[start:], p, noClosingQuote
		}
		if p+1 < len(text) && text[p+1] == '"' {
			doubled = true
			p += 2
			continue
		}
		break
	}
	field = text[start:p]
	if doubled {
		s.unquoted = s.unquoted[:0]
		for i := 0; i < len(field); i++ {
			s.unquoted = append(s.unquoted, field[i])
			if field[i] == '"' {
				i++
			}
		}
		field = s.unquoted
	}
	p++
	if p+1 < len(text) && text[p] == '\r' && text[p+1] == '\n' {
		return field, p + 1, ""
	}
	for p < len(text) && text[p] != s.delimiter && text[p] != '\n' {
		what = "text follows the closing quote"
		p++
	}
	return field, p, what
}
