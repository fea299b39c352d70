package lint

import (
	"cmp"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A habit is a turn of phrase that this repository avoids. Its count per 1,000
// comment lines is a measure.
type habit struct {
	name    string
	pattern *regexp.Regexp
	instead string
}

// clause matches where a clause begins: at a sentence, after punctuation, after
// a conjunction.
const clause = `(?:(?m:^)|[.;:,(] |\b(?:and|or|but|that|if|when|as|than|because|so) )`

// participle matches the ends of words such as counted, kept and given.
const participle = `(?:ed|ept|ent|eft|ead|own|aid|ade|one|oken|iven|ritten)`

// habits are the turns of phrase that are counted. The first six came from a review;
// the others are synonyms that would replace them if only those six were counted.
var habits = []habit{
	{"tell, hear, say", words("tell tells told telling hear hears heard hearing say says said saying"),
		"messages are sent and received, values are reported, returned or written"},
	{"headless who, what, where", regexp.MustCompile(`(?i)` + clause + `(?:who|what)(?:ever)?\b|(?i)(?:(?m:^)|[.;:(] )where\b`),
		"name the noun: a reader, the sealed epoch, the place where"},
	{"nobody, somebody, anybody", words("nobody somebody anybody everybody"),
		"name the process, rank, caller or function, or use the passive"},
	{"goes on", regexp.MustCompile(`(?i)\b(?:go|goes|going|went|gone) on\b`), "continues, resumes, runs"},
	{"so many", regexp.MustCompile(`(?i)\bso (?:many|much)\b`), "n, that many, this number"},
	{"but for", regexp.MustCompile(`(?i)\bbut for\b`), "except"},

	{"who, what anywhere", regexp.MustCompile(`(?i)\b(?:who|what)(?:ever)?\b`), "name the noun"},
	{"speak, talk, listen", words("speak speaks spoke spoken speaking talk talks talked talking listen listens listened listening"),
		"send, receive, call; a socket listens"},
	{"ask, answer, know, learn", words("ask asks asked asking answer answers answered answering know knows knew known knowing learn learns learned learnt learning"),
		"request, reply; has, holds; receives"},
	{"want, wish, believe, forget", words("wants wanted wish wishes wished believe believes believed forget forgets forgot forgotten remember remembers remembered mind minds"),
		"needs, expects, drops, keeps"},
	{"come", words("come comes came coming"), "arrives, joins, follows, is called"},
	{"stand, lie", words("stand stands stood standing lie lies lay lying lain"), "is, is stored, is in"},
	{"those who, no one, all that", regexp.MustCompile(`(?i)\b(?:those (?:who|that|which)|the one (?:who|that|which)|no one|someone|anyone|everyone|all that|none that)\b`),
		"name the noun"},
	{"whole, anew, alike, otherwise", words("whole anew alike otherwise thereby therein thereof hereby nought aught"),
		"fully redundant, again, equal, or else"},
	{"inversion", regexp.MustCompile(`(?m)(?:^[A-Z][a-z]+` + participle + ` (?:are|were)|[.;:] [A-Z]?[a-z]+` + participle +
		` (?:is|are|was|were)) `),
		"subject first: rows are counted"},
	{"is to, are to", regexp.MustCompile(`(?i)\b(?:is|are|was|were) to (?:be )?[a-z]+`), "must, should, will"},
}

func words(list string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(strings.Fields(list), "|") + `)\b`)
}

// Text is a paragraph of prose on one line, with the file and line of its first line.
type Text struct {
	Path  string
	Line  int
	Words string
}

// quoted matches code, keys and messages that a text quotes, and terms of the field
// that hold a counted word.
var quoted = regexp.MustCompile("`[^`]*`" + `|"[^"]*"|(?i:\bstand-ins?\b|\b(?:deep|machine)[ -]learning\b|\blearning rate)`)

// habitCounts counts each habit in texts.
func habitCounts(texts []Text) map[string]int {
	counts := map[string]int{}
	for _, t := range texts {
		plain := quoted.ReplaceAllString(t.Words, `""`)
		for _, h := range habits {
			counts[h.name] += len(h.pattern.FindAllStringIndex(plain, -1))
		}
	}
	return counts
}

// Comments are the comments of a tree, or of one package.
type Comments struct {
	Texts     []Text
	Lines     int // comment lines of Go and other files
	GoLines   int // comment lines of Go files
	CodeLines int // code lines of Go files
}

// ReadComments reads the comments of the files under one folder ("" for all of
// them), tests included.
func (t *Tree) ReadComments(isWanted func(path string) bool) (Comments, error) {
	var c Comments
	for _, f := range t.Go {
		if isWanted(f.Path) {
			c.addGo(f)
		}
	}
	c.GoLines = c.Lines
	for _, path := range t.Others {
		if !isWanted(path) {
			continue
		}
		text, err := t.readFile(path)
		if err != nil {
			return c, err
		}
		c.addOther(path, string(text))
	}
	return c, nil
}

