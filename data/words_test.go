package data

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
)

// writeTo writes a file, in place of one of that name.
func writeTo(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A vocabulary is the same, whatever the memory and the threads. A large one has hashes, and its rows are the same too.
func TestVocabularyBeyondMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	text := []byte("y,n,m,c,d\n")
	for range 40_000 {
		text = fmt.Appendf(text, "%d,1,2,w%d,\xff%d\n", rng.IntN(2), int(math.Exp(10*rng.Float64())), rng.IntN(1+rng.IntN(3000)))
	}
	var first, listed *Recipe
	var ids []uint32
	for i, limits := range []fitLimits{{}, {20_000, maxListed, maxWords}, {20_000, 2500, maxWords}, {20_000, 0, maxWords}} {
		o := fitOptions(t)
		writeTo(t, o.Files[0], text)
		o.Threads, o.MinCount, o.limits = 1+i%3, 2, limits
		var err error
		if o.Recipe, err = Fit(o); err != nil {
			t.Fatal(err)
		}
		if o.Recipe, err = ParseRecipe(o.Recipe.Encode()); err != nil {
			t.Fatal(err)
		}
		b := readAll(t, o)
		hidden, _ := filepath.Glob(filepath.Join(o.RecordDir, ".*"))
		if parts, _ := filepath.Glob(filepath.Join(o.RecordDir, "*.part")); len(hidden)+len(parts) > 0 {
			t.Errorf("left behind: %q, %q", hidden, parts)
		}
		if first == nil {
			first, ids = o.Recipe, slices.Clone(b.IDs)
			continue
		}
		if !slices.Equal(b.IDs, ids) {
			t.Errorf("case %d: other ids", i)
		}
		o.Recipe.Source = first.Source
		if want := map[bool]int{true: hashesVersion, false: recipeVersion}[i > 1]; o.Recipe.Version != want {
			t.Errorf("case %d: version %d, want %d", i, o.Recipe.Version, want)
		}
		for k := range o.Recipe.Categorical {
			got, want := &o.Recipe.Categorical[k], &first.Categorical[k]
			if n := got.size(); (got.Hashes != nil) != (n > limits.listed) || !slices.Equal(got.hashes(), want.hashes()) {
				t.Errorf("case %d, column %d: %d words in hashes: %v, want those of %d", i, k, n, got.Hashes != nil, want.size())
			}
		}
		if i == 1 {
			listed = o.Recipe
		}
	}
	if !reflect.DeepEqual(listed, first) {
		t.Error("with little memory: another recipe")
	}
}

// A column with too many texts for a vocabulary is hashed into a table of twice as many rows.
func TestTooManyWords(t *testing.T) {
	o := fitOptions(t)
	o.limits = fitLimits{1 << 20, 2, 2}
	r, err := Fit(o)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Categorical[0]; c.IDs != IDsHash || c.Reserved != 1 || c.Rows != 1+2*3 || c.size() != 0 {
		t.Errorf("3 words: %+v", c)
	}
	if c := r.Categorical[1]; c.IDs != IDsVocabulary || !slices.Equal(c.Vocabulary, []string{"x", "z"}) {
		t.Errorf("2 words: %+v", c)
	}
	m := newIDMap(&r.Categorical[0])
	if m.mapHash(missingHash) != 0 {
		t.Error("a missing value shares its row")
	}
	for h := range uint64(100) {
		if row := m.mapHash(h); row < 1 || row > 6 {
			t.Errorf("row %d", row)
		}
	}
}

// Of texts with one hash, the least one is kept, in any order of them.
func TestTextsOfOneHash(t *testing.T) {
	for _, order := range [][]string{{"b", "a", "c"}, {"c", "b", "a"}, {"a", "c", "b"}} {
		for _, memory := range []int64{0, 1 << 20} {
			o := fitOptions(t)
			s := newSpill(o.Env, o.RecordDir, memory)
			sets := []*textSet{newTextSet(1, s, 2), newTextSet(1, s, 2)}
			for i, text := range order {
				sets[i%2].addText(0, 5, []byte(text))
			}
			var got []word
			if err := mergeTexts(sets, 0, func(w *word) error { got = append(got, *w); return nil }); err != nil || !slices.Equal(got, []word{{hash: 5, text: "a"}}) {
				t.Errorf("%q: %v, %v", order, got, err)
			}
			s.closeFile()
		}
	}
}

// Damage to the texts beside a record file is found before they are used.
func TestDamagedTexts(t *testing.T) {
	o := fitOptions(t)
	c, err := Convert(o, "")
	if err != nil {
		t.Fatal(err)
	}
	name := c.File + textsEnding
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		bad := slices.Clone(text)
		bad[i] ^= 1
		writeTo(t, name, bad)
		if _, err := Fit(o); err == nil || !strings.Contains(err.Error(), "delete both to convert the sources again") {
			t.Fatalf("byte %d is damaged: %v", i, err)
		}
		writeTo(t, name, text[:i])
		if _, err := Fit(o); err == nil || !strings.Contains(err.Error(), "delete both to convert the sources again") {
			t.Fatalf("%d bytes are left: %v", i, err)
		}
	}
	// The checksum is right, and the words are not.
	f := textFile{}
	if f.file, err = os.Open(name); err != nil {
		t.Fatal(err)
	}
	defer f.file.Close()
	writeTo(t, name, append(xxh3.New().Sum(nil), "\x00\xff\xff\xff\xff\x0f"...))
	list := run{0, 14}.list(o.Env, f.file, 1, lacksText("a.rec", 0))
	if more, err := list.advance(); more || err == nil || !strings.Contains(err.Error(), "lacks a text") {
		t.Errorf("a text of 4 GB: %v, %v", more, err)
	}
}
