package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
)

// The mixture draws one of the hottest 1 % with its probability, and each row of both parts alike.
func TestMixture(t *testing.T) {
	const rows, draws = 1000, 1_000_000
	m := mixture(0.4)
	counts := make([]int, rows)
	for i := range draws {
		counts[m.rank((float64(i)+0.5)/draws, rows)]++
	}
	for rank, n := range counts {
		want := draws * 0.6 / rows
		if rank < rows/100 {
			want += draws * 0.4 / (rows / 100)
		}
		if float64(n) < want-2 || float64(n) > want+2 {
			t.Fatalf("rank %d is drawn %d times, want %v", rank, n, want)
		}
	}
	for _, u := range []float64{0, 0.39999, 0.4, 1 - 1.0/(1<<53)} {
		if rank := m.rank(u, 3); rank > 2 {
			t.Errorf("%v draws rank %d of 3 rows", u, rank)
		}
	}
}

// A data set is counted as the stream that it was written from.
func TestDataOfAConfigIsCounted(t *testing.T) {
	dir := t.TempDir()
	tables, err := streamTables("criteo-kaggle", true)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "x.bin")
	synth := data.SynthOptions{Env: env.Real(), To: file, Tables: tables, Seed: oracleSeed, Law: data.LawBursts, Samples: 96 * 16}
	if err := data.Synth(synth); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.toml")
	text := "[data]\ntrain = [\"x.bin\"]\n[model]\nembedding_dim = 4\nbottom_mlp = [4]\ntop_mlp = [1]\ntables = " +
		strings.ReplaceAll(fmt.Sprint(tables), " ", ", ") + "\n[train]\nglobal_batch = 96\niterations = 1\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	count := func(args ...string) *Report {
		r, err := cacheBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: args})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := count("stream=bursts"), count("data="+path)
	for i, f := range a.Figures {
		if g := b.Figures[i]; f.Name != g.Name || f.Median != g.Median {
			t.Errorf("%s %v: %v, and of the file %v", f.Name, f.Case, f.Median, g.Median)
		}
	}
	for _, arg := range []string{"data=/none.toml", "stream=flat", "tables=x"} {
		_, err := cacheBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{arg}})
		if !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), arg) {
			t.Errorf("%s: %v", arg, err)
		}
	}
	_, err = cacheBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{"data=" + path, "steps=50"}})
	if !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), "1536 samples") {
		t.Errorf("a count longer than the data: %v", err)
	}
}
