package checkpoint

import (
	"slices"
	"strings"
	"testing"
)

// TestRowParts checks that parts make up a row and have a tensor per table, and that a
// checkpoint with other parts is refused.
func TestRowParts(t *testing.T) {
	for _, e := range []struct {
		parts []RowPart
		want  string
	}{
		{nil, ""},
		{[]RowPart{{Tensors: []string{"emb"}, Width: 1}, {Tensors: []string{"linear"}, Width: 1}}, ""},
		{[]RowPart{{Tensors: []string{"emb"}, Width: 1}}, "rows of 2 weights whose parts have 1"},
		{[]RowPart{{Tensors: []string{"emb"}, Width: 2}, {Tensors: []string{"linear"}, Width: 0}}, "a part of rows with 0 weights"},
		{[]RowPart{{Tensors: []string{"emb"}, Width: 1}, {Tensors: nil, Width: 1}}, "with 1 weights and 0 tensors, in 1 tables"},
		{[]RowPart{{Tensors: []string{"emb"}, Width: -1}, {Tensors: []string{"linear"}, Width: 3}}, "a part of rows with -1 weights"},
		{[]RowPart{{Tensors: []string{"emb"}, Width: 1, Optimizer: "sgd"}, {Tensors: []string{"linear"}, Width: 1, Optimizer: "adam", Init: InitZero}}, ""},
		{[]RowPart{{Tensors: []string{"emb"}, Width: 1}, {Tensors: []string{"linear"}, Width: 1, Init: "one"}}, `whose weights start as "one"`},
	} {
		m := smallManifest()
		m.Model.Parts = e.parts
		err := m.check()
		if e.want == "" && err != nil || e.want != "" && (err == nil || !strings.Contains(err.Error(), e.want)) {
			t.Errorf("%v: %v; want %q", e.parts, err, e.want)
		}
	}
	one, two := smallManifest().Model, smallManifest().Model
	two.Parts = []RowPart{{Tensors: []string{"a"}, Width: 1}, {Tensors: []string{"linear"}, Width: 1}}
	if d := one.listDifferences(&two); d != "row is a of 2 there, a of 1 + linear of 1 here" {
		t.Errorf("differences %q", d)
	}
	other := two
	other.Parts = slices.Clone(two.Parts)
	other.Parts[1].Optimizer, other.Parts[1].Init = "adam", InitZero
	if d := two.listDifferences(&other); d != "update rule of linear is that of the whole row there, adam here, initial weights of linear is drawn there, zero here" {
		t.Errorf("differences %q", d)
	}
	c := Checkpoint{Manifest: Manifest{Model: two}}
	var names []string
	for _, s := range c.Specs() {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"b", "a", "linear"}) {
		t.Errorf("tensors %v", names)
	}
}
