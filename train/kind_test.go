package train_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/model/modeltest"
	"github.com/ecrec/ecrec/train/traintest"
)

// shape is of kinds with a bottom MLP.
var shape = []string{"model.embedding_dim=4", "model.bottom_mlp=[8, 4]", "model.top_mlp=[8, 1]"}

// TestLosses loses ranks in simulated clusters that train the forms of the kinds. The clusters have data of their own, with one
// id in a field. TestForms has the rest of the suite for the forms, and cmd/ecrec loses processes that train on bags.
func TestLosses(t *testing.T) {
	eachForm(t, func(t *testing.T, f traintest.Form) {
		t.Parallel()
		least, sets := 1, f.WithoutBags()
		if slices.Contains(sets, "data.csv.dense=[]") {
			least = 2 // dot products need two vectors
		}
		traintest.Losses(t, least, sets...)
	})
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
		t.Parallel()
		traintest.KindInModes(t, []string{"none", "auto", "planned"}, append(shape, "model.kind="+modeltest.Linear.Name, "train.clip_norm=0.05")...)
	})
	t.Run("dense", func(t *testing.T) {
		t.Parallel()
		traintest.Kind(t, append(shape, "model.kind=dlrm", "train.clip_dense=0.05")...)
	})
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

// TestForms trains each form of the kinds.
func TestForms(t *testing.T) {
	eachForm(t, func(t *testing.T, f traintest.Form) {
		t.Parallel()
		traintest.Features(t, f.Sets...)
	})
}

// TestFormsOnGPUs checks that a GPU computes the bits of a CPU for each form of the kinds.
func TestFormsOnGPUs(t *testing.T) {
	standin.Use(t, kernels.CUDASource(), 1)
	eachForm(t, func(t *testing.T, f traintest.Form) { traintest.SameOnGPU(t, f.Sets...) })
}

// eachForm runs a test on all forms, in short tests on one of them.
func eachForm(t *testing.T, test func(*testing.T, traintest.Form)) {
	forms := traintest.Forms
	if testing.Short() {
		i := rand.IntN(len(forms))
		forms = forms[i : i+1]
	}
	for _, f := range forms {
		t.Run(f.Name, func(t *testing.T) { test(t, f) })
	}
}
