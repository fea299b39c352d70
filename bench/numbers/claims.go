package numbers

import (
	"regexp"
	"slices"
	"strings"
)

// Claim is a number in a document.
type Claim struct {
	Doc     string // "README.md", "docs/plan.md"
	Section string // its heading
	Line    int
	Text    string // as written: "44,700"
	Unit    string // behind it; may be empty
	Around  string // some of the text before and behind it
}

// Section is a part of a document, from a heading to the next one.
type Section struct {
	Doc, Heading string
	Records      []string // that it names
	lines        []int    // of the records
	Claims       []Claim  // all numbers, whether or not it names records
	HasUnits     bool     // some number has a unit
}

var (
	recordName = regexp.MustCompile("`(20[0-9]{2}-[0-9]{2}-[0-9]{2}-[a-z0-9-]+)(?:\\.txt)?`")
	suffixName = regexp.MustCompile("`(-[a-z0-9-]+)(?:\\.txt)?`")
	notText    = regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)|<!--.*?-->")
	number     = regexp.MustCompile(`(^|[^\w.-])(-?[0-9][0-9,]*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)`)
	unitAfter  = regexp.MustCompile(`^ ?(%|ms|us|ns|s|min|minutes|hours|times|[GMT]B/s|[GMK]i?B|TFLOP/s|GFLOP/s|M samples/s|samples/s|samples|rows|M)(?:[^\w/]|$)`)
	itemNumber = regexp.MustCompile(`^ *[0-9]+\. `)
	dateOf     = regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}`)
)

// Sections returns the sections of a document in Markdown.
func Sections(doc, text string) (all []Section) {
	s := Section{Doc: doc}
	code := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			code = !code
			continue
		case code:
			continue
		case strings.HasPrefix(line, "#"):
			all = append(all, s)
			s = Section{Doc: doc, Heading: strings.TrimSpace(strings.TrimLeft(line, "#"))}
			continue
		}
		s.addLine(i+1, line)
	}
	return append(all, s)
}

func (s *Section) addLine(n int, line string) {
	last := ""
	for _, m := range recordName.FindAllStringSubmatch(line, -1) {
		last = m[1]
		s.addRecord(m[1], n)
	}
	for _, m := range suffixName.FindAllStringSubmatch(line, -1) { // `2026-11-27-gpu-before`, `-kernels`
		for base := last; base != ""; base = base[:max(0, strings.LastIndexByte(base, '-'))] {
			s.addRecord(base+m[1], n)
		}
	}
	line = itemNumber.ReplaceAllString(notText.ReplaceAllStringFunc(line, blank), "")
	line = dateOf.ReplaceAllStringFunc(line, blank)
	for _, at := range number.FindAllStringSubmatchIndex(line, -1) {
		from, to := at[4], at[5]
		if next := line[to:]; next != "" && isWord(next[0]) && unitAfter.FindString(next) == "" || len(next) > 1 && strings.ContainsRune("-.", rune(next[0])) && isWord(next[1]) {
			continue // a name: 14x32, 512-256-64, version 4.1.2
		}
		c := Claim{Doc: s.Doc, Section: s.Heading, Line: n, Text: strings.TrimRight(line[from:to], ","), Around: line[max(0, from-40):min(len(line), to+25)]}
		if m := unitAfter.FindStringSubmatch(line[to:]); m != nil {
			c.Unit, s.HasUnits = m[1], true
		}
		s.Claims = append(s.Claims, c)
	}
}

func (s *Section) addRecord(name string, line int) {
	s.lines = append(s.lines, line)
	s.Records = append(s.Records, name)
}

// Near returns the records of a section without duplicates, those in the nearest lines first.
func (s *Section) Near(line int) (names []string) {
	places := make([]int, len(s.Records))
	for i := range places {
		places[i] = i
	}
	away := func(i int) int {
		if s.lines[i] < line {
			return line - s.lines[i]
		}
		return s.lines[i] - line
	}
	slices.SortStableFunc(places, func(a, b int) int { return away(a) - away(b) })
	for _, i := range places {
		if !slices.Contains(names, s.Records[i]) {
			names = append(names, s.Records[i])
		}
	}
	return names
}

func blank(s string) string { return strings.Repeat(" ", len(s)) }

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
