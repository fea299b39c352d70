package data

import (
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/parquet-go/parquet-go/format"
)

// oldDictionary is PLAIN_DICTIONARY of the first version of the format, which many writers still use: that of a dictionary
// itself means PLAIN, that of a data page RLE_DICTIONARY.
const oldDictionary format.Encoding = 2

// convertedWords is the number of values of a dictionary that are converted at a time. Their bits stay in the cache of a core.
const convertedWords = 2048

// parquetCursor walks over the values of a column in a row group.
type parquetCursor struct {
	name    string
	leaf    parquetLeaf
	use     *parquetUse
	pages   *parquetPages
	scratch *parquetScratch

	// The dictionary, and the bits of its values: narrow ones, unless the use is wide.
	words    parquetValues
	narrow   []uint32
	wide     []uint64
	hasWords bool

	// The current page.
	left     int // entries that are not read: values and nulls, and one for each row of a list without any
	defined  parquetRuns
	repeated parquetRuns
	indexed  bool
	index    parquetRuns   // of values in the dictionary
	plain    parquetValues // without a dictionary
	value    int           // the next one, unless they are a sequence
	ended    bool          // no page follows

	// Of a list, the entries that are read, and the next of them.
	entries    parquetWindow
	entry, bit int
	weights    *parquetCursor // of ids with weights; else nil
	given      bool           // the last element has a weight of its own
}

// parquetScratch is memory for the entries of a window.
type parquetScratch struct {
	levels, repeated []byte
	index, narrow    []uint32
	wide             []uint64
}

// parquetWindow is some entries of a page, in memory that is reused.
type parquetWindow struct {
	n, present int // present of them have a value
	whole      byte
	levels     []byte         // of each entry, whole if it has a value; nil: each has one
	repeated   []byte         // of a list: 0 where a row begins
	index      []uint32       // positions in the values; nil: they follow each other
	first      int            // without index: the position of the first value
	in         *parquetValues // of the page or its dictionary
}

// eachValue calls do for each entry, with the position of its value, or -1 for a null.
func (w *parquetWindow) eachValue(do func(at int)) {
	value := 0
	for i := range w.n {
		switch {
		case w.levels != nil && w.levels[i] != w.whole:
			do(-1)
			continue
		case w.index != nil:
			do(int(w.index[value]))
		default:
			do(w.first + value)
		}
		value++
	}
}

// isText reports whether values are used as texts, which a separator splits.
func (c *parquetCursor) isText() bool { return c.use.bag != nil && c.leaf.element == 0 }

// hasBits reports whether values are converted to bits.
func (c *parquetCursor) hasBits() bool { return c.use.keep == nil && !c.isText() }

// nextWindow reads at most most entries of a page.
func (c *parquetCursor) nextWindow(most int) (w parquetWindow, err error) {
	for c.left == 0 {
		if err := c.readPage(); err != nil {
			return w, err
		}
	}
	n, s := min(most, c.left), c.scratch
	c.left -= n
	w = parquetWindow{n: n, present: n, whole: byte(c.leaf.MaxDefinitionLevel()), in: &c.plain}
	if err := c.readLevels(&w); err != nil {
		return w, err
	}
	switch {
	case c.indexed:
		s.index = grown(s.index, w.present)
		w.in, w.index = &c.words, s.index
		err = c.index.takeNumbers(w.index)
		if err == nil && (!c.hasBits() || c.use.texts != nil || c.leaf.element > 0) {
			err = c.checkIndex(w.index)
		}
	case c.plain.hashed:
	case c.plain.sequence:
		err = c.plain.nextPlain(w.present)
	default:
		w.first = c.value
		if c.value += w.present; c.value > c.plain.n {
			err = fmt.Errorf("column %q has too few values", c.leaf.Name())
		}
	}
	return w, err
}

// readLevels reads the levels of a window.
func (c *parquetCursor) readLevels(w *parquetWindow) error {
	if w.whole == 0 {
		return nil
	}
	s := c.scratch
	if c.leaf.element == 0 {
		if level, ok, err := c.defined.takeEqual(w.n); err != nil || ok && byte(level) == w.whole {
			return err
		} else if ok {
			s.levels, w.present = grown(s.levels, w.n), 0
			w.levels = s.levels
			fill(w.levels, byte(level))
			return nil
		}
	} else {
		s.repeated = grown(s.repeated, w.n)
		w.repeated = s.repeated
		if err := c.repeated.takeLevels(w.repeated); err != nil {
			return err
		}
	}
	s.levels = grown(s.levels, w.n)
	if err := c.defined.takeLevels(s.levels); err != nil {
		return err
	}
	if w.present = countLevels(s.levels, w.whole); w.present < w.n || c.leaf.element > 0 {
		w.levels = s.levels
	}
	return nil
}

