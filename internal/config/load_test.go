package config

import (
	"bytes"
	"errors"
	"math"
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
	want.Optimizer.Dense.Eps, want.Optimizer.Sparse.Eps = 1e-10, 1e-10
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
	sets := []string{"optimizer.dense.kind=adam", "oracle.lookahead=auto", "model.tables=criteo-kaggle", "cache.max_bytes=1500"}
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
	if at := lines(c.Resolved()); len(at) != len(known) {
		t.Errorf("the resolved config shows %d keys of %d", len(at), len(known))
	}
}

func TestResolvedIsGolden(t *testing.T) {
	path := write(t, base)
	c, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := bytes.ReplaceAll(c.Resolved(), []byte(filepath.Dir(path)), []byte("/DIR"))
	const golden = "testdata/resolved.golden.toml"
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s (%v) differs from:\n%s", golden, err, got)
	}
}

func TestSets(t *testing.T) {
	c, err := Load(write(t, base), []string{
		"train.global_batch=128", "job.device=cpu", "job.name=7", "model.bottom_mlp=[16, 8]",
		`data.train=["a.bin", "b.bin"]`, "cache.max_bytes=512MiB", "optimizer.dense.lr=1", "collectives.deterministic=false",
		"job.seed=1", "job.seed=2",
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Train.GlobalBatch != 128 || c.Job.Device != "cpu" || c.Job.Name != "7" || len(c.Data.Train) != 2 ||
		c.Cache.MaxBytes != 512<<20 || c.Optimizer.Dense.LR != 1 || c.Collectives.Deterministic || c.Job.Seed != 2 ||
		c.Model.BottomMLP[0] != 16 {
		t.Errorf("sets not applied: %+v", c)
	}
}

// Each case edits base (old to new) or sets keys; the message must say where and what.
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
		{"wrong type", "global_batch = 64", `global_batch = "many"`, nil, `:18: train.global_batch: want an integer (the line is: global_batch = "many")`},
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
		{"two lengths", "iterations = 20", "iterations = 20\nepochs = 1", nil, ":20: train.epochs: iterations = 20 already says"},
		{"negative length", "iterations = 20", "iterations = -20", nil, ":19: train.iterations: -20 is out of range"},
		{"lr 0", "", "", []string{"optimizer.dense.lr=0"}, "optimizer.dense.lr: 0 is not a positive number"},
		{"lr nan", "", "", []string{"optimizer.sparse.lr=nan"}, "optimizer.sparse.lr: NaN is not a positive number"},
		{"three betas", "", "", []string{"optimizer.sparse.betas=[0.1, 0.2, 0.3]"}, "want a list of two numbers"},
		{"rowwise dense", "", "", []string{"optimizer.dense.kind=rowwise_adagrad"}, "is for [optimizer.sparse] only"},
		{"decay without length", "", "", []string{"optimizer.dense.decay_start=5"}, "decay_steps does not say how long"},
		{"no such word", "", "", []string{"data.shuffle=full"}, `data.shuffle: "full" is not one of none, block`},
		{"no training file", `train = ["train.bin"]`, "", nil, "data.train: names no file"},
		{"csv without columns", `format = "criteo-bin"`, `format = "csv"`, nil, "data.csv.dense: names no column"},
		{"csv tables", `format = "criteo-bin"`, csv, nil, ":13: model.tables: has 26 tables for 1 columns"},
		{"csv column twice", `format = "criteo-bin"`, strings.Replace(csv, `"c"`, `"a"`, 1), nil, `:7: data.csv.categorical: column "a" is already named in data.csv.dense`},
		{"synthetic with files", "", "", []string{"data.format=synthetic"}, "data.train: synthetic data reads no files"},
		{"record tables", "", "", []string{"data.format=record", `data.csv.categorical=["c"]`}, "has 26 tables for 1 columns"},
		{"bad size", "", "", []string{"cache.max_bytes=many"}, `--set cache.max_bytes=many: cache.max_bytes: "many" is not a size`},
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

func TestNotInThisVersion(t *testing.T) {
	for _, set := range []string{
		"data.format=avazu-csv", "model.kind=dcn",
		"store.tier=tiered", "store.dram_bytes=1GiB",
		"checkpoint.kind=incremental", "stream.to=file:x", "metrics.listen=:9090",
	} {
		_, err := Load(write(t, base), []string{set})
		expect(t, err, "is not in this version; ")
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

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"512MiB", "1.5GiB", "0", "7 KB", "9223372036854775807", ".", "8388608TiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := ParseSize(in)
		if err != nil {
			return
		}
		if got < 0 {
			t.Fatalf("%q is %d", in, got)
		}
		if back, err := ParseSize(got.String()); err != nil || back != got {
			t.Fatalf("%q is %d, written %q, read back %d, %v", in, got, got, back, err)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"1.5s", "200ms", "-1s", "1h2m", "", "9e9h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		d, err := ParseDuration(in)
		if err != nil {
			return
		}
		if back, err := ParseDuration(d.String()); err != nil || back != d || d < 0 {
			t.Fatalf("%q is %v, read back %v, %v", in, d, back, err)
		}
	})
}

// Any file gives a Config that passes its own checks, or ErrInvalid; never a panic.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(base), "job.ranks=2")
	f.Add([]byte("a = 1\na.b = 2"), "x")
	f.Add([]byte("[data]\n[model]\n[train]\n"), "model.tables=[1]")
	f.Fuzz(func(t *testing.T, doc []byte, set string) {
		c := Default()
		if err := decodeStrict(doc, c); err != nil {
			if err := decodeError("f", doc, err); !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		src := &source{file: "f", set: map[string]string{}, line: lines(doc)}
		_ = apply(c, src, set)
		if err := c.resolve("/f.toml"); err != nil {
			t.Fatal(err)
		}
		for _, check := range []func(*source) error{c.checkNames, c.checkSupported, c.checkValues} {
			if check(src) != nil {
				return
			}
		}
		if c.Job.Ranks < 1 || math.IsNaN(c.Optimizer.Dense.Eps) || len(c.Model.TableRows()) == 0 {
			t.Fatalf("passed the checks: %+v", c)
		}
		c.Resolved()
	})
}
