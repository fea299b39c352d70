package serve

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/predict"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/train"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// silent observes nothing.
type silent struct{ train.Observer }

func (silent) Started(train.Info) error          { return nil }
func (silent) Step(train.StepInfo)               {}
func (silent) Evaluated(train.Eval)              {}
func (silent) Checkpointed(int64, string, error) {}
func (silent) Committed(int64, string)           {}
func (silent) Warned(string)                     {}
func (silent) SkippedCheckpoint(string, error)   {}

// run is a run that was trained, with its topic.
type run struct {
	cfg    *config.Config
	recipe *data.Recipe
	topic  stream.Topic
}

// trained trains a run of some steps. It sends its commits to a topic.
func trained(t *testing.T, cfg *config.Config) *run {
	t.Helper()
	return trainedTo(t, cfg, stream.NewMemory(env.Real()))
}

func trainedTo(t *testing.T, cfg *config.Config, topic stream.Topic) *run {
	t.Helper()
	r := &run{cfg: cfg, topic: topic}
	o := cfg.DataOptions(false)
	o.Env, o.RecordDir = env.Real(), t.TempDir()
	var err error
	if cfg.Model.Tables.IsCounted() || len(o.CSV.Transform) > 0 {
		if r.recipe, err = data.Fit(o); err == nil {
			cfg = cfg.Resolve(r.recipe)
		}
	} else {
		r.recipe, err = data.NewRecipe(o)
	}
	must(t, err)
	r.cfg = cfg
	_, err = train.Run(env.Real(), cfg, train.Options{Stop: func() bool { return false }, Observer: silent{}, Recipe: r.recipe,
		Progress: func(data.Progress) error { return nil }, Topic: func(env.Env, string) (stream.Topic, error) { return r.topic, nil }})
	must(t, err)
	return r
}

