package data

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/regular"
)

// maxWords is the largest number of distinct texts of a column that gets a vocabulary.
const maxWords = 1 << 20

// textSet is the set of the texts of each column of categories, by hash. A column with more than
// maxWords texts has none: nil.
type textSet struct{ columns []map[uint64]string }

func newTextSet(columns int) *textSet {
	t := &textSet{columns: make([]map[uint64]string, columns)}
	for i := range t.columns {
		t.columns[i] = map[uint64]string{}
	}
	return t
}

func (t *textSet) addText(column int, hash uint64, text []byte) {
	m := t.columns[column]
	if m == nil {
		return
	}
	if _, ok := m[hash]; ok {
		return
	}
	if len(m) == maxWords {
		t.columns[column] = nil
		return
	}
	m[hash] = string(text)
}

// merge adds the texts of another set.
func (t *textSet) merge(other *textSet) {
	for i, m := range other.columns {
		t.mergeColumn(i, m)
	}
}

// mergeColumn adds the texts of a column of another set.
func (t *textSet) mergeColumn(i int, m map[uint64]string) {
	if m == nil {
		t.columns[i] = nil
	}
	for h, text := range m {
		t.addText(i, h, []byte(text))
	}
}

// The texts of a record file are in a file beside it, in little-endian:
//
//	textsMagic, version uint32, the record file's source [16]byte, number of columns uint32
//	of each column: 0 or 1 uint32 (no texts, or all); number uint64; the texts by ascending hash:
//	    hash uint64, bytes uint32, the bytes
//	XXH3 of all bytes before it
const (
	textsMagic   = "ECRECTXT"
	textsVersion = 1
	textsEnding  = ".texts"
)

func (t *textSet) encode(source [16]byte) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte(textsMagic), textsVersion)
	b = append(b, source[:]...)
	b = le.AppendUint32(b, uint32(len(t.columns)))
	for _, m := range t.columns {
		has := uint32(0)
		if m != nil {
			has = 1
		}
		b = le.AppendUint64(le.AppendUint32(b, has), uint64(len(m)))
		for _, h := range slices.Sorted(maps.Keys(m)) {
			b = append(le.AppendUint32(le.AppendUint64(b, h), uint32(len(m[h]))), m[h]...)
		}
	}
	return le.AppendUint64(b, xxh3.Hash(b))
}

// readTexts reads the texts of a record file.
func readTexts(e env.Env, record string, source [16]byte, columns uint32) (*textSet, error) {
	name := record + textsEnding
	var b []byte
	err := e.Do("read "+name, func() error {
		f, err := regular.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		b, err = io.ReadAll(f)
		return err
	})
	if err != nil {
		return nil, fileErr(name, "the texts of the categories of %s cannot be read (%v); delete both to convert the sources again", record, err)
	}
	t, ok := decodeTexts(b, source, columns)
	if !ok {
		return nil, fileErr(name, "is damaged, or not of %s; delete both to convert the sources again", record)
	}
	return t, nil
}

func decodeTexts(b []byte, source [16]byte, tables uint32) (t *textSet, ok bool) {
	le := binary.LittleEndian
	const head = len(textsMagic) + 4 + 16 + 4
	if len(b) < head+8 || string(b[:len(textsMagic)]) != textsMagic || le.Uint64(b[len(b)-8:]) != xxh3.Hash(b[:len(b)-8]) {
		return nil, false
	}
	columns := le.Uint32(b[head-4:])
	if le.Uint32(b[8:]) != textsVersion || [16]byte(b[12:]) != source || columns != tables {
		return nil, false
	}
	b = b[head : len(b)-8]
	t = new(textSet)
	for range columns {
		if len(b) < 12 {
			return nil, false
		}
		has, n := le.Uint32(b), le.Uint64(b[4:])
		b = b[12:]
		if n > maxWords {
			return nil, false
		}
		var m map[uint64]string
		if has == 1 {
			m = make(map[uint64]string, n)
		}
		for range n {
			if len(b) < 12 || uint64(len(b)) < 12+uint64(le.Uint32(b[8:])) || m == nil {
				return nil, false
			}
			size := 12 + int(le.Uint32(b[8:]))
			m[le.Uint64(b)] = string(b[12:size])
			b = b[size:]
		}
		t.columns = append(t.columns, m)
	}
	return t, true
}

// word is a text of a column, with the number of samples that have it.
type word struct {
	hash  uint64
	count uint64
	text  string
}

// rankWords orders words by count descending, then text ascending by bytes.
func rankWords(words []word) {
	slices.SortFunc(words, func(a, b word) int {
		if c := cmp.Compare(b.count, a.count); c != 0 {
			return c
		}
		return cmp.Compare(a.text, b.text)
	})
}

// lacksText is the error of a category in a record file whose text is not in the file beside it.
func lacksText(record string, column int) error {
	return fileErr(record+textsEnding, "lacks a text of category %d of %s; delete both to convert the sources again", column, fmt.Sprintf("%q", record))
}
