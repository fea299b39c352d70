package main

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
)

var python = flag.String("python", "", "the Python with the packages of tools/python: make test-python")

// check runs tools/python/check.py.
func check(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(*python, append([]string{"../../tools/python/check.py"}, args...)...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// TestPython trains models, and compares their scores of raw rows with those of score.py, PyTorch and ONNX Runtime.
func TestPython(t *testing.T) {
	if *python == "" {
		t.Skip("run by make test-python")
	}
	t.Run("hashes", func(t *testing.T) {
		pattern, lines := make([]byte, 1<<13), []byte(nil)
		for i := range pattern {
			pattern[i] = byte(i*i*31 + i*7 + i>>3)
		}
		for n := 0; n < len(pattern); n += 1 + n/600 {
			lines = fmt.Appendf(lines, "%d %x\n", n, xxh3.Hash(pattern[:n]))
		}
		file := filepath.Join(t.TempDir(), "hashes")
		if err := os.WriteFile(file, lines, 0o666); err != nil {
			t.Fatal(err)
		}
		check(t, "hashes", file)
	})
	var models []string
	for _, c := range []struct {
		name string
		sets []string
	}{
		{"dlrm", nil},
		{"dlrm with rows beside the ONNX file", []string{"model.tables=[100, 200, 100, 200, 100, 100, 50, 8400000]"}},
		{"dlrm with vocabularies and transforms", []string{`model.tables="auto"`, "data.min_count=2", `data.csv.na=["Private", "38"]`,
			`data.transform={age="standard", education_num="none", hours_per_week="standard", capital_gain="log1p"}`}},
		{"dlrm with features of one column", []string{`model.tables="auto"`, `data.csv.dense=["age", "years", "hours_per_week"]`,
			`data.csv.categorical=["workclass", "decade", "occupation", "half"]`,
			`data.transform={age="standard", years="none of age", decade="log2-bucket of age", half="log2-bucket of hours_per_week"}`}},
		{"dlrm with batch norm", []string{"model.batch_norm=true", "model.dropout=0.1"}},
		{"dlrm with sums", []string{"model.interaction=sum"}},
		{"dlrm side by side", []string{"model.interaction=cat", "model.bottom_mlp=[32, 12]"}},
		{"wdl", []string{"model.kind=wdl", "model.bottom_mlp=[32, 16]", "model.top_mlp=[1]"}},
		{"wdl with a linear part", []string{"model.kind=wdl", "model.linear=true", "model.bottom_mlp=[]", "model.top_mlp=[32, 16, 1]", "model.batch_norm=true"}},
		{"dcn", []string{"model.kind=dcn", "model.cross_layers=2", "model.cross_rank=4"}},
		{"dcn with vectors", []string{"model.kind=dcn", "model.cross=vector", "model.cross_layers=3", "model.bottom_mlp=[]"}},
		{"dcn in parallel", []string{"model.kind=dcn", "model.cross=full", "model.cross_layers=2", "model.structure=parallel", "model.top_mlp=[32, 16, 1]",
			"model.batch_norm=true"}},
		{"dlrm without numbers", []string{"data.csv.dense=[]", "model.bottom_mlp=[]", "model.batch_norm=true", "model.dropout=0.1"}},
		{"dlrm with sums of bags without numbers", append(slices.Clone(bags), "data.csv.dense=[]", "model.bottom_mlp=[]", "model.interaction=sum", "model.pooling=mean")},
		{"dlrm side by side without numbers", []string{"data.csv.dense=[]", "model.bottom_mlp=[]", "model.interaction=cat"}},
		{"wdl without numbers", []string{"model.kind=wdl", "data.csv.dense=[]", "model.bottom_mlp=[]", "model.linear=true", "model.top_mlp=[32, 16, 1]"}},
		{"dcn without numbers", []string{"model.kind=dcn", "data.csv.dense=[]", "model.bottom_mlp=[]", "model.cross=full", "model.structure=parallel",
			"model.top_mlp=[32, 1]", "model.batch_norm=true", "model.dropout=0.1"}},
		{"dlrm with bags", append(slices.Clone(bags), "data.csv.weighted=true", `model.pooling=["sum","sum","sum","sum","sum","sum","sum","sum","mean","sum"]`)},
		{"deepfm with means of bags", append(slices.Clone(bags), "model.kind=deepfm", "model.top_mlp=[32, 16, 1]", "model.pooling=mean")},
		{"dlrm with counted bags", append(slices.Clone(bags), `model.tables="auto"`, "data.min_count=3", "data.csv.weighted=true", "model.pooling=mean")},
		{"wdl with bags alone", []string{"model.kind=wdl", "model.linear=true", "model.bottom_mlp=[]", "model.top_mlp=[16, 1]", "data.csv.dense=[]", "data.csv.separator=|",
			"data.csv.weighted=true", `data.csv.categorical=["tags", "more"]`, "model.tables=[90, 60]", `data.csv.na=["Private"]`}},
		{"dcn with a shared table", []string{"model.kind=dcn", "model.cross_layers=2", "model.cross_rank=4", "model.tables=[100, 200, 100, 200, 100, 100, 50]",
			`model.table_of=["a","b","c","d","e","f","g","a"]`}},
		{"deepfm", []string{"model.kind=deepfm", "model.top_mlp=[32, 16, 1]", "model.dropout=0.1"}},
		{"deepfm with vectors of numbers", []string{"model.kind=deepfm", "model.dense_embedding=true", "model.batch_norm=false"}},
	} {
		dir := t.TempDir()
		if t.Run(c.name, func(t *testing.T) { models = append(models, makeModel(t, dir, c.sets)...) }); t.Failed() {
			return
		}
	}
	check(t, append([]string{"models"}, models...)...)
}

// bags are settings for two columns with several ids, which share a table with a column of one.
var bags = []string{"data.csv.separator=|", `data.csv.bags=["tags", "more"]`,
	`data.csv.categorical=["workclass","education","marital_status","occupation","relationship","race","sex","native_country","tags","more"]`,
	"model.tables=[100, 200, 100, 200, 100, 100, 50, 500]", `model.table_of=["a","b","c","d","e","f","g","h","d","b"]`}

// addBags adds columns with several ids to rows: tags and more. Some are empty, and some ids have weights.
func addBags(rows [][]string) {
	for i, row := range rows {
		tags, more := "tags", "more"
		if i > 0 {
			var ids []string
			for k := range i % 6 {
				if ids = append(ids, row[(2+5*k+i/6)%len(row)]); k%2 == i/7%2 {
					ids[k] += fmt.Sprintf(":%v", float64(i%9)/4-0.5)
				}
			}
			tags, more = strings.Join(ids, "|"), strings.Repeat(row[7]+"|", i%4)+row[8]
		}
		rows[i] = append(row, tags, more)
	}
}

// makeModel trains the quickstart with changes, writes all that check.py compares, and returns its arguments.
func makeModel(t *testing.T, dir string, sets []string) []string {
	at := func(name string) string { return filepath.Join(dir, name) }
	writeRows(t, at("rows.csv"), "../../examples/adult/eval.csv", 2000, 700)
	call := func(args ...string) string {
		t.Helper()
		x := run(t, ecrec(t), nil, args...)
		if x.code != 0 {
			t.Fatalf("%v: exit code %d\n%s", args, x.code, x.stderr)
		}
		return x.stdout
	}
	text, err := os.ReadFile("../../examples/quickstart.toml")
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(sets, "model.kind=deepfm") {
		text = regexp.MustCompile(`(?m)^bottom_mlp.*$`).ReplaceAll(text, nil) // it has none
	}
	train := at("train.csv")
	writeRows(t, train, "../../examples/adult/train.csv", 8000, 0)
	if err := os.WriteFile(at("run.toml"), text, 0o666); err != nil {
		t.Fatal(err)
	}
	flags := []string{at("run.toml")}
	for _, set := range append([]string{"job.ranks=2", "ec.code=none", "train.epochs=1", "job.out=" + at("run"),
		fmt.Sprintf("data.train=[%q]", train), fmt.Sprintf("data.eval=[%q]", at("rows.csv"))}, sets...) {
		flags = append(flags, "--set", set)
	}
	call(append([]string{"train"}, flags...)...)
	call("export", at("run"), "--to", at("model.safetensors"))
	call("export", at("model.safetensors"), "--to", at("model.onnx"))
	call("export", at("run"), "--to", "triton:"+at("repository/ctr"))
	figures := strings.Fields(call(append([]string{"eval", "--model", at("model.safetensors")}, flags...)...))
	call("predict", at("run"), "--data", at("rows.csv"), "--to", at("scores.csv"))
	check(t, "parquet", at("rows.csv"), at("rows.parquet"))
	call("predict", at("run"), "--data", at("rows.csv"), "--to", at("scores.parquet"), "--keep", "age,workclass")
	call("predict", at("run"), "--data", at("rows.parquet"), "--to", at("typed.parquet"), "--keep", "age,workclass")
	call("predict", at("run"), "--data", at("rows.parquet"), "--to", at("text.csv"), "--keep", "age,workclass")
	return []string{dir, figures[1], figures[3]}
}

// writeRows writes some rows of the census data in a file, then rows with odd texts of all lengths. addBags adds to all.
func writeRows(t *testing.T, path, from string, few, odds int) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows = rows[:min(few, len(rows))]
	r, letters := rand.New(rand.NewPCG(1, 2)), []rune("ab,;\"' \näß€𝄞|1")
	for n := range odds {
		odd := append([]string(nil), rows[1+n]...)
		for i, field := range odd {
			if _, err := strconv.Atoi(field); err == nil {
				continue
			}
			text := make([]rune, n/2)
			for k := range text {
				text[k] = letters[r.IntN(len(letters))]
			}
			odd[i] = string(text)
		}
		rows = append(rows, odd)
	}
	addBags(rows)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := csv.NewWriter(f).WriteAll(rows); err != nil {
		t.Fatal(err)
	}
}
