package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// base is a small valid config; tests edit it.
const base = `[job]
name = "t"
ranks = 2

[data]
format = "criteo-bin"
train = ["train.bin"]
eval = ["sub/eval.bin", "/abs/eval.bin"]

[model]
embedding_dim = 8
tables = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26]
bottom_mlp = [32, 8]
top_mlp = [16, 1]
init_from = "init.safetensors"

[train]
global_batch = 64
iterations = 20
`

func write(t *testing.T, doc string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.toml")
	if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadFillsDefaultsAndPaths(t *testing.T) {
	path := write(t, base)
	dir := filepath.Dir(path)
	c, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Job.Name, want.Job.Ranks, want.Job.Out = "t", 2, filepath.Join(dir, "runs", "t")
	want.Data.Train = []string{filepath.Join(dir, "train.bin")}
	want.Data.Eval = []string{filepath.Join(dir, "sub/eval.bin"), "/abs/eval.bin"}
	want.Model.EmbeddingDim = 8
	for i := range 26 {
		want.Model.Tables.Rows = append(want.Model.Tables.Rows, int64(i+1))
	}
	want.Model.BottomMLP, want.Model.TopMLP = []int{32, 8}, []int{16, 1}
	want.Model.InitFrom = filepath.Join(dir, "init.safetensors")
	want.Train.GlobalBatch, want.Train.Iterations = 64, 20
	want.Optimizer.Dense.Eps, want.Optimizer.Sparse.Eps, want.Optimizer.Linear.Eps = 1e-10, 1e-10, 1e-10
	if !reflect.DeepEqual(c, want) {
		t.Fatalf("got  %+v\nwant %+v", c, want)
	}
	if n := c.Data.DenseCount(); n != 13 {
		t.Errorf("dense count %d, want 13", n)
	}
}

func TestNameDefaultsToTheFile(t *testing.T) {
	c, err := Load(write(t, strings.Replace(base, `name = "t"`, "", 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Job.Name != "run" || filepath.Base(c.Job.Out) != "run" {
		t.Errorf("name %q, out %q; want both to end in run", c.Job.Name, c.Job.Out)
	}
}

func TestEpsDependsOnTheKind(t *testing.T) {
	c, err := Load(write(t, base), []string{"optimizer.dense.kind=adam", "optimizer.sparse.eps=0"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Optimizer.Dense.Eps != 1e-8 || c.Optimizer.Sparse.Eps != 0 {
		t.Errorf("eps %v and %v, want 1e-8 (adam) and 0 (given)", c.Optimizer.Dense.Eps, c.Optimizer.Sparse.Eps)
	}
}

// Every documented key parses, in every form that it has.
func TestEveryKeyParses(t *testing.T) {
	doc, err := os.ReadFile("testdata/every-key.toml")
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	if err := decodeStrict(doc, c); err != nil {
		t.Fatal(decodeError("every-key.toml", doc, err))
	}
	if c.Oracle.Lookahead.Auto != true || c.Checkpoint.Every.Time != 30*time.Minute ||
		c.Cache.MaxBytes != 4<<30 || c.Elastic.Heartbeat != Duration(1500*time.Millisecond) ||
		c.Optimizer.Dense.WarmupSteps != 100 {
		t.Errorf("values read wrongly: %+v", c)
	}
	at := lines(doc)
	for key := range known {
		if _, ok := at[key]; !ok {
			t.Errorf("testdata/every-key.toml does not show %s", key)
		}
	}
}

func TestResolvedReadsBackTheSame(t *testing.T) {
	path := write(t, base)
	sets := []string{"optimizer.dense.kind=adam", "oracle.lookahead=auto", "model.tables=criteo-kaggle", "cache.max_bytes=1500",
		`job.name="a\"b\\cé"`, `data.csv.label="a\td\u007f"`, "optimizer.dense.lr=1"}
	c, err := Load(path, sets)
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(again, c.Resolved(), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := Load(again, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, c.Resolved())
	}
	d.Model.Tables.Name = c.Model.Tables.Name // written as its rows
	if !reflect.DeepEqual(c, d) {
		t.Errorf("got  %+v\nwant %+v", d, c)
	}
	at := lines(c.Resolved())
	refused := map[string]bool{}
	for _, r := range c.refusals() {
		refused[r.key] = r.whole
	}
	for _, key := range Keys() {
		if _, ok := at[key]; ok == refused[key] {
			t.Errorf("the resolved config has %s: %v, and it is refused if set: %v", key, ok, refused[key])
		}
	}
}

func TestResolvedIsGolden(t *testing.T) {
	path := write(t, base)
	c, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/resolved.golden.toml"
	got := bytes.ReplaceAll(c.Resolved(), []byte(filepath.Dir(path)), []byte("/DIR"))
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s (%v) differs from:\n%s", golden, err, got)
	}
}

func TestSets(t *testing.T) {
	c, err := Load(write(t, base), []string{
		"train.global_batch=128", "job.name=7", "model.bottom_mlp=[16, 8]",
		`data.train=["a.bin", "b.bin"]`, "cache.max_bytes=512MiB", "optimizer.dense.lr=1", "collectives.deterministic=false", "job.device=cuda",
		"job.seed=1", "job.seed=2",
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Train.GlobalBatch != 128 || c.Job.Device != "cuda" || c.Job.Name != "7" || len(c.Data.Train) != 2 ||
		c.Cache.MaxBytes != 512<<20 || c.Optimizer.Dense.LR != 1 || c.Collectives.Deterministic || c.Job.Seed != 2 ||
		c.Model.BottomMLP[0] != 16 {
		t.Errorf("sets not applied: %+v", c)
	}
}

// Each case edits base (old to new) or sets keys; the message must name the place and the mistake.
func TestErrors(t *testing.T) {
	csv := `format = "csv"` + "\ncsv = { dense = [\"a\", \"b\"], categorical = [\"c\"] }"
	for _, e := range []struct {
		name     string
		old, new string
		sets     []string
		want     string
	}{
		{"unknown key", "global_batch", "gloabl_batch", nil, ":18: unknown key train.gloabl_batch; the nearest known key is train.global_batch"},
		{"key in the wrong table", "[train]\n", "[train]\nranks = 2\n", nil, ":18: unknown key train.ranks; the nearest known key is job.ranks"},
		{"unknown table", "[train]", "[trian]", nil, ":17: unknown key trian; the nearest known key is train"},
		{"wrong type", "global_batch = 64", `global_batch = "many"`, nil,
			`:18: train.global_batch: want an integer (the line is: global_batch = "many")`},
		{"wrong type of an element", "[16, 1]", `[16, "x"]`, nil, ":14: model.top_mlp: want a list, each element an integer"},
		{"wrong type of a union", `name = "t"`, "name = \"t\"\n[oracle]\nlookahead = 1.5\n[job]", nil, "want a number of batches or \"auto\""},
		{"table for a value", "iterations = 20", "[train.iterations]", nil, "train.iterations"},
		{"value for a table", "[train]\nglobal_batch = 64\niterations = 20", "", nil, "[train] is missing"},
		{"not TOML", "ranks = 2", "ranks = = 2", nil, ":3:9: not valid TOML"},
		{"twice", "ranks = 2", "ranks = 2\nranks = 3", nil, ":4"},
		{"0 ranks", "ranks = 2", "ranks = 0", nil, ":3: job.ranks: 0 is out of range; choose 1 to 4096"},
		{"0 ranks set", "", "", []string{"job.ranks=0"}, "--set job.ranks=0: job.ranks: 0 is out of range"},
		{"batch under ranks", "", "", []string{"job.ranks=65"}, ":18: train.global_batch: 64 samples cannot be split over 65 ranks"},
		{"0 rows", "[1, 2,", "[1, 0,", nil, ":12: model.tables: table 1 has 0 rows"},
		{"25 tables", "[1, 2,", "[1,", nil, ":12: model.tables: has 25 tables, but criteo-bin has 26"},
		{"unknown set of tables", "", "", []string{"model.tables=kaggle"}, `no table set is called "kaggle"`},
		{"bottom does not chain", "[32, 8]", "[32, 16]", nil, ":13: model.bottom_mlp: ends in 16, but dlrm multiplies it with embeddings of 8"},
		{"top does not end in 1", "[16, 1]", "[16, 2]", nil, ":14: model.top_mlp: ends in 2"},
		{"no layers", "[16, 1]", "[]", nil, ":14: model.top_mlp: has 0 layers"},
		{"width 0", "[32, 8]", "[0, 8]", nil, ":13: model.bottom_mlp: layer 0 has width 0"},
		{"no length", "iterations = 20", "", nil, ":17: train: neither iterations nor epochs"},
		{"two lengths set", "", "", []string{"train.iterations=3", "train.epochs=2"},
			"--set train.epochs=2: train.epochs: iterations = 3 already sets"},
		{"two lengths", "iterations = 20", "iterations = 20\nepochs = 1", nil, ":20: train.epochs: iterations = 20 already sets"},
		{"negative length", "iterations = 20", "iterations = -20", nil, ":19: train.iterations: -20 is out of range"},
		{"lr 0", "", "", []string{"optimizer.dense.lr=0"}, "optimizer.dense.lr: 0 is not a positive number"},
		{"lr nan", "", "", []string{"optimizer.sparse.lr=nan"}, "optimizer.sparse.lr: NaN is not a positive number"},
		{"three betas", "", "", []string{"optimizer.sparse.betas=[0.1, 0.2, 0.3]"}, "want a list of two numbers"},
		{"rowwise dense", "", "", []string{"optimizer.dense.kind=rowwise_adagrad"}, "is for [optimizer.sparse] only"},
		{"decay without length", "", "", []string{"optimizer.dense.decay_start=5"}, "is not set; set both"},
		{"no such word", "", "", []string{"data.shuffle=full"}, `data.shuffle: "full" is not one of none, block`},
		{"no training file", `train = ["train.bin"]`, "", nil, "data.train: names no file"},
		{"csv without columns", `format = "criteo-bin"`, `format = "csv"`, nil, "data.csv.categorical: names no column"},
		{"csv tables", `format = "criteo-bin"`, csv, nil, ":13: model.tables: has 26 tables for 1 columns"},
		{"csv column twice", `format = "criteo-bin"`, strings.Replace(csv, `"c"`, `"a"`, 1), nil,
			`:7: data.csv.categorical: column "a" is already named in data.csv.dense`},
		{"synthetic with files", "", "", []string{"data.format=synthetic"}, "data.train: synthetic data reads no files"},
		{"record tables", "", "", []string{"data.format=record", `data.csv.categorical=["c"]`}, "has 26 tables for 1 columns"},
		{"bad size", "", "", []string{"cache.max_bytes=many"}, `--set cache.max_bytes=many: cache.max_bytes: "many" is not a size`},
		{"csv without its format", `format = "criteo-bin"`, `csv = { dense = ["a"], categorical = ["c"] }`, nil,
			`:5: data.format: is missing; [data.csv] is there: did you mean format = "csv"?`},
		{"csv without dense", `format = "criteo-bin"`, strings.Replace(csv, `"a", "b"`, "", 1), []string{"model.tables=[9]"},
			`model.bottom_mlp: has 2 layers over numbers, but the data has no column of numbers; name some in data.csv.dense, or set it to []`},
		{"a bucket", "", "", []string{`data.train=["s3://b/x.csv"]`}, `data.train: "s3://b/x.csv": s3:// is not read or written here`},
		{"a bucket for checkpoints", "", "", []string{"checkpoint.dir=gs://b"}, `checkpoint.dir: "gs://b": gs:// is not read`},
		{"name of control characters", `name = "t"`, `name = "a\u001b[2Jb"`, nil,
			`:2: job.name: "a\x1b[2Jb" is not a printable name; use up to 200 printable bytes`},
		{"short heartbeat", "", "", []string{"elastic.heartbeat=1ms"},
			"elastic.heartbeat: 1ms is too short: a busy machine is late by more; choose 10ms or longer"},
		{"eps nan", "iterations = 20", "iterations = 20\n[optimizer.dense]\neps = nan", nil,
			":21: optimizer.dense.eps: NaN is not zero or a positive number"},
		{"dense rows and a code", "", "", []string{"optimizer.sparse.kind=adam", "optimizer.sparse.dense=true", "ec.code=xor", "job.ranks=5"}, "ec.code: optimizer.sparse.dense changes every row"},
		{"dense rows and a cache", "", "", []string{"optimizer.sparse.kind=adam", "optimizer.sparse.dense=true", "cache.mode=lrpp"}, `use "auto", or leave dense out`},
		{"dense rows of another rule", "", "", []string{"optimizer.sparse.dense=true"}, "rowwise_adagrad does not move rows without a gradient; use one of adam, adamw"},
		{"dense dense parameters", "", "", []string{"optimizer.dense.dense=true"}, "is for rows"},
		{"dense rows without eps", "", "", []string{"optimizer.sparse.kind=adam", "optimizer.sparse.dense=true", "optimizer.sparse.eps=0"}, "divides 0 by 0"},
		{"no weight of positives", "", "", []string{"train.positive_weight=0"}, "train.positive_weight: 0 is not a positive number"},
		{"both limits", "", "", []string{"train.clip_norm=1", "train.clip_dense=1"}, "set one of the two"},
		{"clipping and a cache", "", "", []string{"train.clip_norm=1", "cache.mode=lrpp"}, `use "auto", or train.clip_dense`},
		{"a negative limit", "", "", []string{"train.clip_norm=-1"}, "train.clip_norm: -1 is not zero or a positive number"},
		{"a negative decay", "", "", []string{"optimizer.dense.weight_decay=-1"}, "optimizer.dense.weight_decay: -1 is not zero"},
		{"eps nan set", "", "", []string{"optimizer.sparse.eps=nan"}, "optimizer.sparse.eps: NaN is not zero or a positive number"},
		{"a table set", "", "", []string{"ranks=4"}, "--set ranks=4: ranks: is a table; the nearest key is job.ranks"},
		{"a misspelt table set", "", "", []string{"rank=4"}, "unknown key rank; the nearest known key is job.ranks"},
		{"order of sums on the CPU", "", "", []string{"job.device=cpu", "collectives.deterministic=false"},
			"collectives.deterministic: false leaves the order of sums to NCCL, and this run is on the CPU"},
		{"OpenBLAS on a GPU", "", "", []string{"job.device=cuda", "kernels.blas=openblas"},
			`kernels.blas: "openblas" is for CPUs, and job.device is "cuda"`},
		{"bad duration", "", "", []string{"elastic.heartbeat=200"}, "want a duration"},
		{"set without value", "", "", []string{"job.ranks"}, "want key=value"},
		{"set of an unknown key", "", "", []string{"job.rank=2"}, "the nearest known key is job.ranks"},
		{"set of a wrong type", "", "", []string{"job.ranks=two"}, "--set job.ranks=two: job.ranks: want an integer"},
		{"set with a line end", "", "", []string{"job.ranks=2\njob.seed=3"}, "job.ranks: want an integer"},
	} {
		t.Run(e.name, func(t *testing.T) {
			doc := strings.Replace(base, e.old, e.new, 1)
			if e.old != "" && doc == base {
				t.Fatal("the case edits nothing")
			}
			_, err := Load(write(t, doc), e.sets)
			expect(t, err, e.want)
		})
	}
}

// TestLengthSet: a --set of one of the two keys for the length of a run replaces the file's other one.
func TestLengthSet(t *testing.T) {
	for set, want := range map[string][2]int{"train.iterations=3": {3, 0}, "train.epochs=2": {0, 2}, "train.epochs=0": {20, 0}} {
		c, err := Load(write(t, base), []string{set})
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]int{c.Train.Iterations, c.Train.Epochs}; got != want {
			t.Errorf("--set %s: iterations and epochs %v, want %v", set, got, want)
		}
	}
}

// TestManyUnknownKeys: the first is named at once. 20,000 took more than 10 s.
func TestManyUnknownKeys(t *testing.T) {
	var doc strings.Builder
	doc.WriteString(base)
	for i := range 20000 {
		fmt.Fprintf(&doc, "key%d = 1\n", i)
	}
	doc.WriteString(strings.Repeat("k", 200<<10) + " = 1\n")
	within(t, func() {
		_, err := Load(write(t, doc.String()), nil)
		expect(t, err, ":20: unknown key train.key0; the nearest known key is")
	})
	_, err := Load(write(t, base+strings.Repeat("k", 200<<10)+" = 1\n"), nil)
	expect(t, err, "kkk...; the nearest known key is ")
	if len(err.Error()) > 400 {
		t.Errorf("a message of %d bytes", len(err.Error()))
	}
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("no error; want one with %q", want)
	case !errors.Is(err, ErrInvalid):
		t.Errorf("%v is not ErrInvalid", err)
	case !strings.Contains(err.Error(), want):
		t.Errorf("got  %v\nwant %s", err, want)
	case strings.Contains(strings.TrimSpace(err.Error()), "\n") && !strings.Contains(want, "integer"):
		t.Errorf("more than one line: %q", err)
	}
}

func TestErrorf(t *testing.T) {
	err := Errorf("data: %w", os.ErrNotExist)
	expect(t, err, "data: file does not exist")
	if !errors.Is(err, os.ErrNotExist) {
		t.Error("the cause is lost")
	}
}

// TestTopics: the name of a topic is checked when the config is read.
func TestTopics(t *testing.T) {
	for to, want := range map[string]string{
		"file:x": "", "kafka://a:1,b:2/t?tls=true": "", "file:": "is not file:DIR", "file://x": "is not file:DIR", "x": "is neither",
		"kafka://a:1": "names no topic", "kafka://a:1/": "names no topic", "kafka://a:1/b/c": "names no topic", "kafka://a/t": "is not HOST:PORT",
		"kafka://me:secret@a:1/t": "ECREC_KAFKA_PASSWORD",
	} {
		_, err := Load(write(t, base), []string{"stream.to=" + to})
		switch {
		case want != "":
			expect(t, err, want)
		case err != nil:
			t.Errorf("%s: %v", to, err)
		}
	}
	_, err := Load(write(t, base), []string{"stream.backlog=0"})
	expect(t, err, "stream.backlog")
}

func TestRefusedValues(t *testing.T) {
	for set, want := range map[string]string{ // refused values are not offered
		"data.format=x": "synthetic, csv, avazu-csv, criteo-tsv, parquet, criteo-bin, criteo-numpy, record", "model.kind=x": "dlrm", "store.tier=x": "dram, file",
		"checkpoint.kind=x": "full, incremental",
	} {
		_, err := Load(write(t, base), []string{set})
		expect(t, err, `"x" is not one of `+want)
	}
}

func TestMetrics(t *testing.T) {
	for set, want := range map[string]string{
		"metrics.listen=9100":       `"9100" is not HOST:PORT or :PORT; use ":9100"`,
		"metrics.listen=:http":      "is not HOST:PORT or :PORT",
		"metrics.listen=:65536":     "is not HOST:PORT or :PORT",
		"metrics.textfile=run.text": "does not end in .prom, and node_exporter reads no other files",
	} {
		_, err := Load(write(t, base), []string{set})
		expect(t, err, want)
	}
	path := write(t, base)
	cfg, err := Load(path, []string{"metrics.listen=[::1]:0", "metrics.textfile=a/run.prom"})
	if err != nil || cfg.Metrics.Textfile != filepath.Join(filepath.Dir(path), "a/run.prom") {
		t.Errorf("%v: the textfile is %q", err, cfg.Metrics.Textfile)
	}
}

func TestFileProblems(t *testing.T) {
	dir := t.TempDir()
	_, err := Load(filepath.Join(dir, "none.toml"), nil)
	expect(t, err, "none.toml: no such config file")
	_, err = Load(dir, nil)
	expect(t, err, "is a folder")
}

func TestSizes(t *testing.T) {
	for _, e := range []struct {
		in   string
		want Size
	}{{"0", 0}, {"1", 1}, {"512MiB", 512 << 20}, {"1.5GiB", 3 << 29}, {"4GB", 4e9}, {" 7 KB ", 7000}, {"9B", 9}, {"3TiB", 3 << 40}} {
		got, err := ParseSize(e.in)
		if err != nil || got != e.want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", e.in, got, err, e.want)
		}
		if back, err := ParseSize(got.String()); back != got || err != nil {
			t.Errorf("%q is written as %q, which reads as %d, %v", e.in, got, back, err)
		}
	}
	for _, in := range []string{"", "MiB", "-1", "1e9", "0x10", "1 2", "1.2.3", "1PiB", "9999999TiB", "99999999999999999999", "inf", "NaN"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d; want an error", in, got)
		}
	}
}
