package data

import (
	"bufio"
	"cmp"
	"os"
	"slices"
	"sync/atomic"

	"github.com/ecrec/ecrec/internal/env"
)

// wordMemory is about how much memory the texts and the counts of all columns take in a conversion, in a Fit or in
// DescribeColumns. The rest of them is on disk.
const wordMemory = 128 << 20

// spill is a file without a name, which holds lists of words that memory has no room for. The first of them makes
// it. Several goroutines may use it. It is gone with the process.
type spill struct {
	env   env.Env
	dir   string
	limit int64        // of used
	used  atomic.Int64 // bytes of the words in memory
	end   atomic.Int64

	mon  env.Monitor
	file *os.File // guarded by mon until openFile returned
}

// newSpill returns a spill for words of up to limit bytes of memory, with a file in a folder.
func newSpill(e env.Env, dir string, limit int64) *spill {
	return &spill{env: e, dir: dir, limit: limit, mon: e.Monitor("spill")}
}

// openFile makes the file if there is none.
func (s *spill) openFile() error {
	s.mon.Lock()
	defer s.mon.Unlock()
	if s.file != nil {
		return nil
	}
	err := s.env.Do("create a temporary file in "+s.dir, func() (err error) {
		if s.file, err = os.CreateTemp(s.dir, ".words-*"); err == nil {
			err = os.Remove(s.file.Name())
		}
		return err
	})
	if err != nil {
		return &Error{File: s.dir, What: "cannot create a temporary file for the texts of categories", Err: err}
	}
	return nil
}

func (s *spill) closeFile() {
	if s.file != nil {
		s.file.Close()
	}
}

// isFull reports whether words of some memory, one of several lists, belong on disk. Lists that are small
// stay in memory.
func (s *spill) isFull(bytes int64, lists int) bool {
	return s.used.Load() > s.limit && bytes > s.limit/int64(2*lists)
}

// put writes words, which are sorted.
func (s *spill) put(words []word) (run, error) {
	if err := s.openFile(); err != nil {
		return run{}, err
	}
	size := int64(0)
	var one []byte
	for i := range words {
		one = words[i].appendTo(one[:0])
		size += int64(len(one))
	}
	r := run{at: s.end.Add(size) - size, size: size}
	w := bufio.NewWriterSize(&fileAt{s.env, s.file, r.at}, int(min(size, spillBytes)))
	for i := range words {
		one = words[i].appendTo(one[:0])
		if _, err := w.Write(one); err != nil {
			return r, err
		}
	}
	return r, w.Flush()
}

// spillBytes is how much is written at a time, and how much of all runs that are merged is read at a time.
const spillBytes = 1 << 20

// run is the place of a list of words in a file.
type run struct{ at, size int64 }

// fileAt writes to a file from a place on, or reads.
type fileAt struct {
	env  env.Env
	file *os.File
	at   int64
}

func (f *fileAt) Write(b []byte) (n int, err error) {
	err = f.env.Do("write words", func() error {
		n, err = f.file.WriteAt(b, f.at)
		return err
	})
	f.at += int64(n)
	return n, err
}

func (f *fileAt) Read(b []byte) (n int, err error) {
	err = f.env.Do("read words", func() error {
		n, err = f.file.ReadAt(b, f.at)
		return err
	})
	f.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// sortedWords collects words and sorts them with bounded memory. One goroutine at a time uses it; several may share a
// spill.
type sortedWords struct {
	spill *spill
	order wordOrder
	lists int // that share the memory
	words []word
	bytes int64 // in memory
	runs  []run
	err   error // the first one
}

// addWord adds a word.
func (s *sortedWords) addWord(w *word) error {
	s.words = append(s.words, *w)
	if s.grow(w.memoryBytes()) {
		s.flush()
	}
	return s.err
}

// grow counts the memory of more words. It reports whether they belong on disk.
func (s *sortedWords) grow(bytes int64) (full bool) {
	s.bytes += bytes
	s.spill.used.Add(bytes)
	return s.spill.isFull(s.bytes, s.lists)
}

// flush moves the words in memory to the spill.
func (s *sortedWords) flush() {
	slices.SortFunc(s.words, s.order)
	r, err := s.spill.put(s.words)
	s.runs, s.err = append(s.runs, r), cmp.Or(s.err, err)
	words := s.words[:0]
	s.dropWords()
	s.words = words
}

// dropWords forgets the words in memory.
func (s *sortedWords) dropWords() {
	s.spill.used.Add(-s.bytes)
	s.words, s.bytes = nil, 0
}

// sources returns the words as sorted lists, of several runs that are read at once.
func (s *sortedWords) sources(several int) []*wordList {
	slices.SortFunc(s.words, s.order)
	lists := []*wordList{{words: s.words}}
	for _, r := range s.runs {
		lists = append(lists, r.list(s.spill.env, s.spill.file, several, nil))
	}
	return lists
}

// eachWord calls visit for the words in their order. Equal words become one.
func (s *sortedWords) eachWord(visit func(w *word) error) error {
	if s.err != nil {
		return s.err
	}
	return mergeWords(s.sources(len(s.runs)), s.order, visit)
}

// wordSet is sortedWords by hash, of which each is there once while it is in memory. It keeps a value of each.
type wordSet[V uint64 | string] struct {
	sortedWords
	values map[uint64]V
	word   func(hash uint64, v V) word
}

// setValue sets the value of a hash, which takes some more memory.
func (s *wordSet[V]) setValue(hash uint64, v V, bytes int64) {
	s.values[hash] = v
	if bytes > 0 && s.grow(bytes) {
		s.flushValues()
	}
}

func (s *wordSet[V]) flushValues() {
	s.listValues()
	s.flush()
	s.words = nil // values have the memory
}

// listValues makes words of the values.
func (s *wordSet[V]) listValues() {
	s.words = slices.Grow(s.words, len(s.values))
	for h, v := range s.values {
		s.words = append(s.words, s.word(h, v))
	}
	clear(s.values)
}

// endWords ends the additions: the words are in memory, or all on disk.
func (s *wordSet[V]) endWords() error {
	if len(s.runs) > 0 {
		s.flushValues()
	} else {
		s.listValues()
	}
	s.values = nil
	return s.err
}

// wordCounts counts hashes.
type wordCounts struct{ wordSet[uint64] }

// countBytes is about how much memory a count takes.
const countBytes = 40

func newWordCounts(s *spill, lists int) *wordCounts {
	return &wordCounts{wordSet[uint64]{sortedWords{spill: s, order: byHash, lists: lists}, map[uint64]uint64{},
		func(hash, n uint64) word { return word{hash: hash, count: n} }}}
}

func (c *wordCounts) countHash(hash uint64) {
	n, ok := c.values[hash]
	bytes := int64(countBytes)
	if ok {
		bytes = 0
	}
	c.setValue(hash, n+1, bytes)
}

// wordTexts has the text of each hash: of two, the least.
type wordTexts struct{ wordSet[string] }

func newWordTexts(s *spill, lists int) *wordTexts {
	return &wordTexts{wordSet[string]{sortedWords{spill: s, order: byHash, lists: lists}, map[uint64]string{},
		func(hash uint64, text string) word { return word{hash: hash, text: text} }}}
}

func (t *wordTexts) addText(hash uint64, text []byte) {
	if old, ok := t.values[hash]; ok && old <= string(text) {
		return
	}
	w := word{hash: hash, text: string(text)}
	t.setValue(hash, w.text, w.memoryBytes())
}
