package data

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"
)

// wordSet has the words of a list by hash, each with a value. Those in memory are in a table with open addressing, where the
// first slot of a hash follows from its highest bits. When the set may take no more memory, its words are sorted in the table
// and move to disk, and the table and the memory of texts are used again.
type wordSet struct {
	wordRuns
	slots  []wordSlot // a power of two; at the end, the words in their order
	shift  uint       // of a hash, to its first slot
	used   int        // slots that have a word
	texts  textBlocks
	wordOf func(s wordSlot) word
}

// wordSlot is a hash and its value: 0 in a free slot.
type wordSlot struct{ hash, value uint64 }

const (
	slotBytes  = int64(unsafe.Sizeof(wordSlot{}))
	leastSlots = 64
)

// find returns the slot of a hash, or a free one for it. There is always room for one more word.
func (s *wordSet) find(hash uint64) *wordSlot {
	if 4*s.used >= 3*len(s.slots) {
		s.makeRoom()
	}
	mask := uint64(len(s.slots) - 1)
	for i := hash >> s.shift; ; i++ {
		if slot := &s.slots[i&mask]; slot.hash == hash || slot.value == 0 {
			if slot.value == 0 {
				slot.hash = hash
			}
			return slot
		}
	}
}

// makeRoom doubles the table, or moves its words to disk.
func (s *wordSet) makeRoom() {
	more := max(len(s.slots), leastSlots)
	if !s.takeMemory(int64(more) * slotBytes) {
		if s.used > 0 {
			s.flush()
			return
		}
		s.addMemory(int64(more) * slotBytes)
	}
	old := s.slots
	s.slots = make([]wordSlot, len(old)+more)
	s.shift = uint(65 - bits.Len(uint(len(s.slots))))
	for _, slot := range old {
		if slot.value != 0 {
			*s.find(slot.hash) = slot
		}
	}
}

// sortSlots moves the words in memory to the first slots, in their order.
func (s *wordSet) sortSlots() wordRange {
	n := 0
	for _, slot := range s.slots {
		if slot.value != 0 {
			s.slots[n] = slot
			n++
		}
	}
	slices.SortFunc(s.slots[:n], func(a, b wordSlot) int { return cmp.Compare(a.hash, b.hash) })
	return s.wordsOf(s.slots[:n])
}

func (s *wordSet) wordsOf(slots []wordSlot) wordRange {
	return wordRange{n: len(slots), wordAt: func(i int) word { return s.wordOf(slots[i]) }}
}

// flush moves the words in memory to the spill.
func (s *wordSet) flush() {
	s.put(s.sortSlots())
	clear(s.slots)
	s.used = 0
	s.texts.reset()
}

// endWords ends the additions: the words are in memory, or all on disk.
func (s *wordSet) endWords() error {
	if len(s.runs) > 0 {
		s.flush()
		s.dropWords()
	} else {
		s.slots = s.slots[:s.sortSlots().n]
	}
	return s.err
}

// sources returns the words as sorted lists, of several runs that are read at once, after endWords.
func (s *wordSet) sources(several int) []*wordList { return s.sortedLists(s.wordsOf(s.slots), several) }

// eachWord calls visit for the words by hash, after endWords. Equal words become one.
func (s *wordSet) eachWord(visit func(w *word) error) error {
	return mergeWords(s.sources(len(s.runs)), byHash, visit)
}

// dropWords forgets the words in memory.
func (s *wordSet) dropWords() {
	s.dropMemory()
	s.slots, s.texts = nil, textBlocks{}
}

// wordCounts counts hashes.
type wordCounts struct{ wordSet }

func newWordCounts(s *spill, lists int) *wordCounts {
	return &wordCounts{wordSet{wordRuns: wordRuns{spill: s, lists: lists, order: byHash},
		wordOf: func(s wordSlot) word { return word{hash: s.hash, count: s.value} }}}
}

func (c *wordCounts) countHash(hash uint64) {
	slot := c.find(hash)
	if slot.value == 0 {
		c.used++
	}
	slot.value++
}

// wordTexts has the text of each hash: of two, the least.
type wordTexts struct{ wordSet }

func newWordTexts(s *spill, lists int) *wordTexts {
	t := &wordTexts{wordSet{wordRuns: wordRuns{spill: s, lists: lists, order: byHash}}}
	t.wordOf = func(s wordSlot) word {
		text := t.texts.textAt(s.value)
		return word{hash: s.hash, text: unsafe.String(unsafe.SliceData(text), len(text))}
	}
	return t
}

func (t *wordTexts) addText(hash uint64, text []byte) {
	slot := t.find(hash)
	if slot.value != 0 && bytes.Compare(t.texts.textAt(slot.value), text) <= 0 {
		return
	}
	if size := t.texts.missingRoom(text); size > 0 {
		if !t.takeMemory(size) {
			if t.used > 0 {
				t.flush()
				t.addText(hash, text)
				return
			}
			t.addMemory(size)
		}
		t.texts.addBlock(size)
	}
	if slot.value == 0 {
		t.used++
	}
	slot.value = t.texts.addText(text)
}

// textBlocks are texts in memory, each with its size before it. A place of a text is not 0.
type textBlocks struct {
	blocks [][]byte
	last   int // the block that is being filled
}

const (
	leastBlock   = 4 << 10
	largestBlock = 1 << 20 // a larger text has one of its own
)

// missingRoom is the size of a block for a text for which there is no room, else 0.
func (t *textBlocks) missingRoom(text []byte) int64 {
	need := len(text) + binary.MaxVarintLen64
	for ; t.last < len(t.blocks); t.last++ {
		if block := t.blocks[t.last]; cap(block)-len(block) >= need {
			return 0
		}
	}
	return int64(max(need, min(leastBlock<<min(len(t.blocks), 20), largestBlock)))
}

func (t *textBlocks) addBlock(size int64) { t.blocks = append(t.blocks, make([]byte, 0, size)) }

// addText adds a text to the block that has room for it. It returns its place.
func (t *textBlocks) addText(text []byte) (place uint64) {
	block := t.blocks[t.last]
	place = uint64(t.last+1)<<32 | uint64(len(block))
	t.blocks[t.last] = append(binary.AppendUvarint(block, uint64(len(text))), text...)
	return place
}

// textAt returns the text at a place. It stays as it is until reset.
func (t *textBlocks) textAt(place uint64) []byte {
	block := t.blocks[place>>32-1][uint32(place):]
	size, n := binary.Uvarint(block)
	return block[n:][:size]
}

// reset forgets the texts, and keeps their memory.
func (t *textBlocks) reset() {
	for i := range t.blocks {
		t.blocks[i] = t.blocks[i][:0]
	}
	t.last = 0
}
