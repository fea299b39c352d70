package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// snippet matches code that a document quotes from a file.
var snippet = regexp.MustCompile("(?m)^<!-- from (\\S+) -->\n+```\\w+\n((?s:.*?))^```")

// TestSnippetsAreQuoted checks that code in a document is what the file that it names holds.
func TestSnippetsAreQuoted(t *testing.T) {
	tree := repository(t)
	for _, doc := range tree.Docs {
		text, err := tree.readFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range snippet.FindAllStringSubmatch(string(text), -1) {
			file, err := os.ReadFile(filepath.Join(tree.Root, filepath.FromSlash(m[1])))
			if err != nil {
				t.Errorf("%s quotes %s: %v", doc, m[1], err)
			} else if !strings.Contains(string(file), m[2]) {
				line, _, _ := strings.Cut(m[2], "\n")
				t.Errorf("%s: the code that begins with %q is not in %s: copy it from there", doc, line, m[1])
			}
		}
		if n := strings.Count(string(text), "<!-- from "); n != len(snippet.FindAllString(string(text), -1)) {
			t.Errorf("%s has %d lines <!-- from FILE -->, and not a block of code behind each", doc, n)
		}
	}
}