// addGo adds the comments of a Go file. Directives (//go:build) are code, and so is
// the C code in front of import "C".
func (c *Comments) addGo(f File) {
	isCode := map[*ast.CommentGroup]bool{}
	for _, d := range f.AST.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT && f.importName("C") != "" {
			isCode[g.Doc] = true
		}
	}
	comment := map[int]bool{}
	for _, group := range f.AST.Comments {
		if isCode[group] {
			continue
		}
		line := f.Fset.Position(group.Pos()).Line
		var lines []string
		for _, one := range group.List {
			if strings.HasPrefix(one.Text, "//go:") || strings.HasPrefix(one.Text, "//line ") {
				continue
			}
			at := f.Fset.Position(one.Pos()).Line
			text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(one.Text, "//"), "/*"), "*/")
			for i, l := range strings.Split(text, "\n") {
				comment[at+i] = true
				lines = append(lines, l)
				c.Lines++
			}
		}
		c.Texts = append(c.Texts, joinParagraphs(f.Path, line, lines)...)
	}
	for i, l := range strings.Split(string(f.Text), "\n") {
		l = strings.TrimSpace(l)
		if l != "" && !(comment[i+1] && (strings.HasPrefix(l, "//") || strings.HasPrefix(l, "/*"))) {
			c.CodeLines++
		}
	}
}

// addOther adds the line comments of a file that is not Go.
func (c *Comments) addOther(path, text string) {
	mark := otherMark(path)
	var lines []string
	first := 0
	flush := func() {
		c.Texts = append(c.Texts, joinParagraphs(path, first, lines)...)
		lines = nil
	}
	for i, l := range strings.Split(text, "\n") {
		comment, ok := strings.CutPrefix(strings.TrimSpace(l), mark)
		if _, after, found := strings.Cut(l, " "+mark+" "); !ok && found {
			flush()
			c.Texts = append(c.Texts, Text{path, i + 1, after})
			c.Lines++
			continue
		}
		if !ok || strings.HasPrefix(comment, "!") {
			flush()
			continue
		}
		if lines == nil {
			first = i + 1
		}
		lines = append(lines, comment)
		c.Lines++
	}
	flush()
}

// joinParagraphs joins the lines of a comment: one text for each paragraph, list
// item and indented line.
func joinParagraphs(path string, line int, lines []string) []Text {
	var all []Text
	isOpen := false
	for i, l := range lines {
		plain := strings.TrimSpace(l)
		isNew := strings.HasPrefix(l, "\t") || strings.HasPrefix(l, "  ") || isItem(plain)
		if isOpen && !isNew && plain != "" {
			all[len(all)-1].Words += " " + plain
			continue
		}
		isOpen = plain != ""
		if isOpen {
			all = append(all, Text{path, line + i, plain})
		}
	}
	return all
}

// isItem reports whether a line begins an item of a list.
func isItem(line string) bool {
	return strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || numbered.MatchString(line)
}

var numbered = regexp.MustCompile(`^[0-9]+\. `)

// Messages are the string literals of production files that hold at least two
// words: errors, log lines, help.
func (t *Tree) Messages(isWanted func(path string) bool) []Text {
	var all []Text
	for _, f := range t.Go {
		if !f.isProduction() || !isWanted(f.Path) || f.Pkg == "internal/lint" {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			s, err := strconv.Unquote(lit.Value)
			if err == nil && twoWords.MatchString(s) {
				all = append(all, Text{f.Path, f.Fset.Position(lit.Pos()).Line, strings.ReplaceAll(s, "\n", " ")})
			}
			return true
		})
	}
	return all
}

var twoWords = regexp.MustCompile(`[a-z]{2,} [a-z]{2,}`)

// Match is one place where a habit occurs.
type Match struct {
	Text
	Habit, Instead string
	At             string // the words around it
}

// Matches lists every habit in comments, messages and documents.
func (t *Tree) Matches(isWanted func(path string) bool) ([]Match, error) {
	c, err := t.ReadComments(isWanted)
	if err != nil {
		return nil, err
	}
	p, err := t.ReadProse(isWanted)
	if err != nil {
		return nil, err
	}
	const around = 40
	var all []Match
	for _, text := range slices.Concat(c.Texts, t.Messages(isWanted), p.Texts) {
		plain := quoted.ReplaceAllString(text.Words, `""`)
		for _, h := range habits {
			for _, at := range h.pattern.FindAllStringIndex(plain, -1) {
				from, to := max(0, at[0]-around), min(len(plain), at[1]+around)
				all = append(all, Match{text, h.name, h.instead, strings.ToValidUTF8(plain[from:to], "")})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Match) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), a.Line-b.Line)
	})
	return all, nil
}
