package lint

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMapHasAllPackages checks that the layout of ARCHITECTURE.md names every package, or a
// folder that it is in.
func TestMapHasAllPackages(t *testing.T) {
	text := readMap(t)
	for _, row := range importRows(t) {
		isNamed := row.pkg == "."
		for p := row.pkg; p != "." && !isNamed; p = path.Dir(p) {
			isNamed = strings.Contains(text, "`"+p+"`")
		}
		if !isNamed {
			t.Errorf("package %s is not in the layout of ARCHITECTURE.md: add it to a row", row.pkg)
		}
	}
}

// station matches a row of a path in ARCHITECTURE.md: a name, files and functions.
var (
	station  = regexp.MustCompile(`(?m)^\| [^|]+ \| ([^|]*\]\([^|]+) \| ([^|]*) \|$`)
	fileLink = regexp.MustCompile(`\]\(([^)]+)\)`)
	codeWord = regexp.MustCompile("`(?:\\w+\\.)?(\\w+)`")
)

// TestMapNamesFunctions checks that the functions of a station are in one of its files.
func TestMapNamesFunctions(t *testing.T) {
	tree, stations := repository(t), 0
	for _, row := range station.FindAllStringSubmatch(readMap(t), -1) {
		stations++
		code := ""
		for _, link := range fileLink.FindAllStringSubmatch(row[1], -1) {
			if text, err := os.ReadFile(filepath.Join(tree.Root, filepath.FromSlash(link[1]))); err == nil {
				code += string(text)
			}
		}
		for _, name := range codeWord.FindAllStringSubmatch(row[2], -1) {
			if !regexp.MustCompile(`\b` + name[1] + `\b`).MatchString(code) {
				t.Errorf("ARCHITECTURE.md: %s is not in %s: correct the row", name[0], row[1])
			}
		}
	}
	if stations < 30 {
		t.Errorf("%d stations are found in ARCHITECTURE.md", stations)
	}
}

// goFile matches the path of a Go file in a document.
var goFile = regexp.MustCompile("`([a-z][\\w./-]*/[\\w.-]+\\.go)`")

// TestDocumentsNameFilesThatExist checks paths of Go files that are not links.
func TestDocumentsNameFilesThatExist(t *testing.T) {
	tree := repository(t)
	for _, doc := range tree.Docs {
		text, err := tree.readFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range goFile.FindAllStringSubmatch(string(text), -1) {
			if !tree.exists(doc, m[1]) {
				t.Errorf("%s: %s does not exist: name the file that has its content now", doc, m[1])
			}
		}
	}
}

func readMap(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t).Root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
