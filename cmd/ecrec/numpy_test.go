package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/data/numpytest"
)

// laptopTables are the tables of MLPerf's DLRM-DCNv2, of at most 40 rows.
func laptopTables(t *testing.T) []int64 {
	t.Helper()
	tables, err := data.Tables("criteo-terabyte-40m")
	if err != nil {
		t.Fatal(err)
	}
	for i := range tables {
		tables[i] = min(tables[i], 40)
	}
	return tables
}

// drawDay draws samples of MLPerf's numbers of ids.
func drawDay(t *testing.T, r *rand.Rand, samples int, tables []int64) *numpytest.Day {
	t.Helper()
	hots, err := data.HotSet("mlperf")
	if err != nil {
		t.Fatal(err)
	}
	d := &numpytest.Day{IDs: make([][][]int64, len(hots))}
	for range samples {
		numbers, sum := make([]float32, 13), float32(0)
		for j := range numbers {
			numbers[j] = r.Float32()*2 - 1
			sum += numbers[j]
		}
		label := 0.0
		if sum+r.Float32()-0.5 > 0 {
			label = 1
		}
		d.Numbers, d.Labels = append(d.Numbers, numbers), append(d.Labels, label)
		for f, hot := range hots {
			ids := make([]int64, hot)
			for p := range ids {
				ids[p] = r.Int64N(3 * tables[f]) // beyond the rows of the table
			}
			d.IDs[f] = append(d.IDs[f], ids)
		}
	}
	return d
}

