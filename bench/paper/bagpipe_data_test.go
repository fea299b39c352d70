package paper

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
)

// smallData writes a data set, and returns the config of a run over it.
func smallData(t *testing.T) string {
	t.Helper()
	dir, tables := t.TempDir(), slices.Repeat([]int64{300}, 26)
	synth := data.SynthOptions{Env: env.Real(), To: filepath.Join(dir, "x.bin"),
		Tables: tables, Seed: 1, Law: data.LawBursts, Samples: 96 * 16}
	if err := data.Synth(synth); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.toml")
	text := "[data]\ntrain = [\"x.bin\"]\n[model]\nembedding_dim = 4\nbottom_mlp = [4]\ntop_mlp = [1]\ntables = " +
		strings.ReplaceAll(fmt.Sprint(tables), " ", ", ") + "\n[train]\nglobal_batch = 96\niterations = 1\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The figures of counts have the numbers of a user's data beside those of the synthetic ids.
func TestDataOfAUserIsCounted(t *testing.T) {
	config := smallData(t)
	drawings := drawingsWith(config)
	for _, id := range []string{"B3", "B4", "B-five"} {
		without := len(drawTiny(t, drawing(t, id)).Series)
		f := drawTiny(t, drawings[slices.IndexFunc(drawings, func(d Drawing) bool { return d.ID == id })])
		s := f.Series[len(f.Series)-1]
		if s.System != "data of "+config || len(f.Series) != without+1 || s.Kind != bench.Counted {
			t.Errorf("%s: %d series, without data %d; the last is %s, %s", id, len(f.Series), without, s.System, s.Kind)
		}
		for _, p := range s.Points {
			if p.Y <= 0 {
				t.Errorf("%s: %+v", id, p)
			}
		}
	}
}

// A plan has the runs over a user's data, and a report draws them again without being given the config.
func TestPlanWithData(t *testing.T) {
	plan, err := Plan(Quick, []string{"B4", "B-five"}, "my.toml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range plan {
		if strings.Contains(r.Run.String(), "my.toml") {
			got = append(got, r.Run.String())
		}
	}
	want := []string{"bench popularity data=my.toml samples=3276800 batches=4", "bench cache data=my.toml steps=2 sizes=5,50"}
	if !slices.Equal(got, want) {
		t.Errorf("runs %q, want %q", got, want)
	}
	r := Make(Session{Size: "quick", Only: []string{"B4"}, Data: "my.toml"}, nil)
	f := r.Figures[slices.IndexFunc(r.Figures, func(f *Figure) bool { return f.ID == "B4" })]
	if !slices.Contains(f.Commands, "ecrec "+want[0]) {
		t.Errorf("commands %q", f.Commands)
	}
}

// Each check of the five numbers can fail.
func TestFiveNumbersCanFail(t *testing.T) {
	reports := runTiny(t, drawing(t, "B-five"))
	for check, x := range []struct {
		report int
		value  float64 // with which the check holds
		name   string
		of     []string
	}{
		{3, 65_000, "distinct rows", nil},
		{1, 90, "lookups", []string{"hottest", "0.1"}},
		{1, 12, "in the cache", []string{"batch", "64"}},
		{3, 22_700, "rows, critical", []string{"mode", lrppMode}},
	} {
		if check == 3 {
			check = 4 // the fourth is a ratio of two counts
		}
		p, _, err := point(reports[x.report], 0, "", x.name, x.of...)
		if err != nil {
			t.Fatal(err)
		}
		for factor, holds := range map[float64]bool{x.value / p.Y: true, 2 * x.value / p.Y: false} {
			of := slices.Clone(reports)
			of[x.report] = changed(t, of[x.report], factor, x.name, x.of...)
			changedCheck(t, "B-five", check, holds, of...)
		}
	}
	for rows, holds := range map[float64]bool{0.75: true, 0.9: false} {
		of := slices.Clone(reports)
		distinct, _, err1 := point(of[3], 0, "", "distinct rows")
		shared, _, err2 := point(of[3], 0, "", "rows", "mode", lrppMode)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		of[3] = changed(t, of[3], rows*distinct.Y/shared.Y, "rows", "mode", lrppMode)
		changedCheck(t, "B-five", 3, holds, of...)
	}
}
