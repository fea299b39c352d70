package predict

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/rng"
)

// bagRows returns rows of text: two numbers, a column with one id, and two with none to six, of which some have weights.
func bagRows(rows int, key uint64) []string {
	var lines []string
	for i := range rows {
		var fields [2]string
		for f := range fields {
			d := rng.Draw(key, rng.Synthetic, uint32(90+f), uint64(i), 0)
			var ids []string
			for p := range d[0] % 7 {
				id := fmt.Sprint("v", (d[1]>>(3*p))%40)
				if weight := d[2] >> (4 * p) % 16; weight > 3 {
					id += fmt.Sprint(":", float64(weight)/8-1)
				}
				ids = append(ids, id)
			}
			fields[f] = strings.Join(ids, "|")
		}
		if i%11 == 0 {
			fields[0] = "none" // listed in data.csv.na
		}
		lines = append(lines, fmt.Sprintf("%d,%d,%d,u%d,%s,%s", i*i%3%2, i%9, i%5, i%23, fields[0], fields[1]))
	}
	return lines
}

const bagHeader = "y,a,b,user,clicked,item\n"

// bagConfig trains on rows with bags, and evaluates on others. It returns the config and the file of the evaluation.
func bagConfig(t *testing.T, sets ...string) (cfg *config.Config, eval string) {
	t.Helper()
	dir := t.TempDir()
	for name, lines := range map[string][]string{"train.csv": bagRows(300, 1), "eval.csv": bagRows(1500, 2)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(bagHeader+strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text := `[data]
format = "csv"
train = ["train.csv"]
eval = ["eval.csv"]
[data.csv]
label = "y"
dense = ["a", "b"]
categorical = ["user", "clicked", "item"]
na = ["none"]
separator = "|"
weighted = true
bags = ["clicked", "item"]
[model]
embedding_dim = 4
tables = [20, 30]
table_of = ["user", "item", "item"]
pooling = ["sum", "mean", "sum"]
[train]
global_batch = 50
epochs = 1
`
	path := filepath.Join(dir, "run.toml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return load(t, path, sets...), filepath.Join(dir, "eval.csv")
}

// TestBags scores rows with several ids in a field, with weights, sums and means of shared tables: the bits are those
// of the evaluation, from text and from its record file, on any number of lanes.
func TestBags(t *testing.T) {
	for name, sets := range map[string][]string{
		"dlrm": {"model.bottom_mlp=[8, 4]", "model.top_mlp=[8, 1]"},
		// Rows of two parts.
		"deepfm":     {"model.kind=deepfm", "model.top_mlp=[8, 1]"},
		"no weights": {"model.bottom_mlp=[8, 4]", "model.top_mlp=[8, 1]", "data.csv.weighted=false"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, eval := bagConfig(t, sets...)
			file, e, probs := trained(t, cfg)
			for _, threads := range []int{1, 3} {
				lines, r := predicted(t, cfg, file, threads, eval)
				sameBits(t, fmt.Sprint(threads, " threads"), lines, probs)
				if r.AUC != e.AUC || r.Labelled != r.Rows {
					t.Errorf("%+v, the evaluation has %+v", r, e)
				}
			}
			if distinct := len(slices.Compact(slices.Sorted(slices.Values(probs)))); distinct < len(probs)/2 {
				t.Errorf("%d distinct scores of %d rows: the ids change little", distinct, len(probs))
			}
			o := cfg.DataOptions(true)
			o.Env = env.Real()
			record := filepath.Join(t.TempDir(), "eval.rec")
			if _, err := data.Convert(o, record); err != nil {
				t.Fatal(err)
			}
			cfg.Data.Format = data.FormatRecord
			lines, _ := predicted(t, cfg, file, 2, record)
			sameBits(t, "record file", lines, probs)
		})
	}
}

// TestRecipesOfOthers refuses recipes whose samples do not fit the model.
func TestRecipesOfOthers(t *testing.T) {
	cfg, eval := bagConfig(t, "model.bottom_mlp=[8, 4]", "model.top_mlp=[8, 1]")
	file, _, _ := trained(t, cfg)
	m, err := Load(env.Real(), cfg, file, "")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for name, change := range map[string]func(r *data.Recipe){
		"none":    func(*data.Recipe) {},
		"rows":    func(r *data.Recipe) { r.Categorical[1].Rows, r.Categorical[2].Rows = 31, 31 },
		"numbers": func(r *data.Recipe) { r.Dense = append(r.Dense, r.Dense[0]) },
		"ids":     func(r *data.Recipe) { r.Categorical = append(r.Categorical, r.Categorical[2]) },
	} {
		o := Options{Env: env.Real(), Data: cfg.DataOptions(true), Stop: func() error { return nil }}
		o.Data.Env, o.Data.Files = o.Env, []string{eval}
		if o.Recipe, err = data.NewRecipe(o.Data); err != nil {
			t.Fatal(err)
		}
		change(o.Recipe)
		if _, err := m.Run(o, &strings.Builder{}); (err != nil) != (name != "none") || err != nil && !strings.Contains(err.Error(), "the recipe of the data makes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBadBags leaves out rows with a malformed weight. The scores of the others keep their bits.
func TestBadBags(t *testing.T) {
	cfg, eval := bagConfig(t, "model.bottom_mlp=[8, 4]", "model.top_mlp=[8, 1]")
	file, _, _ := trained(t, cfg)
	want, _ := predicted(t, cfg, file, 1, eval)
	lines := bagRows(1500, 2)
	for i := len(lines) - 1; i >= 0; i -= 7 {
		lines = slices.Insert(lines, i+1, "1,2,3,u,v1:0.5|v2:|v3,v4")
	}
	bad := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(bad, []byte(bagHeader+strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := Load(env.Real(), cfg, file, "")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := Options{Env: env.Real(), Data: cfg.DataOptions(true), Threads: 2, Stop: func() error { return nil }, SkipBad: true}
	o.Data.Env, o.Data.Files = o.Env, []string{bad}
	if o.Recipe, err = data.NewRecipe(o.Data); err != nil {
		t.Fatal(err)
	}
	var skipped []string
	o.Skipped = func(err error) { skipped = append(skipped, err.Error()) }
	var out strings.Builder
	r, err := m.Run(o, &out)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")[1:]; r.Skipped != 215 || !slices.Equal(got, want) {
		t.Errorf("%d rows skipped, %d scored; want 215 and the scores of the others", r.Skipped, r.Rows)
	}
	if want := "bad.csv:4"; len(skipped) != 10 || !strings.Contains(skipped[0], want) || !strings.Contains(skipped[0], "(clicked)") {
		t.Errorf("the first of %d errors is %q, want %s and the column", len(skipped), skipped[0], want)
	}
}
