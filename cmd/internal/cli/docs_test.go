package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/ecrec/ecrec/internal/event"
)

// firstColumn returns the cells of the first column of the first table in a section of docs/operate.md.
func firstColumn(t *testing.T, section string) (cells []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## "+section+"\n")
	for line := range strings.Lines(rest) {
		switch row, ok := strings.CutPrefix(line, "|"); {
		case !ok && len(cells) > 0 || strings.HasPrefix(line, "## "):
			return cells[2:] // below the head
		case ok:
			cell, _, _ := strings.Cut(strings.ReplaceAll(row, `\|`, "/"), "|")
			cells = append(cells, cell)
		}
	}
	return nil
}

// codes returns the texts in backticks.
func codes(text string) (all []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// The table of events lists them all, in their order.
func TestTableOfEvents(t *testing.T) {
	var have, want []string
	for _, cell := range firstColumn(t, "Events") {
		have = append(have, codes(cell)...)
	}
	for _, e := range event.Names {
		want = append(want, string(e.Name))
	}
	if !slices.Equal(have, want) {
		t.Errorf("docs/operate.md has the events %v, want %v", have, want)
	}
}

// The table of commands lists each command, and those of data.
func TestTableOfCommands(t *testing.T) {
	listed := map[string]bool{}
	for _, cell := range firstColumn(t, "Commands") {
		for _, code := range codes(cell) {
			words := strings.Fields(code)
			listed[words[0]] = true
			if len(words) > 1 && words[0] == "data" {
				for _, sub := range strings.Split(words[1], "/") {
					listed["data "+sub] = true
				}
			}
		}
	}
	add := func(n *kong.Node, prefix string) {
		for _, c := range n.Children {
			if name := prefix + c.Name; c.Hidden == listed[name] {
				t.Errorf("docs/operate.md: the command %s: listed %v, hidden %v", name, listed[name], c.Hidden)
			} else {
				delete(listed, name)
			}
		}
	}
	parser := kong.Must(&root{}, kong.Exit(func(int) {}))
	add(parser.Model.Node, "")
	for _, c := range parser.Model.Children {
		if c.Name == "data" {
			add(c, "data ")
		}
	}
	for name := range listed {
		t.Errorf("docs/operate.md lists %s, which is no command", name)
	}
}