// writeLists writes samples as a Parquet file of lists of texts, whose hashes have the rows of the ids.
func writeLists(t *testing.T, path string, d *numpytest.Day, tables []int64) {
	t.Helper()
	fields := []reflect.StructField{{Name: "Label", Type: reflect.TypeFor[int32](), Tag: `parquet:"label"`}}
	for j := range d.Numbers[0] {
		tag := reflect.StructTag(fmt.Sprintf(`parquet:"i%d"`, j))
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("I", j), Type: reflect.TypeFor[float32](), Tag: tag})
	}
	texts := make([][]string, len(tables)) // of each row of each table
	for f, rows := range tables {
		tag := reflect.StructTag(fmt.Sprintf(`parquet:"c%d,list"`, f))
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("C", f), Type: reflect.TypeFor[[]string](), Tag: tag})
		texts[f] = make([]string, rows)
		for n := 0; slices.Contains(texts[f], ""); n++ {
			text := fmt.Sprint("t", n)
			texts[f][xxh3.HashString(text)%uint64(rows)] = text
		}
	}
	row := reflect.New(reflect.StructOf(fields)).Elem()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := parquet.NewWriter(file, parquet.SchemaOf(row.Interface()))
	for i, label := range d.Labels {
		row.Field(0).SetInt(int64(label))
		for j, x := range d.Numbers[i] {
			row.Field(1 + j).SetFloat(float64(x))
		}
		for f := range tables {
			var list []string
			for _, id := range d.IDs[f][i] {
				list = append(list, texts[f][id%tables[f]])
			}
			row.Field(1 + len(d.Numbers[i]) + f).Set(reflect.ValueOf(list))
		}
		if err := w.Write(row.Interface()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNumPy trains a small form of examples/mlperf on days of arrays in several ways, on the record file that they are
// converted to, and on Parquet files of lists. All give one digest.
func TestNumPy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	dir := t.TempDir()
	tables := laptopTables(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	r := rand.New(rand.NewPCG(8, 9))
	for i := range 3 {
		day := drawDay(t, r, 150+i, tables)
		day.Write(t, at(fmt.Sprintf("day_%d_sparse_multi_hot.npz", i)))
		writeLists(t, at(fmt.Sprintf("day_%d.parquet", i)), day, tables)
	}
	config := "../../examples/mlperf/dlrm_dcnv2.toml"
	sets := []string{"job.ranks=2", "data.shuffle=block", "train.global_batch=32", "train.epochs=3", "train.eval_every=12",
		"model.tables=" + strings.ReplaceAll(fmt.Sprint(tables), " ", ", "),
		fmt.Sprintf("data.train=[%q, %q]", at("day_0_*"), at("day_1_*")),
		fmt.Sprintf("data.eval=[%q]", at("day_2_sparse_multi_hot.npz"))}
	small := append(slices.Clone(sets), "model.embedding_dim=8", "model.bottom_mlp=[16, 8]", "model.cross_rank=4", "model.top_mlp=[16, 1]")
	call := func(args ...string) ended {
		t.Helper()
		x := run(t, ecrec(t), nil, args...)
		if x.code != 0 {
			t.Fatalf("%q: exit code %d\n%s", args, x.code, x.stderr)
		}
		return x
	}
	call(train(config, at("plain"), small...)...)
	want := readSummary(t, at("plain"))
	convert := func(to string, flags ...string) {
		t.Helper()
		args := append(append(train(config, at("converted"), small...), "--to", at(to)), flags...)
		call(append([]string{"data", "convert"}, args[1:]...)...)
	}
	convert("train.rec")
	convert("eval.rec", "--eval")
	names := func(prefix string, n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("%q", fmt.Sprint(prefix, i)))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	transforms := strings.ReplaceAll(strings.Trim(names("i", 13), "[]"), `",`, `"="none",`) + `="none"`
	for name, c := range map[string][]string{
		"record file": {"data.format=record", fmt.Sprintf("data.train=[%q]", at("train.rec")),
			fmt.Sprintf("data.eval=[%q]", at("eval.rec"))},
		"Parquet": {"data.format=parquet", fmt.Sprintf("data.train=[%q, %q]", at("day_0.parquet"), at("day_1.parquet")),
			fmt.Sprintf("data.eval=[%q]", at("day_2.parquet")), "data.csv.label=label", "data.csv.dense=" + names("i", 13),
			"data.csv.categorical=" + names("c", 26), "data.csv.bags=" + names("c", 26), "data.transform={" + transforms + "}"},
		"named files": {fmt.Sprintf("data.train=[%q, %q]", at("day_0_sparse_multi_hot.npz"), at("day_1_sparse_multi_hot.npz"))},
		"threads":     {"job.threads=2", "cache.mode=none"},
	} {
		call(train(config, at(name), append(slices.Clone(small), c...)...)...)
		equal(t, name, readSummary(t, at(name)), want)
	}
	roles := append(slices.Clone(small), "job.ranks=5", "ranks.readers=1", "ranks.trainers=2", "ranks.servers=2", "ec.code=xor", "ec.k=1")
	lost := append(train(config, at("lost"), roles...), "--np", "5", "--chaos", "kill:4@11", "--chaos", "kill:2@17")
	if n := losses(call(lost...).stderr); n != 2 {
		t.Errorf("%d losses, want 2", n)
	}
	equal(t, "a lost reader", readSummary(t, at("lost")), want)

	resumed := append(slices.Clone(small), "checkpoint.every=7")
	call(train(config, at("resumed"), append(slices.Clone(resumed), "train.epochs=1")...)...)
	call(append(train(config, at("resumed"), resumed...), "--resume", "auto")...)
	if got := readSummary(t, at("resumed")); got.Digest != want.Digest {
		t.Errorf("resumed: digest %s, want %s", got.Digest, want.Digest)
	}

	figures := strings.Fields(call(append([]string{"eval", "--model", at("plain")}, train(config, at("plain"), small...)[1:]...)...).stdout)
	scores := call("predict", at("plain"), "--data", at("day_2_sparse_multi_hot.npz"), "--to", at("scores.csv")).stderr
	if !strings.Contains(scores, "152 scores") || !strings.Contains(scores, figures[1]) {
		t.Errorf("predict prints %q, eval %q", scores, figures)
	}
	stats := call(append([]string{"data", "stats"}, train(config, at("stats"), small...)[1:]...)...)
	if !strings.Contains(stats.stdout, "samples 301 (0 skipped)") {
		t.Errorf("data stats prints\n%s", stats.stdout)
	}
	call(train(config, at("full"), append(sets, "train.epochs=1", "train.global_batch=150", "job.ranks=1")...)...)
	if got := readSummary(t, at("full")); got.Steps != 3 {
		t.Errorf("%d steps of the whole model", got.Steps)
	}
}
