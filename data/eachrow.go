package data

import (
	"bytes"
	"fmt"

	"github.com/ecrec/ecrec/internal/env"
)

// anyHeader is csv with any columns.
type anyHeader struct{ *csvFormat }

func (f anyHeader) parseHeader(file string, text []byte) (size int, lines int64, cols *columns, err error) {
	if size, lines, err = f.headerEnd(file, text); err != nil {
		return 0, 0, nil, err
	}
	cols = new(columns)
	s := fieldScanner{text: bytes.TrimPrefix(trimEOL(text[:size]), []byte("\uFEFF")), delimiter: f.delimiter}
	for s.more() {
		name, what := s.next()
		if what != "" {
			return 0, 0, nil, &Error{File: file, Line: 1, What: fmt.Sprintf("column %d of the header: %s", len(cols.names)+1, what)}
		}
		cols.names = append(cols.names, string(name))
	}
	return size, lines, cols, nil
}

// EachRow calls do with each row of files of csv or criteo-tsv, without line ends and headers, in the order of the files.
// Fields are not parsed. A row is valid until do returns. names are the columns of the header, nil if the format has none.
func EachRow(e env.Env, files []string, format string, delimiter byte, do func(names []string, row []byte) error) error {
	if format != FormatCSV && format != FormatCriteoTSV {
		return usageErr("rows of data.format = %q are no text; use %s or %s", format, FormatCSV, FormatCriteoTSV)
	}
	files, err := ListFiles(e, files)
	if err != nil {
		return err
	}
	csv := &csvFormat{delimiter: delimiter}
	r := lineReader{env: e, name: format, files: files, format: anyHeader{csv}, next: place{line: 1}}
	if format == FormatCriteoTSV {
		r.format = tsvParser{}
	}
	defer r.closeFile()
	var c chunk
	for {
		more, err := r.fillChunk(&c)
		if err != nil || !more {
			return err
		}
		var names []string
		if c.columns != nil {
			names = c.columns.names
		}
		quoted := format == FormatCSV && bytes.IndexByte(c.text, '"') >= 0
		for text := c.text; len(text) > 0; {
			n := bytes.IndexByte(text, '\n') + 1
			if quoted {
				n = csv.recordEnd(text)
			}
			if n == 0 {
				n = len(text)
			}
			if row := trimEOL(text[:n]); len(row) > 0 {
				if err := do(names, row); err != nil {
					return err
				}
			}
			text = text[n:]
		}
	}
}
