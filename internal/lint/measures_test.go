package lint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// readArchive reads a module that is given as a txtar archive.
func readArchive(t *testing.T, archive string) *Tree {
	t.Helper()
	root := t.TempDir()
	files := txtar.Parse([]byte("-- go.mod --\nmodule example.com/m\n" + archive)).Files
	for _, f := range files {
		path := filepath.Join(root, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := ReadTree(root)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

const comments = `
-- a/a.go --
// Package a is told of a loss. Who reads it reads on,
// and nobody knows; "what is quoted" counts not, nor does the
// name tellAll or ` + "\x60say\x60" + `.
package a

//go:noinline
func f() {} // goes on

// Counted are rows.
var x = 1
-- a/a.s --
// f is told.
TEXT f
`

func TestHabitsAreCounted(t *testing.T) {
	c, err := readArchive(t, comments).ReadComments(Under(""))
	if err != nil {
		t.Fatal(err)
	}
	if c.Lines != 6 || c.GoLines != 5 || c.CodeLines != 4 {
		t.Errorf("%d comment lines, %d of them Go's, and %d code lines; want 6, 5, 4", c.Lines, c.GoLines, c.CodeLines)
	}
	want := map[string]int{"tell, hear, say": 2, "headless who, what, where": 1, "nobody, somebody, anybody": 1,
		"goes on": 1, "who, what anywhere": 1, "ask, answer, know, learn": 1, "inversion": 1}
	got := habitCounts(c.Texts)
	for _, h := range habits {
		if got[h.name] != want[h.name] {
			t.Errorf("%s: counted %d, want %d", h.name, got[h.name], want[h.name])
		}
	}
}

func TestSentencesAndRowsAreMeasured(t *testing.T) {
	tree := readArchive(t, `
-- README.md --
# A heading is no sentence

One two three. Four, e.g. five
six seven!

- An item with [a link](https://example.com/a/long/address) and `+"`a span of code`"+`.
- Another

    code is no sentence

| a | row |
`)
	p, err := tree.ReadProse(Under(""))
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 3, 5, 7}; !slices.Equal(p.Sentences, want) {
		t.Errorf("sentences of %v words, want %v", p.Sentences, want)
	}
	if p.RowChars != len("| a | row |") {
		t.Errorf("the longest row has %d characters", p.RowChars)
	}
}

func TestNamesTypesAndCirclesAreMeasured(t *testing.T) {
	tree := readArchive(t, `
-- a/a.go --
package a

type closer interface{ close() }

type base struct{ x, y int }

type one struct {
	base
	z int
}

func (o *one) close()     { o.tell() }
func (o *one) tell()      { two{}.tell() }
func (o *one) sendAll()   {}
-- a/b.go --
package a

type two struct{ o *one }

func (t two) tell() { t.o.sendAll() }
-- a/c.go --
package a

func use() { two{}.tell() }
`)
	names := tree.MethodNames(Under(""))
	if names.N != 3 || len(names.BareWords) != 2 || names.Letters != len("closetellsendAll") {
		t.Errorf("names %+v", names)
	}
	if want := []NameCount{{"tell", 2}, {"sendAll", 1}}; !slices.Equal(names.Receivers, want) {
		t.Errorf("receivers %v, want %v", names.Receivers, want)
	}
	if got, want := tree.TypeSizes()[0], (TypeSize{"a.one", 3, 3, 1}); got != want {
		t.Errorf("the largest type is %v, want %v", got, want)
	}
	if c := tree.FileCircle("a"); strings.Join(c.Files, " ") != "a/a.go a/b.go" || c.Of != 3 {
		t.Errorf("the circle is %v of %d files", c.Files, c.Of)
	}
}

func TestDuplicatesAreFound(t *testing.T) {
	body := strings.Repeat("\tx += y[1]\n\tx -= 3 // with a comment\n", duplicateLines)
	other := strings.ReplaceAll(body, "y", "z")
	tree := readArchive(t, "-- a/a.go --\npackage a\n\nfunc f() {\n"+body+"}\n-- b/b.go --\npackage b\n\nfunc g() {\n"+other+"}\n-- c/c.go --\npackage c\n")
	if got := tree.DuplicatePairs(); !slices.Contains(got, "a/a.go b/b.go") ||
		slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, "c/c.go") }) {
		t.Errorf("pairs %v", got)
	}
}
