package lint

import (
	"fmt"
	"path/filepath"
	"strings"
)

// minCircleFiles is the least number of files of a package whose file circle is
// measured: in a smaller package a circle is still read at one sitting.
const minCircleFiles = 8

// maxReceivers is how many types may have an unexported method of one name. With
// more, a search for the name finds everything.
const maxReceivers = 5

// Measure is one number about a tree, with the place or the counts behind it.
type Measure struct {
	Name   string
	Value  float64
	Detail string
}

// Under accepts the files of one folder and those below it; "" accepts all.
func Under(folder string) func(path string) bool {
	return func(path string) bool { return folder == "" || strings.HasPrefix(path, folder+"/") }
}

// Measures takes every measure of the tree.
func (t *Tree) Measures() ([]Measure, error) {
	all, err := t.EnglishMeasures(Under(""))
	if err != nil {
		return nil, err
	}
	prose, err := t.proseMeasures()
	if err != nil {
		return nil, err
	}
	return append(append(all, prose...), t.structureMeasures()...), nil
}

// EnglishMeasures counts the habits in comments, per 1,000 comment lines, and in
// messages, per 1,000 messages.
func (t *Tree) EnglishMeasures(isWanted func(path string) bool) ([]Measure, error) {
	c, err := t.ReadComments(isWanted)
	if err != nil {
		return nil, err
	}
	var all []Measure
	add := func(name string, value float64, detail string) { all = append(all, Measure{name, value, detail}) }
	counts := habitCounts(c.Texts)
	for _, h := range habits {
		add("comments: "+h.name, perThousand(counts[h.name], c.Lines), fmt.Sprintf("%d of %d lines", counts[h.name], c.Lines))
	}
	messages := t.Messages(isWanted)
	counts = habitCounts(messages)
	plain, synonyms := sumHabits(counts)
	add("messages: "+plainHabits, perThousand(plain, len(messages)), fmt.Sprintf("%d in %d messages", plain, len(messages)))
	add("messages: "+synonymHabits, perThousand(synonyms, len(messages)), fmt.Sprintf("%d in %d messages", synonyms, len(messages)))
	add("comment lines per 100 code lines", 100*float64(c.GoLines)/float64(max(1, c.CodeLines)),
		fmt.Sprintf("%d and %d lines of Go", c.GoLines, c.CodeLines))
	return all, nil
}

// The habits are reported one by one in comments, in two sums elsewhere.
const (
	plainHabits   = "the first six phrases"
	synonymHabits = "their synonyms"
	plainCount    = 6
)

// sumHabits sums the counts of the first six habits, and of the others.
func sumHabits(counts map[string]int) (plain, synonyms int) {
	for i, h := range habits {
		if i < plainCount {
			plain += counts[h.name]
		} else {
			synonyms += counts[h.name]
		}
	}
	return plain, synonyms
}

func perThousand(n, of int) float64 { return 1000 * float64(n) / float64(max(1, of)) }

// proseMeasures measures the documents.
func (t *Tree) proseMeasures() ([]Measure, error) {
	p, err := t.ReadProse(Under(""))
	if err != nil {
		return nil, err
	}
	plain, synonyms := sumHabits(habitCounts(p.Texts))
	return []Measure{
		{"documents: " + plainHabits, perThousand(plain, p.Lines), fmt.Sprintf("%d in %d lines", plain, p.Lines)},
		{"documents: " + synonymHabits, perThousand(synonyms, p.Lines), fmt.Sprintf("%d in %d lines", synonyms, p.Lines)},
		{"documents: words a sentence, median", float64(p.Quantile(0.5)), fmt.Sprintf("%d sentences", len(p.Sentences))},
		{"documents: words a sentence, 95 %", float64(p.Quantile(0.95)),
			fmt.Sprintf("longest %d, %s:%d", countWords(p.Longest.Words), p.Longest.Path, p.Longest.Line)},
		{"documents: longest table row, characters", float64(p.RowChars), p.LongestOf},
	}, nil
}

// structureMeasures measures names, circles, types, files and functions.
func (t *Tree) structureMeasures() []Measure {
	all := t.NameMeasures(Under(""))
	var circle FileCircle
	for _, pkg := range t.Packages() {
		if c := t.FileCircle(pkg); c.Of >= minCircleFiles && c.Share() > circle.Share() {
			circle = c
		}
	}
	all = append(all, Measure{"largest circle of files, % of its package", circle.Share(),
		fmt.Sprintf("%s: %d of %d files", circle.Pkg, len(circle.Files), circle.Of)})
	if sizes := t.TypeSizes(); len(sizes) > 0 {
		most, widest := sizes[0], sizes[0]
		for _, s := range sizes {
			if s.Fields > widest.Fields {
				widest = s
			}
		}
		all = append(all,
			Measure{"methods of the largest type", float64(most.Methods), fmt.Sprintf("%s, in %d files", most.Name, most.Files)},
			Measure{"fields of the widest type", float64(widest.Fields), widest.Name})
	}
	file, function := t.Longest(Under(""))
	up := t.UpwardArrows()
	pairs := t.DuplicatePairs()
	return append(all,
		Measure{"Go lines over 140 characters, per 1,000", t.longLines(140), ""},
		Measure{"lines of the longest file", float64(file.N), file.Name},
		Measure{"lines of the longest function", float64(function.N), function.Name},
		Measure{"duplicate pairs per 100 files", 100 * float64(len(pairs)) / float64(max(1, len(t.Go))),
			fmt.Sprintf("%d pairs in %d files", len(pairs), len(t.Go))},
		Measure{"imports that point up", float64(len(up)), strings.Join(up, ", ")})
}

// NameMeasures measures the names of unexported methods.
func (t *Tree) NameMeasures(isWanted func(path string) bool) []Measure {
	names := t.MethodNames(isWanted)
	receivers, common := 0, []string{}
	for _, r := range names.Receivers {
		receivers = max(receivers, r.N)
		if r.N > maxReceivers {
			common = append(common, fmt.Sprintf("%s %d", r.Name, r.N))
		}
	}
	return []Measure{
		{"unexported methods that are one bare word, %", names.BareShare(), fmt.Sprintf("%d of %d", len(names.BareWords), names.N)},
		{"letters of an unexported method's name, mean", names.MeanLength(), fmt.Sprintf("%d methods", names.N)},
		{"receivers of one unexported method name", float64(receivers), strings.Join(common, ", ")},
	}
}

// PackageMeasures are the measures of one package.
type PackageMeasures struct {
	Phrases, Synonyms float64 // habits per 1,000 comment lines: the first six, the others
	InMessages        int     // habits in messages
	CommentShare      float64 // comment lines per 100 code lines
	Methods           MethodNames
	Circle            FileCircle
}

// MeasurePackage measures the package in one folder.
func (t *Tree) MeasurePackage(pkg string) (PackageMeasures, error) {
	in := func(path string) bool { return filepath.ToSlash(filepath.Dir(path)) == pkg }
	c, err := t.ReadComments(in)
	if err != nil {
		return PackageMeasures{}, err
	}
	plain, synonyms := sumHabits(habitCounts(c.Texts))
	inMessages, more := sumHabits(habitCounts(t.Messages(in)))
	return PackageMeasures{
		Phrases:      perThousand(plain, c.Lines),
		Synonyms:     perThousand(synonyms, c.Lines),
		InMessages:   inMessages + more,
		CommentShare: 100 * float64(c.GoLines) / float64(max(1, c.CodeLines)),
		Methods:      t.MethodNames(in),
		Circle:       t.FileCircle(pkg),
	}, nil
}
