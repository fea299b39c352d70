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
	Shared  string // Unit, or that of the numbers beside it: all of "1.5 (1 to 2) ms" have ms
	Around  string // some of the text before and behind it

	sentence int
}

// Section is a part of a document, from a heading to the next one.
type Section struct {
	Doc, Heading string
	Records      []string // that it names
	lines        []int    // of the records
	sentences    []int    // of the records
	Claims       []Claim  // all numbers, whether or not it names records
	between      []string // the text between a claim and the one before it
	HasUnits     bool     // some number has a unit

	sentence int    // the number of sentences so far; a row of a table is one
	behind   string // the text behind the last claim
}

var (
	recordName = regexp.MustCompile("`(20[0-9]{2}-[0-9]{2}-[0-9]{2}-[a-z0-9-]+)(?:\\.txt)?`")
	suffixName = regexp.MustCompile("`(-[a-z0-9-]+)(?:\\.txt)?`")
	notText    = regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)|<!--.*?-->")
	number     = regexp.MustCompile(`(^|[^\w.-])(-?[0-9][0-9,]*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)`)
	unitAfter  = regexp.MustCompile(`^ ?(%|ms|us|ns|s|min|minutes|hours|times|[GMT]B/s|[GMK]i?B|TFLOP/s|GFLOP/s|` +
		`(?:M |million )?samples/s|samples|rows|M|million|thousand)(?:[^\w/]|$)`)
	itemNumber = regexp.MustCompile(`^ *[0-9]+\. `)
	dateOf     = regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}|(?:January|February|March|April|May|June|July|August|September|` +
		`October|November|December) [0-9]+`)
	sentenceEnd = regexp.MustCompile(`[.?!]\)?(?: |$)`)

	// The text between two numbers of which the second one, or the first one, has the unit of both.
	sharesLater  = regexp.MustCompile(`^(?: to \+?| and |[,;] )$`)
	sharesBefore = regexp.MustCompile(`^(?: to \+?| \(\+?)$`)
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
	if t := strings.TrimLeft(line, " "); t == "" || t[0] == '|' || t[0] == '-' || itemNumber.MatchString(line) {
		s.sentence++ // a paragraph ends; a row of a table or an item of a list begins
		s.behind = "|"
	}
	text := line
	for _, r := range []*regexp.Regexp{notText, itemNumber, dateOf} {
		text = r.ReplaceAllStringFunc(text, blank)
	}
	ends := sentenceEnd.FindAllStringIndex(text, -1)
	sentenceAt := func(place int) int {
		n := s.sentence
		for _, e := range ends {
			if e[1] <= place {
				n++
			}
		}
		return n
	}
	last := ""
	for _, m := range recordName.FindAllStringSubmatchIndex(line, -1) {
		last = line[m[2]:m[3]]
		s.addRecord(last, n, sentenceAt(m[0]))
	}
	for _, m := range suffixName.FindAllStringSubmatchIndex(line, -1) { // `2026-11-27-gpu-before`, `-kernels`
		for base := last; base != ""; base = base[:max(0, strings.LastIndexByte(base, '-'))] {
			s.addRecord(base+line[m[2]:m[3]], n, sentenceAt(m[0]))
		}
	}
	end := 0
	for _, at := range number.FindAllStringSubmatchIndex(text, -1) {
		from, to := at[4], at[5]
		if isName(text[to:]) {
			continue
		}
		c := Claim{Doc: s.Doc, Section: s.Heading, Line: n, Text: strings.TrimRight(text[from:to], ","), sentence: sentenceAt(from),
			Around: line[max(0, from-40):min(len(line), to+25)]}
		to = from + len(c.Text)
		gap := s.behind + text[end:from]
		if m := unitAfter.FindStringSubmatchIndex(text[to:]); m != nil {
			c.Unit = text[to+m[2] : to+m[3]]
			to += m[3]
		}
		s.addClaim(c, gap)
		end, s.behind = to, ""
	}
	s.behind += text[end:] + " "
	s.sentence += len(ends)
}

// isName reports whether digits are part of a name, by the text behind them: 14x32, 512-256-64, version 4.1.2.
func isName(behind string) bool {
	return behind != "" && isWord(behind[0]) && unitAfter.FindString(behind) == "" ||
		len(behind) > 1 && strings.ContainsRune("-.", rune(behind[0])) && isWord(behind[1])
}

// addClaim adds a claim, and gives it and the claims before it the unit that they share.
func (s *Section) addClaim(c Claim, between string) {
	c.Shared = c.Unit
	if n := len(s.Claims); n > 0 && c.Unit == "" && sharesBefore.MatchString(between) {
		c.Shared = s.Claims[n-1].Shared
	}
	s.Claims, s.between = append(s.Claims, c), append(s.between, between)
	if c.Unit == "" {
		return
	}
	s.HasUnits = true
	for i := len(s.Claims) - 1; i > 0 && sharesLater.MatchString(s.between[i]) && s.Claims[i-1].Shared == ""; i-- {
		s.Claims[i-1].Shared = c.Unit
	}
}

func (s *Section) addRecord(name string, line, sentence int) {
	s.Records = append(s.Records, name)
	s.lines = append(s.lines, line)
	s.sentences = append(s.sentences, sentence)
}

// Near returns the records that a claim may be from: the ones of its sentence or row, or else all of the section, the nearest lines first.
// Names that are not in records are guesses at shortened names.
func (s *Section) Near(c Claim, records map[string]*Record) []*Record {
	places := make([]int, len(s.Records))
	for i := range places {
		places[i] = i
	}
	away := func(i int) int { return max(s.lines[i]-c.Line, c.Line-s.lines[i]) }
	slices.SortStableFunc(places, func(a, b int) int { return away(a) - away(b) })
	var beside, all []*Record
	for _, i := range places {
		r := records[s.Records[i]]
		if r == nil {
			continue
		}
		if s.sentences[i] == c.sentence && !slices.Contains(beside, r) {
			beside = append(beside, r)
		}
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	if beside != nil {
		return beside
	}
	return all
}

func blank(s string) string { return strings.Repeat(" ", len(s)) }

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
