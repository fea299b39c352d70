package data

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// rowHeader is csv for rows: the header may lack the label.
type rowHeader struct {
	*csvFormat
	o *RowOptions
}

func (f rowHeader) parseHeader(file string, text []byte) (size int, lines int64, cols *columns, err error) {
	if file == Stdin {
		file = "stdin"
	}
	if size, lines, err = f.headerEnd(file, text); err != nil {
		return 0, 0, nil, err
	}
	line := bytes.TrimPrefix(trimEOL(text[:size]), []byte("\uFEFF"))
	cols = new(columns)
	s := fieldScanner{text: line, delimiter: f.delimiter}
	for s.more() {
		name, what := s.next()
		if what != "" {
			return 0, 0, nil, &Error{File: file, Line: 1, What: fmt.Sprintf("column %d of the header: %s", len(cols.names)+1, what)}
		}
		cols.names = append(cols.names, string(name))
	}
	var missing []string
	want := f.o.Recipe.columnNames()
	for _, name := range append(append(want, f.label), f.o.Keep...) {
		at := slices.Index(cols.names, name)
		switch {
		case at >= 0 && slices.Contains(cols.names[at+1:], name):
			return 0, 0, nil, &Error{File: file, Line: 1, What: fmt.Sprintf("two columns are called %q", name)}
		case at < 0 && (name != f.label || slices.Contains(f.o.Keep, name)) && !slices.Contains(missing, strconv.Quote(name)):
			missing = append(missing, strconv.Quote(name))
		}
	}
	if len(missing) > 0 {
		return 0, 0, nil, &Error{File: file, Line: 1, What: describeMissing(missing, cols.names)}
	}
	return size, lines, cols, nil
}
