package bench

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
)

// shape is a model that benchmarks train.
type shape struct {
	name        string
	dim         int
	bottom, top []int  // no bottom: the kind does not read it
	tables      string // model.tables, as TOML
	keys        string // further lines of [model]; empty: the kind is dlrm
	hots        string // data.hots; empty: one id per feature
}

// shapes are all models that the setting model can name. The bare ones are the worst case for
// whatever costs time per row: of the MLPs only one layer before and one after the interaction
// are left. mlperf is the DLRM of MLPerf with the tables of Criteo Kaggle: 17 GB of weights,
// for a GPU. dcnv2 is MLPerf's DLRM-DCNv2, 214 ids a sample, with tables of at most 2.4 million
// rows: 8 GB of weights. wdl is the form with a linear model over features and ids. deepfm
// has no batch norm, and does not read dense features. deepfm48 is that of BagPipe (table 1), without its batch norm, and with the
// linear weights in the rows. thesis is the synthetic model of Continuous Checkpointing (Buffalo, 2024).
var shapes = []shape{
	{"dim64", 64, []int{512, 256, 64}, []int{1024, 1024, 1024, 256, 128, 1}, `"criteo-kaggle"`, "", ""},
	{"dim64-bare", 64, []int{64}, []int{1}, `"criteo-kaggle"`, "", ""},
	{"dim48", 48, []int{512, 256, 64, 48}, []int{1024, 1024, 1024, 256, 128, 1}, `"criteo-kaggle"`, "", ""},
	{"dim16", 16, []int{512, 256, 64, 16}, []int{512, 256, 1}, `"criteo-kaggle"`, "", ""},
	{"dim16-bare", 16, []int{16}, []int{1}, `"criteo-kaggle"`, "", ""},
	{"dim48-bare", 48, []int{48}, []int{1}, `"criteo-kaggle"`, "", ""},
	{"mlperf", 128, []int{512, 256, 128}, []int{1024, 1024, 512, 256, 1}, `"criteo-kaggle"`, "", ""},
	{"deepfm", 16, nil, []int{400, 400, 400, 1}, `"criteo-kaggle"`, "kind = \"deepfm\"\nbatch_norm = false\n", ""},
	{"deepfm48", 48, nil, []int{64, 64, 64, 1}, `"criteo-kaggle"`, "kind = \"deepfm\"\nbatch_norm = false\n", ""},
	{"wdl", 16, []int{}, []int{256, 128, 1}, `"criteo-kaggle"`, "kind = \"wdl\"\nlinear = true\n", ""},
	{"dcnv2", 128, []int{512, 256, 128}, []int{1024, 1024, 512, 256, 1}, capTables("criteo-terabyte-40m", 2_400_000),
		"kind = \"dcn\"\ncross = \"low-rank\"\ncross_layers = 3\ncross_rank = 512\n", "mlperf"},
	{"thesis", 64, []int{512, 512, 64}, []int{1024, 1024, 1024, 1}, "[80000, 80000, 80000, 80000, 80000, 80000, 80000, 80000]", "", "hundred"},
}

// scaleRows returns the shape over the tables of Criteo Kaggle with their rows divided.
func (s shape) scaleRows(by int64) shape {
	rows, err := data.Tables("criteo-kaggle")
	if err != nil {
		panic(err)
	}
	for i := range rows {
		rows[i] = max(1, rows[i]/by)
	}
	s.tables = strings.ReplaceAll(fmt.Sprint(rows), " ", ", ")
	return s
}

// capTables returns the tables of a set, of at most this number of rows, as TOML. It panics if
// there is no such set.
func capTables(set string, most int64) string {
	rows, err := data.Tables(set)
	if err != nil {
		panic(err)
	}
	for i := range rows {
		rows[i] = min(rows[i], most)
	}
	return strings.ReplaceAll(fmt.Sprint(rows), " ", ", ")
}

var tinyShape = shape{"tiny", 4, []int{8, 4}, []int{8, 1}, "[" + strings.TrimSuffix(strings.Repeat("50, ", 26), ", ") + "]", "", ""}

// models returns the model that the setting model names, or the default ones. Tiny runs train
// a tiny model in place of each.
func (o Options) models(byDefault ...string) (all []shape) {
	if o.Tiny {
		return []shape{tinyShape}
	}
	if name := o.text("model"); name != "" {
		byDefault = []string{name}
	}
	for _, name := range byDefault {
		all = append(all, shapes[slices.IndexFunc(shapes, func(s shape) bool { return s.name == name })])
	}
	return all
}

// job holds the settings of a training job that benchmarks vary. Empty texts are the defaults.
type job struct {
	batch, ranks, threads int
	device, blas, hots    string
}

// config returns the config of a job, read from a TOML file as a user's is.
func (s shape) config(j job, sets ...string) (*config.Config, error) {
	dir, err := os.MkdirTemp("", "ecrec-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := dir + "/bench.toml"
	if err := os.WriteFile(path, []byte(s.toml(j, dir)), 0o644); err != nil {
		return nil, err
	}
	return config.Load(path, sets)
}

// toml returns the text of a config that writes to a folder.
func (s shape) toml(j job, dir string) string {
	return fmt.Sprintf(`[job]
ranks = %d
threads = %d
device = %q
out = %q
[kernels]
blas = %q
[data]
format = "synthetic"
%s[model]
embedding_dim = %d
tables = %s
top_mlp = [%s]
%s[train]
global_batch = %d
iterations = 1
[optimizer.dense]
kind = "sgd"
lr = 0.1
[optimizer.sparse]
kind = "sgd"
lr = 0.1
`, j.ranks, j.threads, cmp.Or(j.device, "cpu"), dir, cmp.Or(j.blas, "exact"), hotsLine(cmp.Or(j.hots, s.hots)), s.dim, s.tables, join(s.top), s.keyLines(), j.batch)
}

// hotsLine returns the line of [data] that sets the ids of each feature.
func hotsLine(name string) string {
	if name == "" || name == "one" {
		return ""
	}
	return fmt.Sprintf("hots = %q\n", name)
}

// keyLines returns the lines of [model] that depend on the kind.
func (s shape) keyLines() string {
	if s.bottom == nil {
		return s.keys
	}
	return fmt.Sprintf("bottom_mlp = [%s]\n%s", join(s.bottom), s.keys)
}

func join(widths []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(widths), " ", ", "), "[]")
}
