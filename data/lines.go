package data

import (
	"bytes"
	"fmt"

	"github.com/ecrec/ecrec/internal/env"
)

const (
	chunkBytes   = 1 << 20 // text read and parsed at a time
	maxLineBytes = 1 << 20 // of one line, so that a chunk always holds one
)

// place is a position in the source files, at the start of a line.
type place struct {
	file   int
	offset int64
	line   int64 // from 1
}

// chunk is complete lines of one file, in memory that is reused.
type chunk struct {
	at      place
	text    []byte
	columns *columns // csv: the columns in the file's header
	buf     []byte
	index   fieldIndex // csv
	// fileBytes is how many bytes of the file were read for this chunk and those before it.
	fileBytes int64
	// Parquet: the rows, and the columns.
	rows  int
	parts []parquetPart

	numpy numpyRows // criteo-numpy

	texts *textSet // of the parser; nil: texts are not kept

	// Filled by the parser.
	records []byte
	heap    []byte   // the ids of bags
	bad     []*Error // malformed lines, in order
	end     bool     // no chunk follows
	err     error    // reading failed here
}

// lineReader cuts the source files into chunks.
type lineReader struct {
	env    env.Env
	name   string // of the format
	files  []string
	format lineFormat
	next   place
	text   textReader // nil: no file is open
	cols   *columns
	rest   []byte // read beyond the last chunk
	skip   int64  // bytes of text up to next.offset
}

// skipBytes is how much text is skipped before the progress is shown again.
const skipBytes = 64 << 20

func (r *lineReader) closeFile() {
	if r.text != nil {
		r.text.closeFile()
		r.text = nil
	}
}

// fillChunk reads the next chunk into c. It reports false after the last one. A chunk may be
// empty while text is skipped.
func (r *lineReader) fillChunk(c *chunk) (bool, error) {
	for {
		if r.text == nil {
			if r.next.file == len(r.files) {
				return false, nil
			}
			if err := r.openNext(); err != nil {
				return false, err
			}
		}
		if r.skip > 0 {
			if err := r.skipSome(); err != nil {
				return false, err
			}
			if r.skip > 0 { // show the progress
				c.at, c.text, c.columns, c.fileBytes = r.next, nil, r.cols, r.text.fileBytes()
				return true, nil
			}
		}
		c.buf = grown(c.buf, int(min(chunkBytes+maxLineBytes, int64(len(r.rest))+min(r.text.textLeft(), chunkBytes+maxLineBytes))))
		n := copy(c.buf, r.rest)
		for n < chunkBytes && r.text.textLeft() > 0 {
			k, err := r.text.readText(c.buf[n:])
			if err != nil {
				return false, err
			}
			n += k
		}
		if n == 0 {
			r.closeFile()
			r.next = place{file: r.next.file + 1, line: 1}
			continue
		}
		cut, err := r.cutChunk(c.buf[:n])
		if err != nil {
			return false, err
		}
		c.at, c.text, c.columns, c.fileBytes = r.next, c.buf[:cut], r.cols, r.text.fileBytes()
		r.rest = append(r.rest[:0], c.buf[cut:n]...)
		r.next.offset += int64(cut)
		r.next.line += int64(bytes.Count(c.text, []byte{'\n'}))
		return true, nil
	}
}

// openNext opens the file at r.next and reads its beginning, with the header if files have
// one. Offsets count the text, which of a compressed file has to be unpacked up to r.next.
func (r *lineReader) openNext() error {
	name := r.files[r.next.file]
	text, err := openTextFile(r.env, name)
	if err != nil {
		return err
	}
	r.text = text
	head := grown(r.rest, int(min(maxLineBytes, text.textLeft())))
	n := 0
	for n < len(head) && text.textLeft() > 0 {
		k, err := text.readText(head[n:])
		if err != nil {
			return err
		}
		n += k
	}
	head = head[:n]
	if err := checkUnpacked(name, r.name, head); err != nil {
		return err
	}
	if format, ok := r.format.(headed); ok {
		end, lines, cols, err := format.parseHeader(name, head)
		if err != nil {
			return err
		}
		r.cols = cols
		if r.next.offset < int64(end) {
			r.next.offset, r.next.line = int64(end), 1+lines
		}
	}
	known := min(int64(n), r.next.offset)
	r.rest, r.skip = append(head[:0], head[known:]...), r.next.offset-known
	return nil
}

// skipSome skips a part of the text before r.next.
func (r *lineReader) skipSome() error {
	for most := min(r.skip, skipBytes); most > 0; {
		n, err := r.text.skipText(most)
		if err != nil {
			return err
		}
		if n == 0 {
			return fileErr(r.files[r.next.file], "its text ends %d bytes before the place where an earlier conversion stopped; "+
				"delete the .part file of the conversion", r.skip)
		}
		most -= n
		r.skip -= n
	}
	return nil
}

// cutChunk returns how many bytes of b are complete lines.
func (r *lineReader) cutChunk(b []byte) (int, error) {
	if r.text.textLeft() == 0 {
		return len(b), nil
	}
	cut := r.format.cutLines(b)
	if cut == 0 {
		return 0, &Error{File: r.files[r.next.file], Line: r.next.line,
			What: fmt.Sprintf("a line of more than %d bytes; is a quote not closed, or is this not text?", maxLineBytes)}
	}
	return cut, nil
}
