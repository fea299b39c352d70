package lint

import (
	"strings"
	"testing"
)

// limit is the most that a measure of this repository may be. It only falls: a
// change that lowers a measure writes the lower number here. A limit that has
// reached its bar is a fixed rule.
type limit struct {
	measure string
	most    float64
	bar     float64
}

// limits are per 1,000 comment lines if the measure counts phrases in comments. Bars
// are at the figures of etcd-io/raft, pebble and restic, or better.
var limits = []limit{
	{"comments: tell, hear, say", 5, 5},
	{"comments: headless who, what, where", 1, 1},
	{"comments: nobody, somebody, anybody", 1, 1},
	{"comments: goes on", 1, 1},
	{"comments: so many", 1, 1},
	{"comments: but for", 1, 1},
	{"comments: who, what anywhere", 5, 5},
	{"comments: speak, talk, listen", 2.5, 2},
	{"comments: ask, answer, know, learn", 8, 8},
	{"comments: want, wish, believe, forget", 3, 3},
	{"comments: come", 3, 3},
	{"comments: stand, lie", 1, 1},
	{"comments: those who, no one, all that", 2.9, 2},
	{"comments: whole, anew, alike, otherwise", 5, 5},
	{"comments: inversion", 1, 1},
	{"comments: is to, are to", 2, 2},
	{"messages: " + plainHabits, 5, 5},
	{"messages: " + synonymHabits, 30, 30},
	{"documents: " + plainHabits, 5, 5},
	{"documents: " + synonymHabits, 5, 5},
	{"documents: words a sentence, 95 %", 25, 25},
	{"documents: longest table row, characters", 160, 160},
	{"unexported methods that are one bare word, %", 30, 30},
	{"receivers of one unexported method name", maxReceivers, maxReceivers},
	{"largest circle of files, % of its package", 50, 50},
	{"methods of the largest type", 65, 45},
	{"fields of the widest type", 36, 32},
	{"methods of train.rank", 40, 40},
	{"fields of train.rank", 20, 20},
	{"Go lines over 140 characters, per 1,000", 3, 3},
	{"duplicate pairs per 100 files", 5, 5},
	{"imports that point up", 0, 0},
}

// leastComments is 90 % of the comment lines per 100 code lines before the phrases
// were counted: a phrase is mended, not deleted with its comment.
const leastComments = 12.6

func TestMeasuresOnlyFall(t *testing.T) {
	tree := repository(t)
	measures, err := tree.Measures()
	if err != nil {
		t.Fatal(err)
	}
	measures = append(measures, measuresOfRank(t, tree)...)
	byName := map[string]Measure{}
	for _, m := range measures {
		byName[m.Name] = m
	}
	for _, l := range limits {
		m, ok := byName[l.measure]
		switch {
		case !ok:
			t.Errorf("there is no measure %q: correct the table of limits", l.measure)
		case m.Value > l.most && l.most <= l.bar:
			t.Errorf("%s: %.1f, over the fixed limit %.1f (%s). %s", m.Name, m.Value, l.most, m.Detail, advice(l.measure))
		case m.Value > l.most:
			t.Errorf("%s: %.1f, over the limit %.1f that was already reached (%s). %s Never raise the limit in internal/lint/ratchet_test.go.",
				m.Name, m.Value, l.most, m.Detail, advice(l.measure))
		case m.Value < 0.8*l.most && l.most > l.bar:
			t.Errorf("%s: %.1f, well under the limit %.1f: write the lower number, or the bar %.1f if it is reached, into "+
				"internal/lint/ratchet_test.go",
				m.Name, m.Value, l.most, l.bar)
		}
	}
	if m := byName["comment lines per 100 code lines"]; m.Value < leastComments {
		t.Errorf("%s: %.1f, under %.1f: mend comments instead of deleting them", m.Name, m.Value, leastComments)
	}
}

// measuresOfRank measures the type that holds a rank of a run.
func measuresOfRank(t *testing.T, tree *Tree) []Measure {
	for _, s := range tree.TypeSizes() {
		if s.Name == "train.rank" {
			return []Measure{
				{"methods of train.rank", float64(s.Methods), ""},
				{"fields of train.rank", float64(s.Fields), "those of embedded structs included"},
			}
		}
	}
	t.Error("there is no type train.rank: give its successor's name in internal/lint/ratchet_test.go")
	return nil
}

// advice returns the remedy for a measure that is too high.
func advice(measure string) string {
	for _, h := range habits {
		if strings.HasSuffix(measure, ": "+h.name) {
			return "Write instead: " + h.instead + ". `go run ./internal/lint/measure -list FOLDER` lists the places."
		}
	}
	switch {
	case strings.HasPrefix(measure, "messages: "), strings.HasPrefix(measure, "documents: "+plainHabits),
		strings.HasPrefix(measure, "documents: "+synonymHabits):
		return "`go run ./internal/lint/measure -list FOLDER` lists the places and what to write instead."
	case strings.HasPrefix(measure, "documents: "):
		return "Split the sentence or the table: one idea a sentence, a short row a fact."
	case strings.HasPrefix(measure, "unexported methods"), strings.HasPrefix(measure, "receivers"):
		return "Name a method by a verb and its object (sealEpoch): a search for it then finds it. `go run ./internal/lint/measure -bare FOLDER` lists the bare words."
	case strings.HasPrefix(measure, "largest circle"):
		return "Move the shared part below both files, or the users above: files in a circle can be neither read nor moved alone. `go run ./internal/lint/measure -bare FOLDER` lists the circle."
	}
	return "Split it, or move it down."
}
