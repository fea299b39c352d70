package data

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/regular"
)

// textSet is the set of the texts of each column of categories, by hash. Each column belongs to one goroutine
// at a time. Several sets may share a spill.
type textSet struct{ columns []*wordTexts }

func newTextSet(columns int, s *spill, sets int) *textSet {
	t := &textSet{}
	for range columns {
		t.columns = append(t.columns, newWordTexts(s, sets*columns))
	}
	return t
}

// addText adds a text. Of two texts with one hash the set has the least.
func (t *textSet) addText(column int, hash uint64, text []byte) {
	t.columns[column].addText(hash, text)
}

// mergeTexts calls visit for the texts of a column of several sets, by ascending hash. It ends the column.
func mergeTexts(sets []*textSet, column int, visit func(w *word) error) error {
	var lists []*wordList
	runs := 0
	for _, t := range sets {
		if err := t.columns[column].endWords(); err != nil {
			return err
		}
		runs += len(t.columns[column].runs)
	}
	for _, t := range sets {
		lists = append(lists, t.columns[column].sources(runs)...)
		defer t.columns[column].dropWords()
	}
	return mergeWords(lists, byHash, visit)
}

// The texts of a record file are in a file beside it, in little-endian:
//
//	textsMagic, version uint32, the record file's source [16]byte, number of columns uint32
//	of each column: its texts by ascending hash: hash uint64, a zero, the number of bytes as a varint, the bytes
//	of each column: the position of its end, uint64
//	XXH3 of all bytes before it
const (
	textsMagic   = "ECRECTXT"
	textsVersion = 2
	textsEnding  = ".texts"
	textsHead    = len(textsMagic) + 4 + 16 + 4
)

// writeTextSets writes the texts of sets as those of a record file of a source.
func writeTextSets(to io.Writer, sets []*textSet, source [16]byte) error {
	le, sum := binary.LittleEndian, xxh3.New()
	w := bufio.NewWriterSize(io.MultiWriter(to, sum), spillBytes)
	columns := len(sets[0].columns)
	b := append(le.AppendUint32([]byte(textsMagic), textsVersion), source[:]...)
	b = le.AppendUint32(b, uint32(columns))
	if _, err := w.Write(b); err != nil {
		return err
	}
	var ends []byte
	at := uint64(len(b))
	for i := range columns {
		err := mergeTexts(sets, i, func(text *word) error {
			b = text.appendTo(b[:0])
			at += uint64(len(b))
			_, err := w.Write(b)
			return err
		})
		if err != nil {
			return err
		}
		ends = le.AppendUint64(ends, at)
	}
	if _, err := w.Write(ends); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := to.Write(le.AppendUint64(nil, sum.Sum64()))
	return err
}

// textFile is the texts of a record file.
type textFile struct {
	env     env.Env
	file    *os.File
	columns []run
	bad     error // of a file that is damaged
}

func (t *textFile) closeFile() { t.file.Close() }

// list returns the list of the texts of a column, of several that are read at once.
func (t *textFile) list(column, several int) *wordList {
	return t.columns[column].list(t.env, t.file, several, t.bad)
}

// openTexts opens the texts of a record file, and checks them.
func openTexts(e env.Env, record string, source [16]byte, columns uint32) (*textFile, error) {
	name := record + textsEnding
	t := &textFile{env: e, bad: fileErr(name, "is damaged, or not of %s; delete both to convert the sources again", record)}
	ok := false
	err := e.Do("read "+name, func() (err error) {
		if t.file, err = regular.Open(name); err == nil {
			ok, err = t.readIndex(source, columns)
		}
		return err
	})
	if err != nil {
		err = fileErr(name, "the texts of the categories of %s cannot be read (%v); delete both to convert the sources again", record, err)
	} else if !ok {
		err = t.bad
	}
	if err != nil {
		if t.file != nil {
			t.closeFile()
		}
		return nil, err
	}
	return t, nil
}

// readIndex finds the texts of each column. It reports whether the file is whole, and of the source.
func (t *textFile) readIndex(source [16]byte, columns uint32) (ok bool, err error) {
	le := binary.LittleEndian
	st, err := t.file.Stat()
	if err != nil {
		return false, err
	}
	body := st.Size() - 8 // without the checksum
	indexAt := body - 8*int64(columns)
	if indexAt < int64(textsHead) {
		return false, nil
	}
	sum := xxh3.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, io.NewSectionReader(t.file, 0, body), make([]byte, spillBytes)); err != nil {
		return false, err
	}
	head, index := make([]byte, textsHead), make([]byte, body-indexAt+8)
	if _, err := t.file.ReadAt(head, 0); err != nil {
		return false, err
	}
	if _, err := t.file.ReadAt(index, indexAt); err != nil {
		return false, err
	}
	want := append(le.AppendUint32([]byte(textsMagic), textsVersion), source[:]...)
	if string(head) != string(le.AppendUint32(want, columns)) || le.Uint64(index[len(index)-8:]) != sum.Sum64() {
		return false, nil
	}
	at := int64(textsHead)
	for i := range int(columns) {
		end := int64(le.Uint64(index[8*i:]))
		if end < at || end > indexAt {
			return false, nil
		}
		t.columns = append(t.columns, run{at, end - at})
		at = end
	}
	return at == indexAt, nil
}

// lacksText is the error of a category in a record file whose text is not in the file beside it.
func lacksText(record string, column int) error {
	return fileErr(record+textsEnding, "lacks a text of category %d of %s; delete both to convert the sources again", column, fmt.Sprintf("%q", record))
}
