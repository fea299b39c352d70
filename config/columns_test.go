package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// loadText loads a config of this text in front of the rest of a CSV run.
func loadText(t *testing.T, data, model string, sets ...string) (*Config, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "run.toml")
	text := "[data]\nformat = \"csv\"\ntrain = [\"train.csv\"]\n" + data + `
[data.csv]
label = "y"
dense = ["age", "x y"]
categorical = ["user", "item"]
[train]
epochs = 1
global_batch = 8
[model]
embedding_dim = 4
bottom_mlp = [4]
top_mlp = [1]
` + model
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return Load(name, sets)
}

// Tables may be counted, or given by column; transforms are given by column. What Resolved writes, Load reads back.
func TestColumnKeys(t *testing.T) {
	for _, c := range []struct {
		data, model string
		sets        []string
		rows        []int64
		transform   string
		split       string
	}{
		{"", `tables = "auto"`, nil, []int64{0, 0}, "{}", ""},
		{`eval = "10%"`, "tables = {item = 5, user = 7}", nil, []int64{7, 5}, "{}", "10%"},
		{`eval = ["last 5%"]`, "[model.tables]\nitem = \"auto\"\nuser = 7", nil, []int64{7, 0}, "{}", "last 5%"},
		{"[data.transform]\nage = \"standard\"\n\"x y\" = \"none\"", "tables = [1, 2]", nil, []int64{1, 2}, `{"age" = "standard", "x y" = "none"}`, ""},
		{"transform = {user = \"hour\"}", "tables = [1, 2]", []string{"model.tables=auto", "data.min_count=3", "data.eval=20%"}, []int64{0, 0}, `{"user" = "hour"}`, "20%"},
		{"", "table_of = [\"id\", \"id\"]\ntables = \"auto\"", nil, []int64{0}, "{}", ""},
		{"", "table_of = [\"b\", \"a\"]\ntables = {a = 5, b = \"auto\"}", nil, []int64{0, 5}, "{}", ""},
		{`eval = "eval.csv"`, "tables = [1, 2]", []string{`data.transform={age = "none"}`}, []int64{1, 2}, `{"age" = "none"}`, ""},
	} {
		cfg, err := loadText(t, c.data, c.model, c.sets...)
		if err != nil {
			t.Errorf("%s, %s: %v", c.data, c.model, err)
			continue
		}
		again := filepath.Join(t.TempDir(), "resolved.toml")
		if err := os.WriteFile(again, cfg.Resolved(), 0o644); err != nil {
			t.Fatal(err)
		}
		read, err := Load(again, nil)
		if err != nil {
			t.Errorf("%s: %v", cfg.Resolved(), err)
			continue
		}
		for _, cfg := range []*Config{cfg, read} {
			transform, _ := cfg.Data.Transform.MarshalTOML()
			split, ok := cfg.EvalSplit()
			if !slices.Equal(cfg.Model.TableRows(), c.rows) || string(transform) != c.transform || split.String() != c.split || ok != (c.split != "") {
				t.Errorf("%s, %s: rows %v, transforms %s, split %v", c.data, c.model, cfg.Model.TableRows(), transform, split)
			}
		}
	}
}

func TestColumnKeysRefused(t *testing.T) {
	for _, c := range []struct{ data, model, want string }{
		{"", "tables = {user = 7}", `model.tables: has no table of "item" of data.csv.categorical`},
		{"", "tables = {user = 7, item = 3, shop = 2}", `"shop", which is not in data.csv.categorical`},
		{"", "table_of = [\"id\", \"id\"]\ntables = {user = 7, id = 3}", `model.tables: has a table of "user", which is not in model.table_of`},
		{"", "tables = {user = 7, item = 0}", `the table of column "item" has 0 rows`},
		{"", `tables = "many"`, `no table set is called "many"`},
		{"transform = {age = \"hour\"}", "tables = [1, 2]", `data.transform: "hour" is no transform of "age", a column of numbers`},
		{"transform = {user = \"standard\"}", "tables = [1, 2]", `data.transform: "standard" is no transform of "user"`},
		{"transform = {shop = \"none\"}", "tables = [1, 2]", `data.transform: column "shop" is in neither`},
		{"transform = {age = 7}", "tables = [1, 2]", `the transform of column "age" is 7`},
		{"min_count = 2", "tables = [1, 2]", `data.min_count: 2 needs a vocabulary`},
		{`eval = "0%"`, "tables = [1, 2]", `data.eval: "0%"`},
	} {
		_, err := loadText(t, c.data, c.model)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, %s: %v, want %s", c.data, c.model, err, c.want)
		}
	}
}

// TestShuffleDefault checks that files are shuffled by default, and synthetic data is not.
func TestShuffleDefault(t *testing.T) {
	for text, want := range map[string]string{
		"format = \"synthetic\"\n":                       "none",
		"format = \"synthetic\"\nshuffle = \"block\"\n":  "block",
		"format = \"criteo-bin\"\ntrain = [\"a.bin\"]\n": "block",
		"train = [\"a.bin\"]\nshuffle = \"none\"\n":      "none",
	} {
		name := filepath.Join(t.TempDir(), "run.toml")
		text = "[data]\n" + text + "[model]\ntables = \"criteo-kaggle\"\n[train]\niterations = 1\n"
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		c, err := Load(name, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if c.Data.Shuffle != want {
			t.Errorf("%s: data.shuffle is %q, want %q", text, c.Data.Shuffle, want)
		}
	}
}
