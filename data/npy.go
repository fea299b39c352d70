package data

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// npyMagic is the beginning of an array in NumPy's format.
const npyMagic = "\x93NUMPY"

// npyArray is an array of NumPy in a file: rows of numbers, from the first to the last.
type npyArray struct {
	in      *readerAt
	file    string
	name    string // as errors name it: array "3"; "": the file is the array
	at      int64  // of its first number
	rows    int64
	columns int
	kind    npyKind
}

// npyKind is a type of numbers.
type npyKind uint8

const (
	npyInt32 npyKind = iota
	npyInt64
	npyFloat32
)

// npyKinds are the kinds by their names in headers. All are little-endian.
var npyKinds = map[string]npyKind{"<i4": npyInt32, "<i8": npyInt64, "<f4": npyFloat32}

// bytes is the size of a number.
func (k npyKind) bytes() int {
	if k == npyInt64 {
		return 8
	}
	return 4
}

// integer is a number of an array of integers.
func (k npyKind) integer(b []byte) int64 {
	if k == npyInt64 {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return int64(int32(binary.LittleEndian.Uint32(b)))
}

// number is a number as float64.
func (k npyKind) number(b []byte) float64 {
	if k == npyFloat32 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return float64(k.integer(b))
}

// rowBytes is the size of a row.
func (a *npyArray) rowBytes() int { return a.columns * a.kind.bytes() }

// readRows reads rows from a first one on into b. The caller is in a call of the Env.
func (a *npyArray) readRows(b []byte, first int64) error {
	n, err := a.in.file.ReadAt(b, a.at+first*int64(a.rowBytes()))
	switch {
	case n == len(b):
		return nil
	case err == io.EOF:
		return fileErr(a.file, "it became shorter while in use")
	}
	return fmt.Errorf("read %s: %w", a.file, err)
}

// fail is an error of the array.
func (a *npyArray) fail(format string, args ...any) *Error {
	what := fmt.Sprintf(format, args...)
	if a.name != "" {
		what = a.name + ": " + what
	}
	return &Error{File: a.file, What: what}
}

// failAt is an error of a sample, counted from 0.
func (a *npyArray) failAt(sample int64, what string) *Error {
	e := a.fail("%s", what)
	e.Line = sample + 1
	return e
}

// damaged is an error of a header.
func (a *npyArray) damaged(what string) *Error {
	return a.fail("the array is cut short or damaged (%s); copy the file again, and compare its checksum", what)
}

// maxNpyHeader bounds the text of a header. NumPy reads no longer ones from files that are not trusted.
const maxNpyHeader = 10_000

// readNpy reads the header of the array that is the size bytes of a file from at on. Its numbers must end there.
func (a *npyArray) readNpy(at, size int64, what string, kinds ...npyKind) error {
	head := make([]byte, 12)
	if size < int64(len(head)) {
		return a.damaged("it has no header")
	}
	if _, err := a.in.ReadAt(head, at); err != nil {
		return fmt.Errorf("read %s: %w", a.file, err)
	}
	if string(head[:len(npyMagic)]) != npyMagic {
		return a.fail("it is no array in NumPy's format; write it with numpy.save, or numpy.savez")
	}
	version, begin, text := head[6], int64(12), int64(binary.LittleEndian.Uint32(head[8:]))
	switch version {
	case 1:
		begin, text = 10, int64(binary.LittleEndian.Uint16(head[8:]))
	case 2, 3:
	default:
		return a.fail("it has version %d of NumPy's format, and versions 1 to 3 are read", version)
	}
	if text > maxNpyHeader || text > size-begin {
		return a.damaged(fmt.Sprintf("a header of %d bytes", text))
	}
	header := make([]byte, text)
	if _, err := a.in.ReadAt(header, at+begin); err != nil {
		return fmt.Errorf("read %s: %w", a.file, err)
	}
	h, ok := parseNpyHeader(string(header))
	if !ok {
		return a.damaged("its header is not read")
	}
	a.at = at + begin + text
	return a.setHeader(h, size-begin-text, what, kinds)
}

// setHeader takes the shape and the type of an array of some bytes.
func (a *npyArray) setHeader(h npyHeader, bytes int64, what string, kinds []npyKind) error {
	kind, ok := npyKinds[h.descr]
	for i, k := range kinds {
		if ok && k == kind {
			break
		}
		if i == len(kinds)-1 {
			return a.fail("its type is %q, and %s", h.descr, what)
		}
	}
	a.kind, a.columns = kind, 1
	if len(h.shape) == 2 && h.shape[1] <= maxBag {
		a.columns = int(h.shape[1])
	} else if len(h.shape) != 1 {
		return a.fail("its shape is %v, and a row for each sample is needed, of at most %d numbers", h.shape, maxBag)
	}
	if a.columns == 0 || h.shape[0] == 0 {
		return a.fail("its shape is %v: it has no numbers", h.shape)
	}
	if h.fortran && a.columns > 1 {
		return a.fail("its columns are stored one after the other (Fortran order); write numpy.ascontiguousarray of it")
	}
	a.rows = h.shape[0]
	if row := int64(a.rowBytes()); bytes%row != 0 || bytes/row != a.rows {
		return a.damaged(fmt.Sprintf("%d bytes for the shape %v", bytes, h.shape))
	}
	return nil
}

// npyHeader is the text of a header.
type npyHeader struct {
	descr   string // the type
	fortran bool   // columns are stored one after the other
	shape   []int64
}

// parseNpyHeader reads the text of a header, the literal of a dictionary of Python. ok is false if it has another form, or
// its type is no text, as that of arrays of records is.
func parseNpyHeader(text string) (h npyHeader, ok bool) {
	p := literal{text}
	if !p.take("{") {
		return h, false
	}
	seen := map[string]bool{}
	for !p.take("}") {
		key, isText := p.quoted()
		if !isText || seen[key] || !p.take(":") {
			return h, false
		}
		seen[key] = true
		switch key {
		case "descr":
			h.descr, ok = p.quoted()
		case "fortran_order":
			h.fortran = p.take("True")
			ok = h.fortran || p.take("False")
		case "shape":
			h.shape, ok = p.numbers()
		default:
			ok = false
		}
		if !ok || !p.take(",") && !strings.HasPrefix(p.text, "}") {
			return h, false
		}
	}
	return h, len(seen) == 3 && strings.TrimSpace(p.text) == ""
}

// literal is the rest of a literal of Python.
type literal struct{ text string }

// take takes a token and the space around it. It reports whether the token is there.
func (p *literal) take(token string) (ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeft(p.text, " \n"), token)
	if ok {
		p.text = strings.TrimLeft(rest, " \n")
	}
	return ok
}

// quoted takes a text in quotes, without escapes.
func (p *literal) quoted() (text string, ok bool) {
	for _, quote := range []string{"'", `"`} {
		if p.take(quote) {
			if text, p.text, ok = strings.Cut(p.text, quote); ok {
				p.take("")
			}
			return text, ok && !strings.Contains(text, `\`)
		}
	}
	return "", false
}

// maxNpyDims is the limit on the dimensions of an array, that of NumPy.
const maxNpyDims = 64

// numbers takes a tuple of integers that are not negative.
func (p *literal) numbers() (all []int64, ok bool) {
	if !p.take("(") {
		return nil, false
	}
	for !p.take(")") {
		digits := len(p.text) - len(strings.TrimLeft(p.text, "0123456789"))
		n, err := strconv.ParseInt(p.text[:digits], 10, 64)
		if err != nil || len(all) == maxNpyDims {
			return nil, false
		}
		all, p.text = append(all, n), p.text[digits:]
		p.take("L") // of Python 2
		if !p.take(",") && !strings.HasPrefix(p.text, ")") {
			return nil, false
		}
	}
	return all, true
}
