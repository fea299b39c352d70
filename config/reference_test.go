package config_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/lineage"
)

var update = flag.Bool("update", false, "write docs/config.md")

// TestReferenceIsCurrent compares the keys of docs/config.md with the code.
func TestReferenceIsCurrent(t *testing.T) {
	const begin, end = "<!-- keys: written by go test ./config -run Reference -update -->\n", "<!-- end of keys -->\n"
	file := filepath.Join("..", "docs", "config.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(page, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", file, begin, end)
	}
	want := fmt.Appendf(nil, "%s%s\n%s%s%s", before, begin, keysPage(), end, after)
	switch {
	case bytes.Equal(page, want):
	case *update:
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not say what the code does; run: go test ./config -run Reference -update", file)
	}
}

// keysPage is the part of docs/config.md that is written from the code.
func keysPage() string {
	var page strings.Builder
	table := ""
	for _, e := range config.Reference() {
		if in := e.Key[:strings.LastIndexByte(e.Key, '.')]; in != table {
			table = in
			fmt.Fprintf(&page, "## [%s]\n\n", table)
		}
		byDefault := "default `" + e.Default + "`"
		if e.Unset != "" {
			byDefault = "default: " + e.Unset
		}
		fmt.Fprintf(&page, "### `%s`\n\n%s · %s · on resume: %s · read by %s\n\n%s\n", e.Key, e.Type, byDefault,
			onResume(e.Key), packages(e.Read), wrap(e.Text))
		if len(e.Values) > 0 {
			fmt.Fprint(&page, "\n", valuesText(e.Values))
		}
		if e.Absent {
			fmt.Fprintf(&page, "\nThis version refuses every value except the default.\n")
		}
		fmt.Fprintln(&page)
	}
	return page.String()
}

// valuesText lists values: on one line, or with a line of documentation each.
func valuesText(values []config.Value) string {
	var words, lines []string
	for _, v := range values {
		words = append(words, "`"+v.Word+"`")
		lines = append(lines, "- `"+v.Word+"`: "+strings.ReplaceAll(v.Doc, "*", `\*`)+"\n")
	}
	if values[len(values)-1].Doc == "" {
		return "Values: " + strings.Join(words, ", ") + ".\n"
	}
	return strings.Join(lines, "")
}

// wrap breaks a paragraph into lines of at most 120 characters.
func wrap(paragraph string) string {
	var text strings.Builder
	column := 0
	for _, word := range strings.Fields(paragraph) {
		switch {
		case column == 0:
		case column+1+len(word) > 120:
			text.WriteByte('\n')
			column = 0
		default:
			text.WriteByte(' ')
			column++
		}
		text.WriteString(word)
		column += len(word)
	}
	return text.String()
}

func packages(list string) string { return "`" + strings.ReplaceAll(list, " ", "`, `") + "`" }

// onResume describes whether a key may have another value in a run that resumes from a checkpoint.
func onResume(key string) string {
	key = strings.Replace(key, "optimizer.linear.", "optimizer.sparse.", 1) // the default recipe has no linear weights
	recipe := lineage.Of(config.Default(), lineage.Inputs{})
	value, ok := recipe.Value(key)
	if !ok {
		return "free"
	}
	difference := lineage.Recipe{{Key: key, Value: value + "'"}}.Diff(recipe, true)[0]
	switch {
	case difference.Fixed():
		return "must be equal"
	case difference.Defines():
		return "equal, or `--allow`"
	}
	return "noted"
}

// TestReferenceIsComplete checks that each key is documented once, in the order of the config,
// and that the packages it names read the field.
func TestReferenceIsComplete(t *testing.T) {
	entries, keys := config.Reference(), config.Default().KeyValues()
	if len(entries) != len(keys) {
		t.Errorf("%d keys are documented, and there are %d", len(entries), len(keys))
	}
	for i := range min(len(entries), len(keys)) {
		e := entries[i]
		if e.Key != keys[i].Key {
			t.Fatalf("row %d documents %q, and key %d is %q: give each key a row, in order", i, e.Key, i, keys[i].Key)
		}
		if e.Read == "" || !strings.HasSuffix(e.Text, ".") || strings.Contains(e.Type, "config.") {
			t.Errorf("%s: the row has no reader, no sentence or no type: %+v", e.Key, e)
		}
		for _, pkg := range strings.Fields(e.Read) {
			if !reads(t, pkg, e.Key) {
				t.Errorf("%s: package %s does not read it", e.Key, pkg)
			}
		}
	}
}

// reads reports whether a file of a package, tests excepted, selects the field of a key.
func reads(t *testing.T, pkg, key string) bool {
	t.Helper()
	name := strings.ReplaceAll(key[strings.LastIndexByte(key, '.')+1:], "_", "")
	field := regexp.MustCompile(`(?i)\.` + name + `\b`)
	files, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if field.Match(text) {
			return true
		}
	}
	return false
}
