package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/predict"
)

// TestAdult serves the model of the quickstart: scores are those of ecrec predict with a checkpoint of the step.
func TestAdult(t *testing.T) {
	r := trained(t, load(t, "../examples/quickstart.toml", "train.epochs=0", "train.iterations=40", "optimizer.dense.decay_steps=0",
		"optimizer.dense.decay_start=0",
		"optimizer.sparse.decay_steps=0", "optimizer.sparse.decay_start=0"))
	s := newServer(t, Options{Lanes: 2})
	eval := r.cfg.Data.Eval[0]
	for _, at := range []int64{20, 40} {
		saved := r.serveAt(t, s, at)
		rows := rowsOf(t, eval)[:2000]
		sameScores(t, scores(t, s, rows), r.predicted(t, saved, len(rows), eval))
	}
}

// formConfig has all kinds of columns: numbers and categories, some of them made of others, texts with a vocabulary, and bags with weights.
const formConfig = `[data]
format = "csv"
train = ["train.csv"]
eval = ["eval.csv"]
min_count = 2
[data.csv]
label = "label"
dense = ["count", "price", "root"]
categorical = ["hour", "city", "user", "bucket", "items"]
separator = "|"
weighted = true
bags = ["items"]
na = ["none"]
[data.transform]
price = "standard"
root = "standard of count"
hour = "hour of when"
bucket = "log2-bucket of count"
[model]
kind = "deepfm"
embedding_dim = 4
tables = {hour = 30, city = "auto", user = 50, bucket = 20, items = "auto"}
top_mlp = [8, 1]
[train]
global_batch = 20
iterations = 20
`

// formRows is a CSV file for formConfig.
func formRows(n, seed int) string {
	text := "label,count,price,when,city,user,items\n"
	for i := range n {
		x := uint32(i*2654435761 + seed*40503)
		items := []string{}
		for k := range int(x>>3) % 4 {
			item := fmt.Sprint("i", (x>>(4*k))%17)
			if k%2 == 1 {
				item += ":0.25"
			}
			items = append(items, item)
		}
		price, list := strconv.Itoa(int(x%1000)), strings.Join(items, "|")
		if i%7 == 3 {
			price = ""
		}
		if i%13 == 5 {
			list = "none"
		}
		text += fmt.Sprintf("%d,%d,%s,2026-01-%02d %02d:10:00,%s,%d,%s\n", x>>9&1, int(x%3000)-200, price, 1+x%28, x%24,
			[]string{"Rome", "Köln", "São Paulo", "", "x\ty"}[x%5], x%97, list)
	}
	return text
}

// TestForms serves models with all kinds of columns, and of several kinds.
func TestForms(t *testing.T) {
	for name, sets := range map[string][]string{
		"deepfm": nil,
		"dcn":    {"model.kind=dcn", "model.cross_layers=2"},
		"dlrm":   {"model.kind=dlrm", "model.bottom_mlp=[8,4]", "model.batch_norm=true"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "train.csv"), []byte(formRows(300, 1)), 0o600))
			must(t, os.WriteFile(filepath.Join(dir, "eval.csv"), []byte(formRows(500, 2)), 0o600))
			r := trained(t, loadText(t, dir, formConfig, sets...))
			s := newServer(t, Options{Lanes: 2})
			saved, eval := r.serveAt(t, s, 20), filepath.Join(dir, "eval.csv")
			sameScores(t, scores(t, s, rowsOf(t, eval, "items")), r.predicted(t, saved, 500, eval))
		})
	}
}

const syntheticConfig = `
[data]
format = "synthetic"
[model]
kind = "dlrm"
tables = [3000, 40]
embedding_dim = 4
bottom_mlp = [8, 4]
top_mlp = [8, 1]
[train]
global_batch = 16
iterations = 20
`

// directRows makes JSON of samples as they enter the model.
func directRows(t testing.TB, src data.Source, n int) (rows []string) {
	t.Helper()
	var b data.Batch
	schema := src.Schema()
	features := schema.Features()
	for i := range n {
		must(t, src.Read(&b, []int64{int64(i)}))
		var ids []string
		for f := range features {
			if b.Offsets == nil {
				ids = append(ids, strconv.Itoa(int(b.IDs[f])))
			} else {
				cell, err := json.Marshal(b.IDs[b.Offsets[f]:b.Offsets[f+1]])
				must(t, err)
				ids = append(ids, string(cell))
			}
		}
		var dense []string
		for _, x := range b.Dense {
			dense = append(dense, strconv.FormatFloat(float64(x), 'g', -1, 32))
		}
		rows = append(rows, `{"dense":[`+strings.Join(dense, ",")+`],"ids":[`+strings.Join(ids, ",")+"]}")
	}
	return rows
}

