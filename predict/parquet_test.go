package predict

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
)

// TestParquet scores Parquet files, with lists and kept columns, and writes some: the bits are those of the evaluation.
func TestParquet(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.toml")
	at := func(name string) string {
		path, err := filepath.Abs(filepath.Join("../data/testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := strings.NewReplacer("CSV", at("lists.csv"), "PARQUET", at("lists.parquet")).Replace(`[data]
format = "csv"
train = ["CSV"]
eval = ["CSV"]
[data.csv]
label = "label"
dense = ["x"]
categorical = ["clicked", "user", "words"]
separator = "|"
bags = ["clicked", "words"]
[model]
embedding_dim = 4
tables = [50, 60, 5]
bottom_mlp = [8, 4]
top_mlp = [8, 1]
[train]
global_batch = 100
epochs = 1
`)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	cfg := load(t, path)
	file, e, probs := trained(t, cfg)
	cfg.Data.Format = data.FormatParquet
	for threads := 1; threads < 4; threads++ {
		lines, r := predicted(t, cfg, file, threads, at("lists.parquet"), at("lists.parquet"))
		sameBits(t, "Parquet", lines[:len(probs)], probs)
		sameBits(t, "Parquet again", lines[len(probs):], probs)
		if r.AUC != e.AUC || r.Labelled != r.Rows {
			t.Errorf("%+v, the evaluation has %+v", r, e)
		}
	}
	m, err := Load(env.Real(), cfg, file, "")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for format, name := range map[string]string{data.FormatCSV: "lists.csv", data.FormatParquet: "lists.parquet"} {
		cfg.Data.Format = format
		o := Options{Env: env.Real(), Data: cfg.DataOptions(true), Threads: 2, Parquet: true, Keep: []string{"user", "text"}, Stop: func() error { return nil }}
		o.Data.Env, o.Data.Files = o.Env, []string{at(name)}
		if o.Recipe, err = data.NewRecipe(o.Data); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := m.Run(o, &out); err != nil {
			t.Fatal(err)
		}
		type scored struct {
			User  string  `parquet:"user"`
			Text  *string `parquet:"text"`
			Score float32 `parquet:"score"`
		}
		rows, err := parquet.Read[scored](bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil || len(rows) != len(probs) {
			t.Fatalf("%s: %d rows, %v", name, len(rows), err)
		}
		for i, row := range rows {
			if row.Score != probs[i] || !strings.HasPrefix(row.User, "u") {
				t.Fatalf("%s: row %d is %+v, the evaluation has %v", name, i, row, probs[i])
			}
		}
	}
}
