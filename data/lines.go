package data

import (
	"bytes"
	"fmt"
	"io"
	"os"

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

// chunk is whole lines of one file, in memory that is used again.
type chunk struct {
	at      place
	text    []byte
	columns *columns // csv: what the file's header says
	buf     []byte

	// Filled by the parser.
	records []byte
	bad     []*Error // malformed lines, in order
	end     bool     // no chunk follows
	err     error    // reading failed here
}

// lineReader cuts the source files into chunks.
type lineReader struct {
	env   env.Env
	files []string
	csv   *csvFormat // nil for criteo-tsv
	next  place
	file  *os.File
	cols  *columns
	rest  []byte // read beyond the last chunk
	left  int64  // bytes of the file not read
}

func (r *lineReader) close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// fill reads the next chunk into c. It reports false after the last one.
func (r *lineReader) fill(c *chunk) (bool, error) {
	for {
		if r.file == nil {
			if r.next.file == len(r.files) {
				return false, nil
			}
			if err := r.open(); err != nil {
				return false, err
			}
		}
		c.buf = grown(c.buf, int(min(chunkBytes+maxLineBytes, int64(len(r.rest))+r.left)))
		n := copy(c.buf, r.rest)
		for n < chunkBytes && r.left > 0 {
			k, err := r.read(c.buf[n:])
			if err != nil {
				return false, err
			}
			n += k
		}
		if n == 0 {
			r.close()
			r.next = place{file: r.next.file + 1, line: 1}
			continue
		}
		cut, err := r.cut(c.buf[:n])
		if err != nil {
			return false, err
		}
		c.at, c.text, c.columns = r.next, c.buf[:cut], r.cols
		r.rest = append(r.rest[:0], c.buf[cut:n]...)
		r.next.offset += int64(cut)
		r.next.line += int64(bytes.Count(c.text, []byte{'\n'}))
		return true, nil
	}
}

// open opens the file at r.next and, for csv, reads its header.
func (r *lineReader) open() error {
	name := r.files[r.next.file]
	f, size, err := openFile(r.env, name)
	if err != nil {
		return err
	}
	r.file, r.rest, r.left = f, r.rest[:0], size
	if r.csv == nil {
		return r.seek(size)
	}
	head := make([]byte, min(maxLineBytes, size))
	for n := 0; n < len(head); {
		k, err := r.read(head[n:])
		if err != nil {
			return err
		}
		n += k
	}
	end, lines, err := r.csv.headerEnd(name, head)
	if err != nil {
		return err
	}
	if r.cols, err = r.csv.readHeader(name, head[:end]); err != nil {
		return err
	}
	if r.next.offset < int64(end) {
		r.next.offset, r.next.line = int64(end), 1+lines
	}
	return r.seek(size)
}

// seek goes to r.next in a file of a size.
func (r *lineReader) seek(size int64) error {
	r.left = max(size-r.next.offset, 0)
	_, err := r.file.Seek(r.next.offset, io.SeekStart)
	return err
}

// read reads some of what is left of the file, as long as it was when opened.
func (r *lineReader) read(b []byte) (n int, err error) {
	b = b[:min(int64(len(b)), r.left)]
	err = r.env.Do("read "+r.file.Name(), func() error {
		n, err = r.file.Read(b)
		return err
	})
	r.left -= int64(n)
	if err == io.EOF {
		return n, fileErr(r.file.Name(), "it became shorter while it was read: %d bytes are gone", r.left)
	}
	if err != nil {
		return n, fmt.Errorf("read text: %w", err)
	}
	return n, nil
}

// cut returns how many bytes of b are whole lines.
func (r *lineReader) cut(b []byte) (int, error) {
	if r.left == 0 {
		return len(b), nil
	}
	cut := bytes.LastIndexByte(b, '\n') + 1
	if r.csv != nil && bytes.IndexByte(b, '"') >= 0 {
		cut = r.csv.wholeRecords(b)
	}
	if cut == 0 {
		return 0, &Error{File: r.file.Name(), Line: r.next.line,
			What: fmt.Sprintf("a line of more than %d bytes; is a quote not closed, or is this not text?", maxLineBytes)}
	}
	return cut, nil
}
