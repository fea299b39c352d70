package data

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// drawn are hashes and texts in the order in which a test adds them. Some hashes have several texts.
func drawn(seed uint64, n int) (all []word) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range n {
		h := uint64(r.IntN(1 + r.IntN(n)))
		all = append(all, word{hash: h << 40, text: fmt.Sprintf("%d%s", r.IntN(2), strings.Repeat("x", int(h%7)))})
	}
	return all
}

// Words come in their order, each once and with its count or its least text. The memory does not matter, nor the set that they
// were added to. The sets are filled at the same time, from one spill.
func TestSortedWords(t *testing.T) {
	const n, sets = 1500, 3
	all := drawn(3, n)
	counts, texts := map[uint64]word{}, map[uint64]word{}
	for _, w := range all {
		c, x := counts[w.hash], texts[w.hash]
		if counts[w.hash] = (word{hash: w.hash, count: c.count + 1}); x.text == "" || w.text < x.text {
			texts[w.hash] = word{hash: w.hash, text: w.text}
		}
	}
	values := func(of map[uint64]word, order wordOrder) (list []word) {
		for _, w := range of {
			list = append(list, w)
		}
		slices.SortFunc(list, order)
		return list
	}
	for _, memory := range []int64{0, 3000, 30_000, 1 << 20} {
		s := newSpill(env.Real(), t.TempDir(), memory)
		c := make([]*wordCounts, sets)
		x := make([]*textSet, sets)
		var filled sync.WaitGroup
		for k := range sets {
			c[k], x[k] = newWordCounts(s, 2*sets), newTextSet(1, s, 2*sets)
			filled.Go(func() {
				for i := k; i < n; i += sets {
					c[k].countHash(all[i].hash)
					x[k].addText(0, all[i].hash, []byte(all[i].text))
				}
			})
		}
		filled.Wait()
		ranked := newSortedWords(s, byRank, 2*sets)
		var byCount, byText []word
		var lists []*wordList
		runs := 0
		for k := range sets {
			if err := c[k].endWords(); err != nil {
				t.Fatal(err)
			}
			runs += len(c[k].runs)
			lists = append(lists, c[k].sources(1)...)
		}
		if (runs > 0) != (memory < 1<<20) {
			t.Errorf("memory %d: %d runs", memory, runs)
		}
		if err := mergeWords(lists, byHash, func(w *word) error {
			byCount = append(byCount, *w)
			return ranked.addWord(w)
		}); err != nil {
			t.Fatal(err)
		}
		if err := mergeTexts(x, 0, func(w *word) error { byText = append(byText, *w); return nil }); err != nil {
			t.Fatal(err)
		}
		var byRanks []word
		if err := ranked.eachWord(func(w *word) error { byRanks = append(byRanks, *w); return nil }); err != nil {
			t.Fatal(err)
		}
		for what, both := range map[string][2][]word{"counts": {byCount, values(counts, byHash)}, "texts": {byText, values(texts, byHash)},
			"ranks": {byRanks, values(counts, byRank)}} {
			if !slices.Equal(both[0], both[1]) {
				t.Errorf("memory %d: %d %s, want %d; or others", memory, len(both[0]), what, len(both[1]))
			}
		}
		ranked.dropWords()
		for k := range sets {
			c[k].dropWords()
		}
		if used := s.used.Load(); used != 0 {
			t.Errorf("memory %d: %d bytes remain in use", memory, used)
		}
		s.closeFile()
	}
}

// The runs of a list that are read at once are few, for any number of words that have no room in memory. The words are the same.
func TestManyRuns(t *testing.T) {
	const adds, distinct = 200_000, 150_000
	s := newSpill(env.Real(), t.TempDir(), 4<<10)
	defer s.closeFile()
	c, x, ranked := newWordCounts(s, 3), newWordTexts(s, 3), newSortedWords(s, byRank, 3)
	for i := range uint64(adds) {
		h := mix(i % distinct)
		c.countHash(h)
		x.addText(h, fmt.Appendf(nil, "%d-%d", i/distinct, h))
	}
	var lists []*wordList
	for _, set := range []*wordSet{&c.wordSet, &x.wordSet} {
		if err := set.endWords(); err != nil {
			t.Fatal(err)
		}
		lists = append(lists, set.sources(len(set.runs))...)
	}
	n := 0
	if err := mergeWords(lists, byHash, func(w *word) error {
		if n++; w.text != fmt.Sprintf("0-%d", w.hash) {
			t.Fatalf("hash %d has the text %s", w.hash, w.text)
		}
		return ranked.addWord(w)
	}); err != nil || n != distinct {
		t.Fatalf("%d words, want %d: %v", n, distinct, err)
	}
	var before word
	twice := 0
	if err := ranked.eachWord(func(w *word) error {
		if n--; before.count > 0 && byRank(before, *w) >= 0 {
			t.Fatalf("%v follows %v", *w, before)
		}
		if before = *w; w.count == 2 {
			twice++
		}
		return nil
	}); err != nil || n != 0 || twice != adds-distinct {
		t.Errorf("%d words less, %d that were added twice: %v", n, twice, err)
	}
	for what, r := range map[string]*wordRuns{"counts": &c.wordRuns, "texts": &x.wordRuns, "ranks": &ranked.wordRuns} {
		if most := 3 * joinedRuns; len(r.runs) > most || r.puts <= most {
			t.Errorf("%s: %d runs of %d are left, want at most %d", what, len(r.runs), r.puts, most)
		}
	}
}

// The file of a spill is made when memory is full, and has no name. If it cannot be made or written, the words end with an error.
func TestSpillFile(t *testing.T) {
	dir := t.TempDir()
	s := newSpill(env.Real(), filepath.Join(dir, "none"), leastSlots*slotBytes)
	c := newWordCounts(s, 1)
	for h := range uint64(leastSlots * 3 / 4) {
		c.countHash(h)
	}
	if s.file != nil || c.err != nil {
		t.Fatalf("as many counts as have room: %v", c.err)
	}
	c.countHash(leastSlots)
	checkError(t, c.endWords(), "cannot create a temporary file")
	s = newSpill(env.Real(), dir, 0)
	x := newWordTexts(s, 1)
	x.addText(1, []byte("a"))
	x.addText(2, make([]byte, leastBlock))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 || s.file == nil {
		t.Errorf("the folder has %v (%v)", entries, err)
	}
	s.closeFile()
	x.addText(3, make([]byte, 2*leastBlock))
	if err := x.endWords(); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed file: %v", err)
	}
	ranked := newSortedWords(s, byRank, 1)
	for h := range uint64(2) {
		if err := ranked.addWord(&word{hash: h}); (err != nil) != (h > 0) {
			t.Errorf("a closed file, word %d: %v", h, err)
		}
	}
	if err := ranked.eachWord(func(*word) error { return nil }); err == nil {
		t.Error("a closed file: no error at the end")
	}
}
