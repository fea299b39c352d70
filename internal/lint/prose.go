package lint

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Prose measures the sentences and tables of documents.
type Prose struct {
	Sentences []int // words of each sentence, in order of length
	Texts     []Text
	Longest   Text   // the longest sentence
	LongestOf string // the document of the longest table row
	RowChars  int    // and its characters
	Lines     int
}

// Quantile is the number of words that a share q of the sentences stays within.
func (p Prose) Quantile(q float64) int {
	if len(p.Sentences) == 0 {
		return 0
	}
	return p.Sentences[min(len(p.Sentences)-1, int(q*float64(len(p.Sentences))))]
}

// Over is the share of sentences with more words than a limit.
func (p Prose) Over(words int) float64 {
	i, _ := slices.BinarySearch(p.Sentences, words+1)
	return float64(len(p.Sentences)-i) / float64(max(1, len(p.Sentences)))
}

// ReadProse reads the *.md files.
func (t *Tree) ReadProse(isWanted func(path string) bool) (Prose, error) {
	var p Prose
	longest := 0
	for _, path := range t.Docs {
		if !isWanted(path) {
			continue
		}
		text, err := t.readFile(path)
		if err != nil {
			return p, err
		}
		p.Lines += strings.Count(string(text), "\n")
		for _, paragraph := range p.paragraphs(path, string(text)) {
			p.Texts = append(p.Texts, paragraph)
			for _, s := range sentences(paragraph.Words) {
				n := countWords(s)
				if n == 0 {
					continue
				}
				p.Sentences = append(p.Sentences, n)
				if n > longest {
					longest, p.Longest = n, Text{path, paragraph.Line, s}
				}
			}
		}
	}
	slices.Sort(p.Sentences)
	return p, nil
}

// paragraphs splits a document into its paragraphs and list items, and measures
// its tables. Code blocks, headings and HTML comments are left out.
func (p *Prose) paragraphs(path, text string) []Text {
	var all []Text
	isOpen, isCode := false, false
	for i, l := range strings.Split(text, "\n") {
		plain := strings.TrimSpace(l)
		if strings.HasPrefix(plain, "```") || strings.HasPrefix(plain, "~~~") {
			isCode, isOpen = !isCode, false
			continue
		}
		if strings.HasPrefix(plain, "|") && !isCode {
			if n := len([]rune(plain)); n > p.RowChars {
				p.RowChars, p.LongestOf = n, path
			}
		}
		isIndentedCode := !isOpen && strings.HasPrefix(l, "    ") && !isItem(plain)
		switch {
		case isCode, isIndentedCode, plain == "", strings.HasPrefix(plain, "|"), strings.HasPrefix(plain, "#"), strings.HasPrefix(plain, "<!--"), strings.HasPrefix(plain, "!["):
			isOpen = false
		case isOpen && !isItem(plain):
			all[len(all)-1].Words += " " + plain
		default:
			isOpen = true
			all = append(all, Text{path, i + 1, plain})
		}
	}
	return all
}

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	link     = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	stop     = regexp.MustCompile(`[.!?]["')*_]*(?: |$)`)
	noStop   = regexp.MustCompile(`\b(?:e\.g|i\.e|vs|cf|etc|No)\.`)
)

// sentences splits a paragraph. A span of code is one word.
func sentences(paragraph string) []string {
	s := codeSpan.ReplaceAllString(paragraph, "code")
	s = link.ReplaceAllString(s, "$1")
	s = noStop.ReplaceAllString(numbered.ReplaceAllString(s, ""), "abbreviation")
	return stop.Split(s, -1)
}

// countWords counts the fields that hold a letter or a digit.
func countWords(s string) int {
	n := 0
	for _, f := range strings.Fields(s) {
		if strings.IndexFunc(f, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0 {
			n++
		}
	}
	return n
}
