package data

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// bagRow is a sample with a user, the items that the user saw, and an item.
type bagRow struct {
	Y    int32    `parquet:"y"`
	X    float64  `parquet:"x"`
	User string   `parquet:"user"`
	Seen []string `parquet:"seen,list"`
	Item string   `parquet:"item"`
}

var bagsCSV = CSV{Label: "y", Dense: []string{"x"}, Categorical: []string{"user", "seen", "item"}, NA: []string{"NA"}, Separator: '|', Bags: []string{"seen"}}

// bagsTable has the items of seen and item in one table.
var bagsTable = []int{0, 1, 1}

func randomBagRows(r *rand.Rand, n int) (rows []bagRow) {
	item := func() string {
		switch k := r.IntN(20); k {
		case 0:
			return "NA"
		case 1:
			return ""
		default:
			return fmt.Sprintf("i%d", r.IntN(1+r.IntN(200)))
		}
	}
	for range n {
		row := bagRow{Y: r.Int32N(2), X: float64(r.IntN(9)), User: fmt.Sprintf("u%d", r.IntN(1+r.IntN(50))), Item: item()}
		for range r.IntN(5) {
			row.Seen = append(row.Seen, item())
		}
		if len(row.Seen) == 1 && (row.Seen[0] == "" || row.Seen[0] == "NA") {
			row.Seen = nil // such a field of CSV is an empty bag
		}
		rows = append(rows, row)
	}
	return rows
}

func bagsText(rows []bagRow) []byte {
	b := bytes.NewBufferString("y,x,user,seen,item\n")
	for _, r := range rows {
		fmt.Fprintf(b, "%d,%v,%s,%s,%s\n", r.Y, r.X, r.User, strings.Join(r.Seen, "|"), r.Item)
	}
	return b.Bytes()
}

// plainVocabulary orders texts by the number of their uses, then by their bytes.
func plainVocabulary(texts []string, least int) (words []string) {
	counts := map[string]int{}
	for _, text := range texts {
		if text != "" && text != "NA" {
			counts[text]++
		}
	}
	for text, n := range counts {
		if n >= least {
			words = append(words, text)
		}
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	return words
}

// plainRow is the row of a text of a counted table.
func plainRow(words []string, text string) uint32 {
	if text == "" || text == "NA" {
		return rowMissing
	}
	if i := slices.Index(words, text); i >= 0 {
		return uint32(reservedTwo + i)
	}
	return rowUnknown
}

// Vocabularies of bags count every id of every bag, and those of a shared table all its features. They are the
// same for any files and threads, and in CSV and Parquet.
func TestFitBags(t *testing.T) {
	rnd := random(t)
	rows := randomBagRows(rnd, 3000)
	for _, least := range []int{1, 4} {
		var users, items []string
		for _, r := range rows {
			users, items = append(users, r.User), append(append(items, r.Seen...), r.Item)
		}
		userWords, itemWords := plainVocabulary(users, least), plainVocabulary(items, least)
		var ids []uint32
		for _, r := range rows {
			ids = append(ids, plainRow(userWords, r.User))
			for _, text := range append(slices.Clone(r.Seen), r.Item) {
				ids = append(ids, plainRow(itemWords, text))
			}
		}
		cut := 1 + rnd.IntN(len(rows)-1)
		for i, o := range []Options{
			{Format: FormatCSV, Threads: 1, Files: []string{writeFile(t, "a.csv", bagsText(rows))}},
			{Format: FormatCSV, Threads: 3, Files: []string{writeFile(t, "a.csv", bagsText(rows[:cut])), writeFile(t, "b.csv", bagsText(rows[cut:]))}},
			{Format: FormatParquet, Threads: 2, Files: []string{writeParquet(t, rnd, "a.parquet", rows)}},
		} {
			o.Env, o.CSV, o.Tables, o.TableOf, o.MinCount, o.RecordDir = env.Real(), bagsCSV, []int64{0, 0}, bagsTable, int64(least), t.TempDir()
			if o.Format == FormatParquet {
				o.CSV.Separator = 0
			}
			if i > 0 {
				o.limits = fitLimits{memory: 3000, listed: maxListed, words: maxWords}
			}
			r, err := Fit(o)
			if err != nil {
				t.Fatal(err)
			}
			if o.Recipe, err = ParseRecipe(r.Encode()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.Categorical[0].Vocabulary, userWords) || !slices.Equal(r.Categorical[1].Vocabulary, itemWords) || len(r.Categorical[2].Vocabulary) > 0 {
				t.Fatalf("case %d, at least %d: vocabularies %q, %q, want %q, %q", i, least, r.Categorical[0].Vocabulary, r.Categorical[1].Vocabulary, userWords, itemWords)
			}
			if want := []int64{int64(len(userWords)) + 2, int64(len(itemWords)) + 2}; !slices.Equal(r.Schema().Tables, want) {
				t.Errorf("case %d: rows %d, want %d", i, r.Schema().Tables, want)
			}
			if b := readAll(t, o); !slices.Equal(b.IDs, ids) {
				t.Errorf("case %d: ids differ: %d, want %d", i, b.IDs[:20], ids[:20])
			}
			stats, err := DescribeColumns(o, 0)
			if err != nil || len(stats) != 4 || stats[2].Name != "seen" || stats[2].Rows != int64(len(itemWords))+2 || (stats[2].Unknown > 0) != (least > 1) || stats[2].Missing == 0 {
				t.Errorf("case %d: %v, %+v", i, err, stats)
			}
		}
	}
}

// A recipe whose categories of one table differ in it is refused.
func TestSharedRecipe(t *testing.T) {
	o := Options{Env: env.Real(), Format: FormatCSV, Files: []string{writeFile(t, "a.csv", []byte("y,x,user,seen,item\n1,1,u,a|b,c\n0,1,v,,a\n"))},
		CSV: bagsCSV, Tables: []int64{0, 0}, TableOf: bagsTable, RecordDir: t.TempDir()}
	r, err := Fit(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(c *Category){
		func(c *Category) { c.Rows++ }, func(c *Category) { c.Reserved = 1 }, func(c *Category) { c.IDs = IDsHash },
		func(c *Category) { c.Vocabulary = []string{"x"} },
	} {
		bad := *r
		bad.Categorical = slices.Clone(r.Categorical)
		change(&bad.Categorical[2])
		if _, err := ParseRecipe(bad.Encode()); err == nil || !strings.Contains(err.Error(), `column "item" has another table than that of "seen"`) {
			t.Errorf("%+v: %v", bad.Categorical[2], err)
		}
	}
}