// TestSynthetic serves models of data whose columns have no names: rows as they enter the model.
func TestSynthetic(t *testing.T) {
	for name, sets := range map[string][]string{"one id": nil, "bags": {"data.hots=[3, 2]"}} {
		t.Run(name, func(t *testing.T) {
			r := trained(t, loadText(t, t.TempDir(), syntheticConfig, sets...))
			s := newServer(t, Options{Lanes: 1})
			saved := r.serveAt(t, s, 15)
			o := r.cfg.DataOptions(true)
			o.Env = env.Real()
			src, err := data.Open(o)
			must(t, err)
			defer src.Close()
			sameScores(t, scores(t, s, directRows(t, src, 400)), r.predicted(t, saved, 400))
		})
	}
}

// TestCriteo serves a model of Criteo's text: the raw fields, by position.
func TestCriteo(t *testing.T) {
	var text strings.Builder
	var rows []string
	for i := range 300 {
		dense, ids := make([]string, 13), make([]string, 26)
		fields := []string{strconv.Itoa(i % 2)}
		for k := range dense {
			if dense[k] = strconv.Itoa((i*7+k*13)%200 - 3); (i+k)%11 == 0 {
				dense[k] = ""
			}
			fields = append(fields, dense[k])
			if dense[k] == "" {
				dense[k] = "null"
			}
		}
		for k := range ids {
			id := fmt.Sprintf("%08x", uint32((i%37)*2654435761+k*77))
			fields, ids[k] = append(fields, id), strconv.Quote(id)
		}
		text.WriteString(strings.Join(fields, "\t") + "\n")
		rows = append(rows, `{"ids":[`+strings.Join(ids, ",")+`],"dense":[`+strings.Join(dense, ",")+"]}")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "rows.tsv")
	must(t, os.WriteFile(file, []byte(text.String()), 0o600))
	tables := strings.TrimSuffix(strings.Repeat("31,", 26), ",")
	r := trained(t, loadText(t, dir, fmt.Sprintf("[data]\nformat = \"criteo-tsv\"\ntrain = [%q]\neval = [%q]\n[model]\nembedding_dim = 4\ntables = [%s]\n"+
		"bottom_mlp = [8, 4]\ntop_mlp = [8, 1]\n[train]\nglobal_batch = 20\niterations = 15\n", file, file, tables)))
	s := newServer(t, Options{Lanes: 1})
	saved := r.serveAt(t, s, 15)
	sameScores(t, scores(t, s, rows), r.predicted(t, saved, len(rows), file))
}

// TestRows compares rows with those of a checkpoint.
func TestRows(t *testing.T) {
	r := trained(t, loadText(t, t.TempDir(), syntheticConfig))
	s := newServer(t, Options{Lanes: 1})
	saved := r.serveAt(t, s, 10)
	m, err := predict.Load(env.Real(), r.cfg, "", saved)
	must(t, err)
	defer m.Close()
	want := make([]float32, 4)
	for table, rows := range []int64{3000, 40} {
		path := fmt.Sprintf("/v1/rows?table=%d", table)
		for id := range rows {
			path += fmt.Sprint("&id=", id)
		}
		if table == 0 { // too long for one request
			path = "/v1/rows?table=emb_l.0.weight&id=0&id=7&id=2999&id=12"
		}
		status, text := call(t, s, "GET", path, "")
		var answer struct {
			Step int64
			Rows []struct {
				ID      int64
				Weights []float32
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 || answer.Step != 10 {
			t.Fatalf("%d: %s (%v)", status, text, err)
		}
		for _, row := range answer.Rows {
			must(t, m.CopyRows(want, []int64{m.FirstRow(table) + row.ID}))
			for i := range want {
				if math.Float32bits(want[i]) != math.Float32bits(row.Weights[i]) {
					t.Fatalf("row %d of table %d: %v, want %v", row.ID, table, row.Weights, want)
				}
			}
		}
	}
}
