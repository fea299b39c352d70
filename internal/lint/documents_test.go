package lint

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documentName matches the name of a document, with its folder if it is given.
var documentName = regexp.MustCompile(`[\w./-]*\w\.md\b`)

// linkTarget matches the target of a link in a document.
var linkTarget = regexp.MustCompile(`\]\(<?([^)<> ]+)>?(?: "[^"]*")?\)`)

// foreignDocuments are documents of other projects that comments cite.
var foreignDocuments = map[string]string{
	"PERFORMANCE.md": "nccl-tests' definition of its columns",
}

func TestDocumentsExist(t *testing.T) {
	tree := repository(t)
	comments, err := tree.ReadComments(Under(""))
	if err != nil {
		t.Fatal(err)
	}
	cite := func(at Text, name string) {
		if foreignDocuments[name] == "" && !tree.exists(at.Path, name) {
			t.Errorf("%s:%d: %s does not exist: write the fact itself here, or cite a document of this repository", at.Path, at.Line, name)
		}
	}
	for _, text := range comments.Texts {
		for _, name := range documentName.FindAllString(withoutURLs(text.Words), -1) {
			cite(text, name)
		}
	}
	for _, doc := range tree.Docs {
		text, err := tree.readFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			at := Text{Path: doc, Line: i + 1}
			for _, m := range linkTarget.FindAllStringSubmatch(line, -1) {
				target, _, _ := strings.Cut(m[1], "#")
				if target != "" && !strings.Contains(target, ":") {
					cite(at, target)
				}
			}
			for _, name := range documentName.FindAllString(withoutURLs(line), -1) {
				cite(at, name)
			}
		}
	}
}

// exists reports whether a file of the tree is named from the folder of the file
// that cites it, or from the root.
func (t *Tree) exists(from, name string) bool {
	for _, p := range []string{path.Join(path.Dir(from), name), name} {
		if _, err := os.Stat(filepath.Join(t.Root, filepath.FromSlash(p))); err == nil {
			return true
		}
	}
	return false
}

var url = regexp.MustCompile(`\w+://\S+`)

func withoutURLs(s string) string { return url.ReplaceAllString(s, "") }
