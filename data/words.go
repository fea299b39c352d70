package data

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"io"
	"os"
	"strings"
	"unsafe"

	"github.com/ecrec/ecrec/internal/env"
)

// word is a text of a column, with the number of samples that have it.
type word struct {
	hash  uint64
	count uint64
	text  string
}

// wordOrder is an order of words. Words that it does not distinguish are one word.
type wordOrder func(a, b word) int

func byHash(a, b word) int { return cmp.Compare(a.hash, b.hash) }

// byRank orders words as rows are given to them: by count descending, then text ascending by bytes.
func byRank(a, b word) int {
	if a.count != b.count {
		return cmp.Compare(b.count, a.count)
	}
	if c := strings.Compare(a.text, b.text); c != 0 {
		return c
	}
	return byHash(a, b)
}

// add joins a and a word of the same hash. The text of a is the least one that is not empty: the order of
// additions does not matter.
func (w *word) add(b *word) {
	w.count += b.count
	if w.text == "" || b.text != "" && b.text < w.text {
		w.text = b.text
	}
}

// memoryBytes is about how much memory a word takes in a map, or in a list of words.
func (w *word) memoryBytes() int64 { return wordBytes + int64(len(w.text)) }

const wordBytes = 48

// fileBytes is the size of the form of a word in files.
func (w *word) fileBytes() int64 {
	return int64(8 + uvarintBytes(w.count) + uvarintBytes(uint64(len(w.text))) + len(w.text))
}

// appendTo appends the form of a word in files.
func (w *word) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, w.hash)
	b = binary.AppendUvarint(binary.AppendUvarint(b, w.count), uint64(len(w.text)))
	return append(b, w.text...)
}

// wordList is a sorted list of words: those in memory, or a run of a file.
type wordList struct {
	word   // the current one
	memory wordRange
	in     *bufio.Reader
	left   int64 // bytes of the run
	bad    error // of a run that holds no words
}

// wordRange is a sorted list of words in memory: those with indices from first up to n.
type wordRange struct {
	first, n int
	wordAt   func(i int) word
}

// list returns a list of a run, of several that are read at once. bad is the error of a run that holds no words.
func (r run) list(e env.Env, f *os.File, several int, bad error) *wordList {
	size := max(spillBytes/several, 4096)
	return &wordList{in: bufio.NewReaderSize(&fileAt{e, f, r.at}, size), left: r.size, bad: bad}
}

// advance makes the next word the current one. It reports false after the last one.
func (l *wordList) advance() (bool, error) {
	if l.in == nil {
		m := &l.memory
		if m.first == m.n {
			return false, nil
		}
		l.word = m.wordAt(m.first)
		m.first++
		return true, nil
	}
	if l.left == 0 {
		return false, nil
	}
	head, err := l.in.Peek(8)
	if err == nil {
		l.hash = binary.LittleEndian.Uint64(head)
		_, _ = l.in.Discard(8)
		l.count, err = binary.ReadUvarint(l.in)
	}
	size := uint64(0)
	if err == nil {
		size, err = binary.ReadUvarint(l.in)
	}
	l.left -= 8 + int64(uvarintBytes(l.count)+uvarintBytes(size))
	if err != nil || l.left < 0 || size > uint64(l.left) {
		return false, cmp.Or(l.bad, err, io.ErrUnexpectedEOF)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(l.in, text); err != nil {
		return false, cmp.Or(l.bad, err)
	}
	l.text, l.left = unsafe.String(unsafe.SliceData(text), len(text)), l.left-int64(size)
	return true, nil
}

// uvarintBytes is the size of x as a varint.
func uvarintBytes(x uint64) int {
	var b [binary.MaxVarintLen64]byte
	return binary.PutUvarint(b[:], x)
}

// mergeWords calls visit for the words of lists in an order, in which each of them is. Equal words become one.
func mergeWords(lists []*wordList, order wordOrder, visit func(w *word) error) error {
	m := &merging{order: order}
	for _, l := range lists {
		more, err := l.advance()
		if err != nil {
			return err
		}
		if more {
			m.lists = append(m.lists, l)
		}
	}
	heap.Init(m)
	var w word // allocated once
	for len(m.lists) > 0 {
		w = m.lists[0].word
		if err := m.step(); err != nil {
			return err
		}
		for len(m.lists) > 0 && order(w, m.lists[0].word) == 0 {
			w.add(&m.lists[0].word)
			if err := m.step(); err != nil {
				return err
			}
		}
		if err := visit(&w); err != nil {
			return err
		}
	}
	return nil
}

// merging is a heap of lists by their current words.
type merging struct {
	lists []*wordList
	order wordOrder
}

// step goes to the next word of the first list.
func (m *merging) step() error {
	more, err := m.lists[0].advance()
	switch {
	case err != nil:
		return err
	case more:
		heap.Fix(m, 0)
	default:
		heap.Pop(m)
	}
	return nil
}

func (m *merging) Len() int           { return len(m.lists) }
func (m *merging) Less(i, k int) bool { return m.order(m.lists[i].word, m.lists[k].word) < 0 }
func (m *merging) Swap(i, k int)      { m.lists[i], m.lists[k] = m.lists[k], m.lists[i] }
func (m *merging) Push(x any)         { m.lists = append(m.lists, x.(*wordList)) }
func (m *merging) Pop() any {
	last := m.lists[len(m.lists)-1]
	m.lists = m.lists[:len(m.lists)-1]
	return last
}