func (c *parquetCursor) checkIndex(index []uint32) error {
	largest := uint32(0)
	for _, i := range index {
		largest = max(largest, i)
	}
	if len(index) > 0 && int(largest) >= c.words.n {
		return fmt.Errorf("column %q refers to entry %d of a dictionary of %d", c.leaf.Name(), largest, c.words.n)
	}
	return nil
}

// readPage reads the next page.
func (c *parquetCursor) readPage() error {
	page, err := c.pages.nextPage()
	switch {
	case errors.Is(err, io.EOF):
		c.ended = true
		return fmt.Errorf("column %q has fewer rows than its row group", c.leaf.Name())
	case err != nil:
		return err
	case page.kind == format.DictionaryPage:
		if c.hasWords {
			return nil
		}
		return c.readWords(&page)
	}
	c.left, c.value = page.n, 0
	c.defined = newParquetRuns(page.defined, levelBits(c.leaf.MaxDefinitionLevel()))
	c.repeated = newParquetRuns(page.repeated, levelBits(c.leaf.MaxRepetitionLevel()))
	c.indexed = page.encoding == format.RLEDictionary || page.encoding == oldDictionary
	switch {
	case !c.indexed:
		return c.beginValues(&c.plain, page.encoding, &page)
	case !c.hasWords:
		return fmt.Errorf("column %q has no dictionary", c.leaf.Name())
	case len(page.values) == 0: // nulls alone
		c.index = parquetRuns{}
	case page.values[0] > 32:
		return fmt.Errorf("column %q has positions of %d bits", c.leaf.Name(), page.values[0])
	default:
		c.index = newParquetRuns(page.values[1:], uint(page.values[0]))
	}
	return nil
}

// beginValues makes v the values of a page without a dictionary.
func (c *parquetCursor) beginValues(v *parquetValues, e format.Encoding, page *parquetPage) error {
	err := v.beginPage(c.leaf.Column, e, page.values, page.n)
	v.hashed = v.sequence && c.hasBits() && c.use.hashesTexts(v)
	return err
}

// levelBits is the number of bits of a level.
func levelBits(largest int) uint { return uint(bits.Len(uint(largest))) }

// readWords reads a dictionary. Each of its values is converted once.
func (c *parquetCursor) readWords(page *parquetPage) (err error) {
	if page.encoding != format.Plain && page.encoding != oldDictionary {
		return notRead(fmt.Sprintf("column %q has a dictionary in the encoding %v", c.leaf.Name(), page.encoding))
	}
	v := &c.words
	if err := c.beginValues(v, format.Plain, page); err != nil {
		return err
	}
	switch {
	case v.hashed && page.n > len(page.values)/4:
		err = io.ErrUnexpectedEOF
	case v.hashed:
		v.n = page.n
	case v.sequence:
		err = v.nextPlain(page.n)
	}
	v.n = min(v.n, page.n)
	if err == nil && c.hasBits() {
		err = c.convertWords()
	}
	if err != nil {
		return err
	}
	if v.data = nil; !c.hasBits() || c.use.texts != nil || len(v.bad) > 0 {
		v.data = append([]byte(nil), page.values...)
	}
	c.hasWords = true
	return nil
}

// convertWords converts the values of the dictionary, some at a time.
func (c *parquetCursor) convertWords() error {
	v, s := &c.words, c.scratch
	if c.use.isWide() {
		c.wide = grown(c.wide, v.n)
		return c.use.convert(v, 0, c.wide, nil)
	}
	c.narrow = grown(c.narrow, v.n)
	for first := 0; first < v.n; first += convertedWords {
		s.wide = grown(s.wide, min(convertedWords, v.n-first))
		if err := c.use.convert(v, first, s.wide, nil); err != nil {
			return err
		}
		c.use.narrowBits(c.narrow[first:], s.wide)
	}
	return nil
}
