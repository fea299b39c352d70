package numbers

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write numbers.csv")

const root = "../.."

// documents are those with numbers: README.md and docs, without the reference of keys, which is generated.
func documents(t *testing.T) (names []string) {
	paths, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if name := filepath.Base(p); name != "config.md" && name != "figures.md" {
			names = append(names, "docs/"+name)
		}
	}
	slices.Sort(names)
	return append([]string{"README.md"}, names...)
}

// list reads a file of lines with fields that tabs separate. Lines that begin with # are comments.
func list(t *testing.T, path string, fields int) (lines [][]string) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimRight(string(b), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != fields {
			t.Fatalf("%s:%d: %d fields, want %d", path, i+1, len(f), fields)
		}
		lines = append(lines, f)
	}
	return lines
}

// Every number of a section that names records is in one of them, or has its source in claims.txt. If its sentence or row names records,
// it is in one of these. Sections with units and without records are listed in sections.txt.
func TestDocuments(t *testing.T) {
	constant, sources := map[string]bool{}, map[string]string{}
	for _, f := range list(t, "sections.txt", 3) {
		constant[f[0]+"#"+f[1]] = false
	}
	for _, f := range list(t, "claims.txt", 4) {
		sources[f[0]+"#"+f[1]+"#"+f[2]] = f[3]
	}
	records, used := map[string]*Record{}, map[string]bool{}
	var all []Number
	for _, doc := range documents(t) {
		b, err := os.ReadFile(filepath.Join(root, doc))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range Sections(doc, string(b)) {
			name := doc + "#" + s.Heading
			if _, listed := constant[name]; listed || len(s.Records) == 0 {
				constant[name] = true
				if !listed && s.HasUnits {
					t.Errorf("%s, section %q, has numbers with units and names no record: name it, or list the section in sections.txt", doc, s.Heading)
				}
				continue
			}
			all = append(all, sectionNumbers(t, s, records, sources, used)...)
		}
	}
	for name, found := range constant {
		if !found {
			t.Errorf("sections.txt: no section %s", name)
		}
	}
	for name := range sources {
		if !used[name] {
			t.Errorf("claims.txt: %s is in a record, or not in the document", name)
		}
	}
	compareTable(t, all)
	reportChance(t, all, records)
}

func sectionNumbers(t *testing.T, s Section, records map[string]*Record, sources map[string]string, used map[string]bool) (all []Number) {
	for _, name := range s.Records {
		if records[name] != nil {
			continue
		}
		if r, err := Read(os.DirFS(root+"/bench/results"), name); err == nil { // if not, it is a guess at a shortened name
			records[name] = r
		}
	}
	for _, c := range s.Claims {
		n := Number{Claim: c}
		if r, place := Find(c, s.Near(c, records)); r != nil {
			n.Record, n.Place = r.Name, place
		} else {
			key := c.Doc + "#" + c.Section + "#" + c.Text
			if n.Place = sources[key]; n.Place == "" {
				t.Errorf("%s:%d: %s %s is in no record of its sentence, row or section, and not in claims.txt: ...%s...",
					c.Doc, c.Line, c.Text, c.Shared, c.Around)
			}
			used[key] = true
		}
		all = append(all, n)
	}
	return all
}

// compareTable compares numbers.csv with the documents, or writes it.
func compareTable(t *testing.T, all []Number) {
	want, err := writeTable(all)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("numbers.csv", want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(want, table) {
		t.Error("numbers.csv differs from the documents: run go test ./bench/numbers -update")
	}
}

// reportChance prints the share of random numbers, with the digits of a claim, that the same records have by chance.
func reportChance(t *testing.T, all []Number, records map[string]*Record) {
	r := rand.New(rand.NewPCG(1, 2))
	found, tried := 0, 0
	for _, n := range all {
		if n.Record == "" {
			continue
		}
		c := n.Claim
		digits := []byte(c.Text)
		for i, d := range digits {
			if '0' <= d && d <= '9' {
				digits[i] = byte('0' + r.IntN(10))
			}
		}
		if c.Text = string(digits); len(c.Text) < 4 {
			continue
		}
		tried++
		if r, _ := Find(c, []*Record{records[n.Record]}); r != nil {
			found++
		}
	}
	t.Logf("%d numbers; of random ones with at least three digits %d %% are in the records by chance", len(all), 100*found/max(1, tried))
}

func TestSections(t *testing.T) {
	text := "# A\nRecord `2026-11-21-train`, `-skew`: 77,865 samples/s (1.5 to 2) with `k = 3`, see [x](y-4.md).\n```\n5 ms\n```\n" +
		"## B\n1. The limit is 30 s. On 2026-11-21 14x32 ran.\n"
	var got []string
	for _, s := range Sections("d", text) {
		for _, c := range s.Claims {
			got = append(got, fmt.Sprintf("%s %d %s %s/%s", s.Heading, c.Line, c.Text, c.Unit, c.Shared))
		}
		if s.Heading == "A" && !slices.Equal(s.Records, []string{"2026-11-21-train", "2026-11-21-train-skew", "2026-11-21-skew", "2026-11-skew", "2026-skew"}) {
			t.Errorf("records %q", s.Records)
		}
	}
	want := []string{"A 2 77,865 samples/s/samples/s", "A 2 1.5 /samples/s", "A 2 2 /samples/s", "B 7 30 s/s"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
