package data

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/internal/env"
)

// inferDelimited is Infer for a CSV or TSV file with a header.
func inferDelimited(e env.Env, name, label string) (*Inferred, error) {
	text, total, err := readBeginning(e, name)
	if err != nil {
		return nil, err
	}
	in := &Inferred{Format: FormatCSV, Whole: int64(len(text)) >= total}
	if in.Delimiter, err = inferDelimiter(name, text); err != nil {
		return nil, err
	}
	f := &csvFormat{delimiter: in.Delimiter}
	size := f.recordEnd(text)
	names, err := headerNames(name, text[:size], in.Delimiter)
	if err != nil {
		return nil, err
	}
	columns := make([]columnSample, len(names))
	for i := range columns {
		columns[i] = newColumnSample(names[i])
	}
	header, rows, at := size, int64(0), size
	s := fieldScanner{text: text, delimiter: in.Delimiter}
	for at < len(text) && rows < inferRows {
		n := f.recordEnd(text[at:])
		if !in.Whole && at+n == len(text) {
			break // cut short
		}
		if line := trimEOL(text[at : at+n]); len(line) > 0 {
			s.at, s.done = at, false
			for i := 0; s.more(); i++ {
				if field, what := s.next(); what == "" && i < len(columns) {
					columns[i].addField(field)
				}
			}
			rows++
		}
		at += n
	}
	if rows == 0 {
		return nil, fileErr(name, "no samples follow the header")
	}
	in.Whole = in.Whole && at >= len(text)
	if in.Rows = rows; !in.Whole {
		in.Rows = int64(float64(total-int64(header)) / float64(at-header) * float64(rows))
	}
	return in, in.decide(name, label, columns, rows)
}

// readBeginning reads up to inferBytes of a file's text. total is the size of all of it, an estimate if it is packed.
func readBeginning(e env.Env, name string) (text []byte, total int64, err error) {
	r, err := openTextFile(e, name)
	if err != nil {
		return nil, 0, err
	}
	defer r.closeFile()
	size, err := fileSize(e, name)
	if err != nil {
		return nil, 0, err
	}
	buf := make([]byte, chunkBytes)
	for len(text) < inferBytes && r.textLeft() > 0 {
		n, err := r.readText(buf)
		if err != nil {
			return nil, 0, err
		}
		text = append(text, buf[:n]...)
	}
	total = int64(len(text))
	if r.textLeft() > 0 {
		total = max(total+1, int64(float64(size)/float64(max(r.fileBytes(), 1))*float64(len(text))))
	}
	return text, total, checkUnpacked(name, FormatCSV, text[:min(len(text), maxLineBytes)])
}

func fileSize(e env.Env, name string) (int64, error) {
	f, size, err := openFile(e, name)
	if err != nil {
		return 0, err
	}
	return size, f.Close()
}

// inferDelimiter chooses the byte that cuts the first lines into most fields, equally many in each.
func inferDelimiter(name string, text []byte) (best byte, err error) {
	const lines = 20
	most := 1
	for _, d := range []byte{',', '\t', ';', '|'} {
		fields, at := 0, 0
		f := &csvFormat{delimiter: d}
		for i := 0; i < lines && at < len(text); i++ {
			size := f.recordEnd(text[at:])
			n := 0
			for s := (fieldScanner{text: text[at : at+size], delimiter: d}); s.more(); n++ {
				s.next()
			}
			whole := at+size < len(text) || i == 0
			if at += size; i == 0 {
				fields = n
			} else if n != fields && whole {
				fields = 0
				break
			}
		}
		if fields > most {
			best, most = d, fields
		}
	}
	if best == 0 {
		return 0, fileErr(name, "its lines have no equal numbers of fields separated by a comma, tab, semicolon or bar; name a CSV or TSV file with a header")
	}
	return best, nil
}

// headerNames reads the names of the columns. Fields that look like values are refused.
func headerNames(name string, line []byte, delimiter byte) (names []string, err error) {
	line = bytes.TrimPrefix(trimEOL(line), []byte("\uFEFF"))
	for s := (fieldScanner{text: line, delimiter: delimiter}); s.more(); {
		field, _ := s.next()
		text := string(field)
		if _, number := parseDecimal(field); number || slices.Contains(names, text) {
			return nil, &Error{File: name, Line: 1, What: fmt.Sprintf("the first line holds %q, so it seems to be a row of values or has a name twice; "+
				"write the names of the columns into the first line", text)}
		}
		names = append(names, text)
	}
	return names, nil
}
