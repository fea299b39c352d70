package paper

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/figures.md")

// TestDocument keeps docs/figures.md as the registry and the drawings have it.
func TestDocument(t *testing.T) {
	const file = "../../docs/figures.md"
	const begin, end = "<!-- figures: written by go test ./bench/paper -run Document -update -->\n", "<!-- end of figures -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no lines %q and %q", file, begin, end)
	}
	want := before + begin + describeFigures(inOrder(All())) + end + after
	switch {
	case want == string(text):
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the code has; run: go test ./bench/paper -run Document -update", file)
	}
}

// describeFigures lists the figures of each paper, the reasons of those without a drawing, and the commands.
func describeFigures(drawings []Drawing) string {
	var b strings.Builder
	sources := append(Sources(), Source{Cite: "Figures of ecrec that no paper has"})
	for _, s := range sources {
		var figures []*Figure
		for _, id := range IDs() {
			if f := Of(id); f.Paper == s.Name {
				figures = append(figures, f)
			}
		}
		if len(figures) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| figure | in the paper | shows | state |\n|---|---|---|---|\n", s.Cite)
		var why []string
		for _, f := range figures {
			state := "drawn"
			d := slices.IndexFunc(drawings, func(d Drawing) bool { return d.ID == f.ID })
			switch {
			case d < 0:
				state = "no benchmark yet"
			case drawings[d].Runs == nil:
				state = "not run"
				if drawings[d].Impossible {
					state = "impossible here"
				}
				why = append(why, "- `"+f.ID+"`: "+drawings[d].Why+".\n")
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.ID, f.Number, f.Title, state)
		}
		if len(why) > 0 {
			fmt.Fprintf(&b, "\nNot run:\n\n%s", strings.Join(why, ""))
		}
		writeCommands(&b, figures, drawings)
	}
	return b.String()
}

// writeCommands writes the commands of the figures of a paper; figures of the same commands share them.
func writeCommands(b *strings.Builder, figures []*Figure, drawings []Drawing) {
	var blocks []string
	ids := map[string][]string{}
	for _, f := range figures {
		d := slices.IndexFunc(drawings, func(d Drawing) bool { return d.ID == f.ID })
		if d < 0 || drawings[d].Runs == nil {
			continue
		}
		quick, full := commandLines(drawings[d], Quick), commandLines(drawings[d], Full)
		block := "```sh\n" + quick
		if full != quick {
			block = "```sh\n# --quick\n" + quick + "# --full\n" + full
		}
		block += "```\n"
		if ids[block] == nil {
			blocks = append(blocks, block)
		}
		ids[block] = append(ids[block], "`"+f.ID+"`")
	}
	for _, block := range blocks {
		fmt.Fprintf(b, "\nCommands of %s:\n\n%s", strings.Join(ids[block], ", "), block)
	}
}

func commandLines(d Drawing, size Size) string {
	var b strings.Builder
	for _, r := range d.Runs(size) {
		b.WriteString("ecrec " + r.String() + "\n")
	}
	return b.String()
}
