package paper

import (
	"bytes"
	"html"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench"
	"github.com/ecrec/ecrec/bench/numbers"
)

// The page has each number of README.md and docs, with its unit, its record and its place there.
func TestNumbersOfDocumentsAreOnThePage(t *testing.T) {
	list, err := numbers.All()
	if err != nil || len(list) < 500 {
		t.Fatalf("%d numbers, error %v", len(list), err)
	}
	var page bytes.Buffer
	if err := makeFrom(nil, Session{}, func(Run) (*bench.Report, error) { return nil, nil }).WritePage(&page); err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(page.String(), `id="numbers"`)
	if !found {
		t.Fatal("the page has no section of numbers")
	}
	text = html.UnescapeString(text)
	for _, n := range list { // the page has them in this order
		for _, part := range []string{n.Claim.Text, n.Claim.Unit, n.Record, n.Place} {
			_, rest, found := strings.Cut(text, ">"+part+"</td>")
			if !found {
				t.Fatalf("%s, section %q: %s %s of %s is not on the page: %q is missing", n.Claim.Doc, n.Claim.Section, n.Claim.Text, n.Claim.Unit,
					n.Record, part)
			}
			text = rest
		}
	}
}
