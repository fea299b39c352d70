package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/data/numpytest"
)

// writeByPython runs tools/python/files.py, which writes files to a folder.
func writeByPython(t *testing.T, args ...string) {
	t.Helper()
	if *python == "" {
		t.Skip("run by make test-python")
	}
	if out, err := exec.Command(*python, append([]string{"../../tools/python/files.py"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// trainsOn trains a small model on files with some settings, and returns its digest.
func trainsOn(t *testing.T, out, settings string, files ...string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "run.toml")
	write(t, config, "[train]\nglobal_batch = 50\nepochs = 2\n[data]\nshuffle = \"none\"\n"+settings)
	x := run(t, ecrec(t), nil, train(config, out, "data.train=["+strings.Join(quoted(files), ", ")+"]")...)
	if x.code != 0 {
		t.Fatalf("%q: exit code %d\n%s", files, x.code, x.stderr)
	}
	return readSummary(t, out).Digest
}

func quoted(texts []string) (all []string) {
	for _, text := range texts {
		all = append(all, fmt.Sprintf("%q", text))
	}
	return all
}

// TestPythonFiles trains on files that NumPy, Arrow, pandas and polars write: make test-python.
func TestPythonFiles(t *testing.T) {
	t.Run("arrays", func(t *testing.T) {
		dir := t.TempDir()
		tables, hots, r := []int64{50, 3, 1000}, []int{2, 1, 3}, rand.New(rand.NewPCG(3, 4))
		day, first := &numpytest.Day{IDs: make([][][]int64, 3)}, &numpytest.Day{IDs: make([][][]int64, 3)}
		for i := range 400 {
			day.Numbers, day.Labels = append(day.Numbers, make([]float32, 13)), append(day.Labels, float64(i*i%3%2))
			for j := range day.Numbers[i] {
				day.Numbers[i][j] = r.Float32()
			}
			for f, hot := range hots {
				ids := make([]int64, hot)
				for p := range ids {
					ids[p] = r.Int64N(2 * tables[f])
				}
				day.IDs[f], first.IDs[f] = append(day.IDs[f], ids), append(first.IDs[f], ids[:1])
			}
		}
		first.Numbers, first.Labels = day.Numbers, day.Labels
		ids, ones := filepath.Join(dir, "day_0_sparse_multi_hot.npz"), filepath.Join(t.TempDir(), "day_0_sparse.npy")
		day.Write(t, ids)
		first.Write(t, ones)
		writeByPython(t, "arrays", dir, dir)
		const settings = "format = \"criteo-numpy\"\n[model]\nembedding_dim = 4\ntables = [50, 3, 1000]\nbottom_mlp = [4]\ntop_mlp = [1]\n"
		several, one := trainsOn(t, filepath.Join(dir, "run"), settings, ids), trainsOn(t, filepath.Join(dir, "ones"), settings, ones)
		for name, want := range map[string]string{"savez": several, "wide": several, "versions": several, "matrix": one} {
			if got := trainsOn(t, filepath.Join(dir, "run-"+name), settings, filepath.Join(dir, name)); got != want {
				t.Errorf("%s: digest %s, want %s", name, got, want)
			}
		}
		config := filepath.Join(dir, "refused.toml")
		write(t, config, "[train]\nepochs = 1\n[data]\n"+settings)
		for name, says := range map[string]string{"compressed": "write the file with numpy.savez, not numpy.savez_compressed",
			"fortran": "write numpy.ascontiguousarray of it"} {
			x := run(t, ecrec(t), nil, train(config, filepath.Join(dir, "run-"+name), fmt.Sprintf("data.train=[%q]", filepath.Join(dir, name)))...)
			checkRefused(t, x, 2, says, filepath.Join(dir, name, "day_0_sparse_multi_hot.npz"), `array "0"`)
		}
	})
	t.Run("pairs", func(t *testing.T) {
		dir := t.TempDir()
		var rows strings.Builder
		rows.WriteString("label,x,clicked,words\n")
		for i := range 600 {
			clicked := []string{fmt.Sprint(i % 17), fmt.Sprintf("-%d:%v", 1+i%29, float64(i%7)/4-0.5), fmt.Sprintf("%d:0.1", i%17), "", ":2.5"}[:i%6]
			words := []string{"a:1e-07", fmt.Sprintf("w%d:%v", i%5, i%3), "bé"}[:i%4]
			fmt.Fprintf(&rows, "%d,%v,%s,%s\n", i*i%3%2, float64(i%9)/8, strings.Join(clicked, "|"), strings.Join(words, "|"))
		}
		file := filepath.Join(dir, "rows.csv")
		if err := os.WriteFile(file, []byte(rows.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		writeByPython(t, "pairs", file, dir)
		const columns = `[data.csv]
label = "label"
dense = ["x"]
categorical = ["clicked", "words"]
bags = ["clicked", "words"]
weighted = true
separator = "|"
[model]
embedding_dim = 4
tables = [90, 20]
bottom_mlp = [4]
top_mlp = [1]
`
		want := trainsOn(t, filepath.Join(dir, "csv"), "format = \"csv\"\n"+columns, file)
		for _, by := range []string{"arrow", "pandas", "polars"} {
			got := trainsOn(t, filepath.Join(dir, by), "format = \"parquet\"\n"+columns, filepath.Join(dir, by+".parquet"))
			if got != want {
				t.Errorf("%s: digest %s, that of CSV is %s", by, got, want)
			}
		}
	})
}
