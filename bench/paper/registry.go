package paper

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"github.com/ecrec/ecrec/bench"
)

// Source is one of the papers.
type Source struct {
	Letter string   `json:"letter" toml:"letter"` // with which the ids of its figures begin
	Name   string   `json:"name" toml:"name"`
	Cite   string   `json:"cite" toml:"cite"`
	Setup  string   `json:"setup" toml:"setup"` // of its experiments
	Notes  []string `json:"notes,omitempty" toml:"notes"`
}

// papersFile is papers.toml.
type papersFile struct {
	Papers  []Source      `toml:"paper"`
	Figures []paperFigure `toml:"figure"`
}

// paperFigure is a figure in papers.toml.
type paperFigure struct {
	ID      string       `toml:"id"`
	Number  string       `toml:"number"`
	Title   string       `toml:"title"`
	Section string       `toml:"section"` // of values without their own
	X       Axis         `toml:"x"`
	Y       Axis         `toml:"y"`
	Bars    bool         `toml:"bars"`
	Values  []PaperValue `toml:"values"`
	Notes   []string     `toml:"notes"`
}

// registry returns papers.toml. The file is part of the program, and its test reads it: a defect of it panics.
var registry = sync.OnceValue(func() *papersFile {
	p, err := readPapers(bench.Papers())
	if err != nil {
		panic(err)
	}
	return p
})

// readPapers reads papers.toml, and refuses unknown keys, figures without a paper, repeated ids, and values without a section.
func readPapers(text []byte) (*papersFile, error) {
	var p papersFile
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("papers.toml: %w", err)
	}
	seen := map[string]bool{}
	for i := range p.Figures {
		f := &p.Figures[i]
		switch {
		case p.sourceOf(f.ID) == nil:
			return nil, fmt.Errorf("papers.toml: figure %q belongs to no paper", f.ID)
		case seen[f.ID]:
			return nil, fmt.Errorf("papers.toml: figure %s is there twice", f.ID)
		case f.Number == "" || f.Title == "" || f.X.Name == "" || f.Y.Name == "":
			return nil, fmt.Errorf("papers.toml: figure %s needs a number, a title and the names of its axes", f.ID)
		}
		seen[f.ID] = true
		if err := f.completeValues(); err != nil {
			return nil, fmt.Errorf("papers.toml: figure %s: %w", f.ID, err)
		}
	}
	return &p, nil
}

// completeValues gives each value its section and checks it.
func (f *paperFigure) completeValues() error {
	for i := range f.Values {
		v := &f.Values[i]
		if v.Section == "" {
			v.Section = f.Section
		}
		place := v.Label
		if place == "" {
			place = full(v.X)
		}
		switch {
		case v.System == "" || v.Section == "":
			return fmt.Errorf("the value of %q at %s needs a system and a section", v.System, place)
		case v.From != "" && v.From != "computed" && v.From != "code":
			return fmt.Errorf("the value of %s at %s is from %q: want computed, code or nothing", v.System, place, v.From)
		case (v.From == "computed") != (v.How != ""):
			return fmt.Errorf("the value of %s at %s: a computed value, and no other, needs how", v.System, place)
		case f.Bars && v.Label == "":
			return fmt.Errorf("the value of %s at %s needs a label: the figure has bars", v.System, place)
		}
	}
	return nil
}

// sourceOf returns the paper of a figure, nil if there is none.
func (p *papersFile) sourceOf(id string) *Source {
	i := slices.IndexFunc(p.Papers, func(s Source) bool { return s.Letter != "" && strings.HasPrefix(id, s.Letter) })
	if i < 0 {
		return nil
	}
	return &p.Papers[i]
}

// findFigure returns the entry of a figure, nil if there is none.
func (p *papersFile) findFigure(id string) *paperFigure {
	i := slices.IndexFunc(p.Figures, func(f paperFigure) bool { return f.ID == id })
	if i < 0 {
		return nil
	}
	return &p.Figures[i]
}

// Of returns the figure of an id as papers.toml has it: without values of ours. A figure of no paper has its id alone.
func Of(id string) *Figure {
	e := registry().findFigure(id)
	if e == nil {
		return &Figure{ID: id}
	}
	return &Figure{ID: id, Paper: registry().sourceOf(id).Name, Number: e.Number, Title: e.Title, X: e.X, Y: e.Y, Bars: e.Bars,
		Values: slices.Clone(e.Values), Notes: slices.Clone(e.Notes)}
}

// Sources lists the papers.
func Sources() []Source { return slices.Clone(registry().Papers) }

// idsOf lists the ids of the figures of the papers, then those of the drawings of none.
func idsOf(drawings []Drawing) (ids []string) {
	for _, f := range registry().Figures {
		ids = append(ids, f.ID)
	}
	for _, d := range drawings {
		if !slices.Contains(ids, d.ID) {
			ids = append(ids, d.ID)
		}
	}
	return ids
}
