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
const wordMemory = 64 << 20

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

// hasRoom reports whether one of several lists, which takes some memory, may take more. Lists that are small may always.
func (s *spill) hasRoom(taken, more int64, lists int) bool {
	return s.used.Load()+more <= s.limit || taken+more <= s.limit/int64(2*lists)
}

// put writes words.
func (s *spill) put(words wordRange) (run, error) {
	if err := s.openFile(); err != nil {
		return run{}, err
	}
	size := int64(0)
	var one []byte
	for i := words.first; i < words.n; i++ {
		w := words.wordAt(i)
		size += w.fileBytes()
	}
	r := run{at: s.end.Add(size) - size, size: size}
	to := bufio.NewWriterSize(&fileAt{s.env, s.file, r.at}, int(min(size, spillBytes)))
	for i := words.first; i < words.n; i++ {
		w := words.wordAt(i)
		one = w.appendTo(one[:0])
		if _, err := to.Write(one); err != nil {
			return r, err
		}
	}
	return r, to.Flush()
}

// joinRuns merges runs into a new one.
func (s *spill) joinRuns(runs []run, order wordOrder) (run, error) {
	var lists []*wordList
	size := int64(0)
	for _, r := range runs {
		lists = append(lists, r.list(s.env, s.file, len(runs), nil))
		size += r.size
	}
	joined := run{at: s.end.Add(size) - size} // equal words become one, so it may be smaller
	to := bufio.NewWriterSize(&fileAt{s.env, s.file, joined.at}, int(min(size, spillBytes)))
	var one []byte
	err := mergeWords(lists, order, func(w *word) error {
		one = w.appendTo(one[:0])
		joined.size += int64(len(one))
		_, err := to.Write(one)
		return err
	})
	return joined, cmp.Or(err, to.Flush())
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

// wordRuns are the words of a list that have no room in memory. One goroutine at a time uses it; several may share a spill.
type wordRuns struct {
	spill *spill
	order wordOrder
	lists int   // that share the memory
	bytes int64 // of the words in memory
	runs  []run
	puts  int   // the runs that were written, also those that are joined since
	err   error // the first one
}

// joinedRuns is the number of runs that become one. Each run that is read takes a buffer.
const joinedRuns = 64

// takeMemory counts some more memory of the list. It reports false, and counts none, if words belong on disk before that.
func (r *wordRuns) takeMemory(more int64) bool {
	if !r.spill.hasRoom(r.bytes, more, r.lists) {
		return false
	}
	r.addMemory(more)
	return true
}

func (r *wordRuns) addMemory(more int64) {
	r.bytes += more
	r.spill.used.Add(more)
}

// dropMemory counts no memory any more.
func (r *wordRuns) dropMemory() { r.addMemory(-r.bytes) }

// put moves words to the spill. The last runs become one as soon as joinedRuns of them have the same size. So the number of runs,
// and how often a word is written, grow with the logarithm of the words only.
func (r *wordRuns) put(words wordRange) {
	added, err := r.spill.put(words)
	r.runs, r.err = append(r.runs, added), cmp.Or(r.err, err)
	r.puts++
	for n := r.puts; n%joinedRuns == 0 && r.err == nil; n /= joinedRuns {
		first := len(r.runs) - joinedRuns
		added, r.err = r.spill.joinRuns(r.runs[first:], r.order)
		r.runs = append(r.runs[:first], added)
	}
}

// sortedLists returns the words: those in memory, and the runs, of which several are read at once.
func (r *wordRuns) sortedLists(memory wordRange, several int) []*wordList {
	lists := []*wordList{{memory: memory}}
	for _, run := range r.runs {
		lists = append(lists, run.list(r.spill.env, r.spill.file, several, nil))
	}
	return lists
}

// sortedWords collects words and sorts them with bounded memory.
type sortedWords struct {
	wordRuns
	words []word
}

func newSortedWords(s *spill, order wordOrder, lists int) *sortedWords {
	return &sortedWords{wordRuns: wordRuns{spill: s, lists: lists, order: order}}
}

// addWord adds a word.
func (s *sortedWords) addWord(w *word) error {
	if more := w.memoryBytes(); !s.takeMemory(more) {
		if len(s.words) > 0 {
			s.put(s.sorted())
			clear(s.words) // their texts are garbage
			s.words = s.words[:0]
			s.dropMemory()
		}
		s.addMemory(more)
	}
	s.words = append(s.words, *w)
	return s.err
}

// sorted returns the words in memory in their order.
func (s *sortedWords) sorted() wordRange {
	slices.SortFunc(s.words, s.order)
	return wordRange{n: len(s.words), wordAt: func(i int) word { return s.words[i] }}
}

// eachWord calls visit for the words in their order. Equal words become one.
func (s *sortedWords) eachWord(visit func(w *word) error) error {
	if s.err != nil {
		return s.err
	}
	return mergeWords(s.sortedLists(s.sorted(), len(s.runs)), s.order, visit)
}

// dropWords forgets the words in memory.
func (s *sortedWords) dropWords() {
	s.dropMemory()
	s.words = nil
}
