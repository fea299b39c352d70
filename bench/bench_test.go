package bench

import (
	"bytes"
	"path/filepath"
	"testing"
)

// Every benchmark runs, tiny, and reports figures that are greater than zero
// where time was spent.
func TestEveryBenchmarkRunsTiny(t *testing.T) {
	for _, b := range All() {
		t.Run(b.Name, func(t *testing.T) {
			var out bytes.Buffer
			r, err := b.Run(&out, Options{Tiny: true})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Figures) == 0 || out.Len() == 0 {
				t.Fatalf("%d figures, %d bytes printed", len(r.Figures), out.Len())
			}
			for _, f := range r.Figures {
				if !(f.Min <= f.Median && f.Median <= f.Max) || f.N < 1 {
					t.Errorf("%+v", f)
				}
			}
			if err := r.WriteJSON(filepath.Join(t.TempDir(), "r.json")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestUnknownSettingsAreRefused(t *testing.T) {
	for _, b := range All() {
		if _, err := b.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{"bogus=1"}}); err == nil {
			t.Errorf("%s took bogus=1", b.Name)
		}
	}
	if _, err := Find("bogus"); err == nil {
		t.Error("found a benchmark called bogus")
	}
}
