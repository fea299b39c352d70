package data

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// zipMember is a file in a zip file.
type zipMember struct {
	name   string
	header int64 // the place of its own header
	size   int64
	stored bool // it is not compressed
	secret bool // it is encrypted
}

// The records of zip files, whose first four bytes are a signature.
const (
	zipLocal   = "PK\x03\x04"
	zipEntry   = "PK\x01\x02"
	zipEnd     = "PK\x05\x06"
	zipEnd64   = "PK\x06\x06"
	zipLocator = "PK\x06\x07"

	zipLocalBytes   = 30
	zipEntryBytes   = 46
	zipEndBytes     = 22
	zipEnd64Bytes   = 56
	zipLocatorBytes = 20

	maxZipComment = 1<<16 - 1
	zipSaturated  = 1<<32 - 1 // the number is in a zip64 field
)

// errZip is the error of a file whose directory is not there, or does not fit it.
var errZip = fmt.Errorf("its directory of arrays is missing or damaged")

// readZip lists the members of a zip file of some bytes. The archive/zip of Go takes memory for as many members as the
// file names; here, memory grows with the members that are read, up to most.
func readZip(in io.ReaderAt, size int64, most int) (all []zipMember, err error) {
	begin, end, err := findDirectory(in, size)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(io.NewSectionReader(in, begin, end-begin))
	head := make([]byte, zipEntryBytes)
	for at := begin; at < end; {
		if _, err := io.ReadFull(r, head); err != nil || string(head[:4]) != zipEntry {
			return nil, orZip(err)
		}
		le := binary.LittleEndian
		name, extra := int64(le.Uint16(head[28:])), int64(le.Uint16(head[30:]))
		rest := make([]byte, name+extra+int64(le.Uint16(head[32:])))
		if _, err := io.ReadFull(r, rest); err != nil {
			return nil, orZip(err)
		}
		m := zipMember{name: string(rest[:name]), stored: le.Uint16(head[10:]) == 0, secret: head[8]&1 != 0, header: int64(le.Uint32(head[42:]))}
		packed := int64(le.Uint32(head[20:]))
		m.size = int64(le.Uint32(head[24:]))
		// The zip64 field has the numbers that are saturated, in this order.
		wide := zip64Field(rest[name : name+extra])
		for _, x := range []*int64{&m.size, &packed, &m.header} {
			if *x == zipSaturated {
				if len(wide) < 8 {
					return nil, errZip
				}
				*x, wide = int64(le.Uint64(wide)), wide[8:]
			}
		}
		if m.size < 0 || m.header < 0 || m.header > size || m.stored && (m.size != packed || m.size > size-m.header) || len(all) == most {
			return nil, errZip
		}
		all = append(all, m)
		at += zipEntryBytes + int64(len(rest))
	}
	return all, nil
}

// orZip is errZip in place of an end of the file.
func orZip(err error) error {
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
		return errZip
	}
	return err
}

// zip64Field returns the content of the zip64 field among the extra fields of a member, nil if there is none.
func zip64Field(extra []byte) []byte {
	le := binary.LittleEndian
	for len(extra) >= 4 {
		id, n := le.Uint16(extra), int(le.Uint16(extra[2:]))
		if n > len(extra)-4 {
			return nil
		}
		if id == 1 {
			return extra[4:][:n]
		}
		extra = extra[4+n:]
	}
	return nil
}

// findDirectory returns where the directory of a zip file begins and ends.
func findDirectory(in io.ReaderAt, size int64) (begin, end int64, err error) {
	le := binary.LittleEndian
	tail := make([]byte, min(size, zipEndBytes+maxZipComment))
	if _, err := in.ReadAt(tail, size-int64(len(tail))); err != nil {
		return 0, 0, orZip(err)
	}
	i := bytes.LastIndex(tail, []byte(zipEnd))
	for ; i >= 0; i = bytes.LastIndex(tail[:i], []byte(zipEnd)) {
		if i+zipEndBytes <= len(tail) && i+zipEndBytes+int(le.Uint16(tail[i+20:])) == len(tail) {
			break
		}
	}
	if i < 0 {
		return 0, 0, errZip
	}
	last := size - int64(len(tail)) + int64(i)
	bytes, begin := uint64(le.Uint32(tail[i+12:])), int64(le.Uint32(tail[i+16:]))
	if last >= zipLocatorBytes {
		b := make([]byte, zipLocatorBytes)
		if _, err := in.ReadAt(b, last-zipLocatorBytes); err != nil {
			return 0, 0, orZip(err)
		}
		if string(b[:4]) == zipLocator {
			at := int64(le.Uint64(b[8:]))
			b = make([]byte, zipEnd64Bytes)
			if at < 0 || at > last-zipEnd64Bytes {
				return 0, 0, errZip
			}
			if _, err := in.ReadAt(b, at); err != nil || string(b[:4]) != zipEnd64 {
				return 0, 0, orZip(err)
			}
			bytes, begin, last = le.Uint64(b[40:]), int64(le.Uint64(b[48:])), at
		}
	}
	if begin < 0 || begin > last || bytes > uint64(last-begin) {
		return 0, 0, errZip
	}
	return begin, begin + int64(bytes), nil
}

// contentOf returns where the content of a member begins.
func (m *zipMember) contentOf(in io.ReaderAt, size int64) (int64, error) {
	head := make([]byte, zipLocalBytes)
	if m.header > size-zipLocalBytes {
		return 0, errZip
	}
	if _, err := in.ReadAt(head, m.header); err != nil || string(head[:4]) != zipLocal {
		return 0, orZip(err)
	}
	le := binary.LittleEndian
	at := m.header + zipLocalBytes + int64(le.Uint16(head[26:])) + int64(le.Uint16(head[28:]))
	if at > size-m.size {
		return 0, errZip
	}
	return at, nil
}

// openMember reads the header of the array that is a member of a zip file of some bytes.
func (a *npyArray) openMember(m *zipMember, size int64, what string, kinds ...npyKind) error {
	switch {
	case m.secret:
		return a.fail("it is encrypted; write the file without a password")
	case !m.stored:
		return a.fail("it is compressed, and samples are read by position; write the file with numpy.savez, not numpy.savez_compressed")
	}
	at, err := m.contentOf(a.in, size)
	if err == errZip {
		return a.damaged(err.Error())
	} else if err != nil {
		return fmt.Errorf("read %s: %w", a.file, err)
	}
	return a.readNpy(at, m.size, what, kinds...)
}

// arrayName is the name of the array of a member.
func (m *zipMember) arrayName() string { return strings.TrimSuffix(m.name, ".npy") }
