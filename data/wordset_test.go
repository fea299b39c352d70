package data

import (
	"io"
	"runtime"
	"strconv"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// allocated is how many bytes of memory a call takes in all, those included that it gives back.
func allocated(do func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// A set takes up to twice its limit in all, since its table doubles, and a buffer for each run that it writes. It takes no memory per word.
func TestWordMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("adds millions of words")
	}
	const limit = 16 << 20
	for what, test := range map[string]struct {
		words, wordBytes int64 // that a word takes at the least
		add              func(s *spill) (*wordSet, func(i uint64))
	}{
		"counts": {3_000_000, slotBytes, func(s *spill) (*wordSet, func(i uint64)) {
			c := newWordCounts(s, 1)
			return &c.wordSet, func(i uint64) { c.countHash(mix(i)) }
		}},
		"texts": {1_500_000, slotBytes + 10, func(s *spill) (*wordSet, func(i uint64)) {
			x, b := newWordTexts(s, 1), make([]byte, 0, 16)
			return &x.wordSet, func(i uint64) { x.addText(mix(i), strconv.AppendUint(b, 1e8+i, 10)) }
		}},
	} {
		s := newSpill(env.Real(), t.TempDir(), limit)
		set, add := test.add(s)
		bytes := allocated(func() {
			for i := range uint64(test.words) {
				add(i)
			}
			if err := set.endWords(); err != nil {
				t.Fatal(err)
			}
		})
		runs := int64(len(set.runs))
		if most := 2*limit + runs*spillBytes + 1<<20; bytes > most || runs < 2 {
			t.Errorf("%s: %d runs take %d bytes, want at most %d", what, runs, bytes, most)
		}
		if n := test.words*test.wordBytes/limit + 1; runs > 2*n {
			t.Errorf("%s: %d runs, where %d have room", what, runs, n)
		}
		n := int64(0)
		bytes = allocated(func() {
			if err := set.eachWord(func(*word) error { n++; return nil }); err != nil {
				t.Error(err)
			}
		})
		if most := int64(2 * spillBytes); n != test.words || what == "counts" && bytes > most {
			t.Errorf("%s: %d words are read with %d bytes, want %d with at most %d", what, n, bytes, test.words, most)
		}
		s.closeFile()
	}
}

// A recipe is written with a small buffer, for any number of hashes. Its JSON in memory is
// allocated once, or twice in builds that count accesses.
func TestRecipeMemory(t *testing.T) {
	const words, small = 1 << 20, 256 << 10
	r := &Recipe{Version: hashesVersion, Categorical: []Category{{IDs: IDsVocabulary, Reserved: reservedTwo, Rows: reservedTwo + words}}}
	for i := range uint64(words) {
		r.Categorical[0].Hashes = append(r.Categorical[0].Hashes, mix(i))
	}
	if bytes := allocated(func() { _ = r.writeJSON(io.Discard) }); bytes > small {
		t.Errorf("%d bytes to write %d hashes", bytes, words)
	}
	var text []byte
	if bytes := allocated(func() { text = r.Encode() }); bytes > int64(2*len(text)+small) {
		t.Errorf("%d bytes for %d bytes of JSON", bytes, len(text))
	}
}
