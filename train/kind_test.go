package train_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/model/modeltest"
	"github.com/ecrec/ecrec/train/traintest"
)

// shape is that of both kinds.
var shape = []string{"model.embedding_dim=4", "model.bottom_mlp=[8, 4]", "model.top_mlp=[8, 1]"}

func TestDLRM(t *testing.T) { traintest.Kind(t, append(shape, "model.kind=dlrm")...) }

// TestDeepFM trains with batch norm and dropout, of which no bit may depend on processes, cache
// modes and losses.
func TestDeepFM(t *testing.T) {
	traintest.Kind(t, "model.kind=deepfm", "model.embedding_dim=4", "model.top_mlp=[8, 6, 1]", "model.dropout=0.25", "model.dense_embedding=true")
}

// TestNormedDLRM does so in both MLPs of another kind.
func TestNormedDLRM(t *testing.T) {
	traintest.Kind(t, append(shape, "model.kind=dlrm", "model.batch_norm=true", "model.dropout=0.25")...)
}

// addLinear adds the kind of model with linear weights to the registry.
var addLinear = sync.OnceFunc(func() { model.Kinds = append(model.Kinds, modeltest.Linear) })

// TestWideRows trains rows of which the embedding is a part. The other part has a rule of its own.
// Weights decay.
func TestWideRows(t *testing.T) {
	addLinear()
	traintest.Kind(t, append(shape, "model.kind="+modeltest.Linear.Name, "optimizer.linear.kind=ftrl", "optimizer.linear.lr=0.05",
		"optimizer.linear.l1=1e-4", "optimizer.sparse.weight_decay=0.01", "optimizer.dense.kind=adamw", "optimizer.dense.weight_decay=0.02")...)
}

// TestClippedGradients trains with gradients that are scaled down in most steps.
func TestClippedGradients(t *testing.T) {
	addLinear()
	t.Run("all", func(t *testing.T) {
		traintest.KindInModes(t, []string{"none", "auto", "planned"}, append(shape, "model.kind="+modeltest.Linear.Name, "train.clip_norm=0.05")...)
	})
	t.Run("dense", func(t *testing.T) { traintest.Kind(t, append(shape, "model.kind=dlrm", "train.clip_dense=0.05")...) })
}

// TestDenseAdam trains with rows that all move at each step.
func TestDenseAdam(t *testing.T) {
	addLinear()
	modes := []string{"none", "auto", "planned"}
	sets := append(shape, "model.kind="+modeltest.Linear.Name, "optimizer.sparse.kind=adam", "optimizer.sparse.dense=true", "optimizer.sparse.lr=0.01")
	t.Run("adam", func(t *testing.T) { traintest.KindWithoutCode(t, modes, sets...) })
	t.Run("decay", func(t *testing.T) {
		traintest.KindWithoutCode(t, modes, append(sets, "optimizer.linear.kind=adamw", "optimizer.linear.weight_decay=0.01", "train.clip_norm=0.05")...)
	})
}

// TestLinearRule checks the values of [optimizer.linear], and what a run with another value resumes.
func TestLinearRule(t *testing.T) {
	addLinear()
	path := filepath.Join(t.TempDir(), "run.toml")
	text := "[data]\nformat = \"synthetic\"\n[model]\nkind = \"dlrm-linear\"\ntables = [" + strings.Repeat("9, ", 25) + "9]\n[train]\niterations = 1\n"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	load := func(sets ...string) *config.Config {
		t.Helper()
		c, err := config.Load(path, sets)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	plain, rule := load(), load("optimizer.sparse.lr=0.5").Optimizer
	if rule.Linear != rule.Sparse || rule.Linear.LR != 0.5 {
		t.Errorf("not set: %+v; want that of rows, %+v", rule.Linear, rule.Sparse)
	}
	c := load("optimizer.sparse.lr=0.5", "optimizer.linear.kind=adam")
	if o := c.Optimizer.Linear; o.Kind != "adam" || o.LR != 0.5 || o.Eps != 1e-8 {
		t.Errorf("with another rule: %+v", o)
	}
	if o := load("optimizer.sparse.eps=0.25").Optimizer.Linear; o.Eps != 0.25 {
		t.Errorf("eps of rows: %+v", o)
	}
	for _, e := range []struct{ there, here, want string }{
		{"job.out=a", "job.out=b", ""},
		{"optimizer.sparse.lr=0.02", "optimizer.sparse.lr=0.5", "optimizer.sparse.lr is 0.02 there, 0.5 here"},
		{"optimizer.linear.lr=0.02", "optimizer.linear.lr=0.5", "optimizer.linear.lr is 0.02 there, 0.5 here"},
		{"optimizer.linear.lr=0.5", "optimizer.linear.lr=0.02", "optimizer.linear.lr is 0.5 there, 0.02 here"},
		{"optimizer.linear.kind=sgd", "optimizer.linear.kind=momentum", `optimizer.linear.kind is "sgd" there, "momentum" here`},
	} {
		got := lineage.Text(lineage.OfConfig(load(e.there)).Diff(lineage.OfConfig(load(e.here)), false))
		if got != e.want {
			t.Errorf("%s there, %s here: %q, want %q", e.there, e.here, got, e.want)
		}
	}
	if again := load("optimizer.linear.lr=0.5").Resolved(); !strings.Contains(string(again), "[optimizer.linear]") {
		t.Errorf("the resolved config has no [optimizer.linear]:\n%s", again)
	}
	_, err := config.Load(path, []string{"model.kind=dlrm", "optimizer.linear.lr=0.5"})
	if want := `the rows of model.kind = "dlrm" have no linear weights; leave it out`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a kind without linear weights: %v, want %q", err, want)
	}
	if plain.HasLinear() == load("model.kind=dlrm").HasLinear() {
		t.Error("both kinds have linear weights, or neither")
	}
}

// TestWDL trains rows with a part for the linear model.
func TestWDL(t *testing.T) {
	traintest.Kind(t, "model.kind=wdl", "model.embedding_dim=4", "model.bottom_mlp=[]", "model.top_mlp=[8, 1]", "model.linear=true")
}

func TestDCN(t *testing.T) {
	traintest.Kind(t, append(shape, "model.kind=dcn", "model.cross_rank=3")...)
}

// TestParallelDCN trains vector cross layers beside the top MLP, whose only hidden layer has batch norm and
// dropout.
func TestParallelDCN(t *testing.T) {
	traintest.Kind(t, append(shape, "model.kind=dcn", "model.cross=vector", "model.structure=parallel", "model.batch_norm=true", "model.dropout=0.25")...)
}

// TestWithoutNumbers trains on samples that have categories only.
func TestWithoutNumbers(t *testing.T) {
	for _, kind := range [][]string{{"model.kind=wdl", "model.linear=true"}, {"model.kind=dcn", "model.cross=full", "model.structure=parallel"}} {
		t.Run(kind[0], func(t *testing.T) {
			traintest.Features(t, append(kind, "data.csv.dense=[]", "model.embedding_dim=4", "model.bottom_mlp=[]", "model.top_mlp=[8, 1]",
				"model.batch_norm=true", "model.dropout=0.25")...)
		})
	}
}

// TestSummedRows trains the DLRM whose lookups have one gradient for each sample.
func TestSummedRows(t *testing.T) { traintest.Kind(t, append(shape, "model.interaction=sum")...) }
