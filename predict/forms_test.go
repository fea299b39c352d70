package predict

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/train"
)

// formRow is a row with all kinds of columns: numbers, whole and not, one of them missing at times; a time; texts; a number as a
// category; several ids.
type formRow struct {
	Label int64    `parquet:"label"`
	Count int64    `parquet:"count"`
	Price *float64 `parquet:"price,optional"`
	When  string   `parquet:"when"`
	City  *string  `parquet:"city,optional"`
	User  int64    `parquet:"user"`
	Items []string `parquet:"items,list"`
	Other string   `parquet:"other"`
}

func formRows(rnd *rand.Rand, n int) []formRow {
	rows := make([]formRow, n)
	for i := range rows {
		r := &rows[i]
		r.Label, r.Count, r.User = int64(rnd.IntN(2)), int64(rnd.IntN(3000)-500), int64(rnd.IntN(1<<rnd.IntN(40)))
		if i%7 != 3 {
			price := float64(rnd.IntN(100_000)) / 64
			r.Price = &price
		}
		if i%5 != 2 {
			city := []string{"Rome", "Köln", "São Paulo", "", "x y"}[rnd.IntN(5)]
			r.City = &city
		}
		r.When = fmt.Sprintf("2026-%02d-%02d %02d:%02d:00", 1+rnd.IntN(12), 1+rnd.IntN(28), rnd.IntN(24), rnd.IntN(60))
		for range rnd.IntN(6) {
			r.Items = append(r.Items, fmt.Sprint("i", rnd.IntN(60)))
		}
		r.Other = fmt.Sprint("not read ", i)
	}
	return rows
}

// csvOf writes rows as CSV, with a missing value as an empty field.
func csvOf(rows []formRow) []byte {
	var b bytes.Buffer
	b.WriteString("label,count,price,when,city,user,items,other\n")
	for _, r := range rows {
		price, city := "", ""
		if r.Price != nil {
			price = fmt.Sprint(*r.Price)
		}
		if r.City != nil {
			city = *r.City
		}
		fmt.Fprintf(&b, "%d,%d,%s,%s,%s,%d,%s,%s\n", r.Label, r.Count, price, r.When, city, r.User, strings.Join(r.Items, "|"), r.Other)
	}
	return b.Bytes()
}

const formConfig = `[data]
format = "csv"
train = ["train.csv"]
eval = ["eval.csv"]
min_count = 2
[data.csv]
label = "label"
dense = ["count", "price", "root"]
categorical = ["hour", "day", "city", "user", "bucket", "items"]
separator = "|"
bags = ["items"]
[data.transform]
price = "standard"
root = "none of count"
hour = "hour of when"
day = "weekday of when"
bucket = "log2-bucket of count"
[model]
embedding_dim = 4
tables = {hour = 30, day = 9, city = "auto", user = 50, bucket = 20, items = "auto"}
bottom_mlp = [8, 4]
top_mlp = [8, 1]
[train]
global_batch = 50
epochs = 1
`

// readStdin makes the standard input that of a file, until the test ends.
func readStdin(t *testing.T, name string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	os.Stdin = f
	t.Cleanup(func() {
		os.Stdin = before
		f.Close()
	})
}

// TestForms scores the same rows in all forms: the text of the scores is the same, and has the bits of the evaluation, which
// reads a record file.
func TestForms(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	put := func(name string, b []byte) {
		if err := os.WriteFile(at(name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	rnd := rand.New(rand.NewPCG(19, 4))
	rows := formRows(rnd, 3000)
	text := csvOf(rows)
	put("run.toml", []byte(formConfig))
	put("train.csv", csvOf(formRows(rnd, 400)))
	put("eval.csv", text)
	bare := []byte(nil) // without labels
	for line := range bytes.Lines(text) {
		_, rest, _ := bytes.Cut(line, []byte(","))
		bare = append(bare, rest...)
	}
	put("bare.csv", bare)
	var packed, other, columns bytes.Buffer
	zst, err := zstd.NewWriter(&other)
	if err != nil {
		t.Fatal(err)
	}
	for to, w := range map[*bytes.Buffer]io.WriteCloser{&packed: gzip.NewWriter(&packed), &other: zst} {
		if _, err := w.Write(text); err != nil || w.Close() != nil || to.Len() == 0 {
			t.Fatal(err)
		}
	}
	if err := parquet.Write(&columns, rows); err != nil {
		t.Fatal(err)
	}
	put("eval.csv.gz", packed.Bytes())
	put("eval.csv.zst", other.Bytes())
	put("eval.parquet", columns.Bytes())

	cfg := load(t, at("run.toml"))
	stop := func() bool { return false }
	o := cfg.DataOptions(false)
	o.Env, o.RecordDir = env.Real(), dir
	recipe, err := data.Fit(o)
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.Resolve(recipe)
	file := at("model.safetensors")
	if _, err := train.Run(env.Real(), cfg, train.Options{Observer: quiet{}, Stop: stop, SaveTo: file, Recipe: recipe}); err != nil {
		t.Fatal(err)
	}
	cfg.Model.InitFrom = file
	var probs []float32
	if _, err := train.Run(env.Real(), cfg, train.Options{Observer: quiet{}, Stop: stop, EvalOnly: true, Recipe: recipe,
		WrapStream: func(_ int, s kernels.Stream) kernels.Stream { return recorder{s, &probs} }}); err != nil {
		t.Fatal(err)
	}
	o = cfg.DataOptions(true)
	o.Env, o.Recipe = env.Real(), recipe
	if _, err := data.Convert(o, at("eval.rec")); err != nil {
		t.Fatal(err)
	}
	m, err := Load(env.Real(), cfg, file, "")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, c := range []struct{ format, name string }{
		{data.FormatCSV, "eval.csv"}, {data.FormatCSV, "bare.csv"}, {data.FormatCSV, "eval.csv.gz"}, {data.FormatCSV, "eval.csv.zst"}, {data.FormatCSV, data.Stdin},
		{data.FormatParquet, "eval.parquet"}, {data.FormatRecord, "eval.rec"},
	} {
		for _, threads := range []int{1, 3} {
			cfg.Data.Format = c.format
			o := Options{Env: env.Real(), Data: cfg.DataOptions(true), Recipe: recipe, Threads: threads, Stop: func() error { return nil }}
			o.Data.Env, o.Data.Recipe, o.Data.Files = o.Env, recipe, []string{at(c.name)}
			if c.name == data.Stdin {
				o.Data.Files = []string{data.Stdin}
				readStdin(t, at("eval.csv"))
			}
			var out bytes.Buffer
			if _, err := m.Run(o, &out); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			sameBits(t, fmt.Sprintf("%s, %d threads", c.name, threads), lines[1:], probs)
		}
	}
}