// loadText loads a config.
func loadText(t *testing.T, dir, text string, sets ...string) *config.Config {
	t.Helper()
	path := filepath.Join(dir, "run.toml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return load(t, path, sets...)
}

func load(t *testing.T, path string, sets ...string) *config.Config {
	t.Helper()
	cfg, err := config.Load(path, append([]string{"job.ranks=2", "ec.code=none", "stream.to=file:unused", "ec.commit_every=5", "job.out=" + t.TempDir()}, sets...))
	must(t, err)
	return cfg
}

// newServer returns a server on a free port, until the end of the test.
func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	o.Addr = "127.0.0.1:0"
	s, err := New(o)
	must(t, err)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// serveAt follows a run up to a step with a server. It returns the checkpoint of the step too.
func (r *run) serveAt(t *testing.T, s *Server, at int64) (checkpoint string) {
	t.Helper()
	dir := t.TempDir()
	f := r.follow(t, s, dir, at)
	must(t, f.Run())
	return filepath.Join(dir, fmt.Sprintf("step-%012d", at))
}

// follow opens a follower that publishes to a server.
func (r *run) follow(t *testing.T, s *Server, dir string, at int64) *follow.Follower {
	t.Helper()
	began := time.Now()
	f, err := follow.Open(follow.Options{Env: env.Real(), Topic: r.topic, Dir: dir, At: at, Keep: 2, Stop: func() bool { return time.Since(began) > time.Minute },
		Publish: s.Publish, Report: s.Applied})
	must(t, err)
	t.Cleanup(f.Close)
	return f
}

// followEnv is the environment of followers.
var followEnv = env.Real()

// damage changes a bit of a row of the epoch up to a step, in a frame whose sum is right.
func (r *run) damage(t *testing.T, step uint64) {
	t.Helper()
	changed := 0
	r.topic.(*stream.Memory).Change(1, func(list []stream.Record) []stream.Record {
		for _, x := range list {
			if b := x.Bytes; b[6] == 1 && binary.LittleEndian.Uint64(b[56:]) == step {
				b[len(b)-1] ^= 4
				binary.LittleEndian.PutUint64(b[72:], xxh3.HashSeed(b[80:], xxh3.Hash(b[:72])))
				changed++
			}
		}
		return list
	})
	if changed != 1 {
		t.Fatalf("%d frames changed", changed)
	}
}

// predicted returns the scores that package predict writes for files and a checkpoint, the first n of them.
func (r *run) predicted(t *testing.T, checkpoint string, n int, files ...string) []string {
	t.Helper()
	m, err := predict.Load(env.Real(), r.cfg, "", checkpoint)
	must(t, err)
	defer m.Close()
	var out bytes.Buffer
	enough := errors.New("enough")
	o := predict.Options{Env: env.Real(), Data: r.cfg.DataOptions(true), Recipe: r.recipe, Threads: 1, Stop: func() error {
		if bytes.Count(out.Bytes(), []byte("\n")) > n {
			return enough
		}
		return nil
	}}
	o.Data.Env, o.Data.Files, o.Data.Recipe = o.Env, files, r.recipe
	if _, err := m.Run(o, &out); err != nil && !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")[1:][:n]
}

// call sends a request, and returns the status and the answer.
func call(t *testing.T, s *Server, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+s.Addr()+path, strings.NewReader(body))
	must(t, err)
	a, err := http.DefaultClient.Do(r)
	must(t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	must(t, err)
	return a.StatusCode, strings.TrimSpace(string(text))
}

// prediction is the answer to a request for predictions.
type prediction struct {
	Step    int64
	Digest  string
	Lineage string
	Scores  []json.Number
}

// scores sends rows in requests of several sizes, and returns the scores.
func scores(t *testing.T, s *Server, rows []string) (all []string) {
	t.Helper()
	for size := 1; len(rows) > 0; size = size*3 + 1 {
		n := min(size, len(rows))
		status, text := call(t, s, "POST", "/v1/predict", `{"rows":[`+strings.Join(rows[:n], ",")+"]}")
		var p prediction
		if err := json.Unmarshal([]byte(text), &p); status != 200 || err != nil || len(p.Scores) != n || p.Digest != s.model.current.Load().Digest {
			t.Fatalf("%d: %s (%v)", status, text, err)
		}
		for _, x := range p.Scores {
			all = append(all, x.String())
		}
		rows = rows[n:]
	}
	return all
}

// sameScores compares scores. They have one form in the answers of the server and in the files of ecrec predict.
func sameScores(t *testing.T, have, want []string) {
	t.Helper()
	if len(have) != len(want) {
		t.Fatalf("%d scores, want %d", len(have), len(want))
	}
	for i := range have {
		if have[i] != want[i] {
			t.Fatalf("row %d: the score is %s, ecrec predict has %s", i+1, have[i], want[i])
		}
	}
	if distinct := len(slices.Compact(slices.Sorted(slices.Values(have)))); distinct < len(have)/3 {
		t.Errorf("%d distinct scores of %d rows", distinct, len(have))
	}
}

// rowsOf makes JSON of the rows of a CSV file, of different forms of the same values.
func rowsOf(t *testing.T, file string, bags ...string) (rows []string) {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	must(t, err)
	for i, line := range lines[1:] {
		var fields []string
		for k, text := range line {
			value, err := json.Marshal(text)
			must(t, err)
			switch {
			case slices.Contains(bags, lines[0][k]) && i%3 == 0 && text != "none":
				list := strings.Split(text, "|")
				if text == "" {
					list = []string{}
				}
				value, err = json.Marshal(list)
				must(t, err)
			case text == "" && i%2 == 0:
				value = []byte("null")
			case i%3 == 1 && json.Valid([]byte(text)):
				value = []byte(text) // a number
			case i%5 == 4 && text != "": // its first byte as an escape
				value = fmt.Appendf(nil, `"\u%04x%s`, []rune(text)[0], strings.TrimPrefix(string(value), `"`+string([]rune(text)[0])))
			}
			fields = append(fields, fmt.Sprintf("%q: %s", lines[0][k], value))
		}
		if i%4 == 3 {
			slices.Reverse(fields)
			fields = append(fields, `"other": {"a": [1, {"b": []}, "]}"]}`)
		}
		rows = append(rows, "{"+strings.Join(fields, ", ")+"}")
	}
	return rows
}

// TestAdult serves the model of the quickstart: scores are those of ecrec predict with a checkpoint of the step.
func TestAdult(t *testing.T) {
	r := trained(t, load(t, "../examples/quickstart.toml", "train.epochs=0", "train.iterations=40", "optimizer.dense.decay_steps=0", "optimizer.dense.decay_start=0",
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
func directRows(t *testing.T, src data.Source, n int) (rows []string) {
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
