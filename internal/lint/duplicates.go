package lint

import (
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// duplicateLines is the length of a passage that counts as a duplicate: this many
// lines in a row that are equal except for names, numbers and strings.
const duplicateLines = 12

// DuplicatePairs lists the pairs of production files that share a passage, as
// "a b". A file that repeats itself is a pair with itself.
func (t *Tree) DuplicatePairs() []string {
	first := map[string]place{}
	pairs := map[string]bool{}
	for _, f := range t.Go {
		if !f.isProduction() {
			continue
		}
		lines := shapes(f.Text)
		for i := range max(0, len(lines)-duplicateLines+1) {
			passage := strings.Join(lines[i:i+duplicateLines], "\n")
			at, seen := first[passage]
			switch {
			case !seen:
				first[passage] = place{f.Path, i}
			case at.path != f.Path || i-at.line >= duplicateLines:
				pairs[at.path+" "+f.Path] = true
			}
		}
	}
	var all []string
	for p := range pairs {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

type place struct {
	path string
	line int
}

// shapes turns each line of code into its tokens, with one letter for any name
// and one for any literal. Comments, empty lines and imports are dropped.
func shapes(text []byte) []string {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	var lines []string
	last, importing, inParens := 0, false, false
	for {
		pos, tok, _ := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.IMPORT {
			importing = true
		}
		if importing {
			inParens = inParens && tok != token.RPAREN || tok == token.LPAREN
			importing = inParens || tok != token.SEMICOLON
			continue
		}
		if tok == token.SEMICOLON {
			continue
		}
		word := tok.String()
		if tok == token.IDENT {
			word = "n"
		} else if tok.IsLiteral() {
			word = "v"
		}
		if line := file.Line(pos); line != last {
			lines, last = append(lines, word), line
		} else {
			lines[len(lines)-1] += " " + word
		}
	}
}
