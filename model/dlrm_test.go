package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/model/modeltest"
)

var (
	small = model.Config{Kind: "dlrm", Dense: 4, Tables: 5, EmbeddingDim: 6, BottomMLP: []int{7, 6}, TopMLP: []int{9, 8, 1}, Seed: 5}
	// large is the DLRM for Criteo Kaggle.
	large = model.Config{Kind: "dlrm", Dense: 13, Tables: 26, EmbeddingDim: 48, BottomMLP: []int{512, 256, 64, 48},
		TopMLP: []int{1024, 1024, 1024, 256, 128, 1}}
)

func TestDLRM(t *testing.T) {
	modeltest.Run(t, modeltest.Suite{Small: small, Large: large, Golden: "b5917dab702b15a2"})
}

// TestLinear runs the suite on the kind whose rows are wider than the embedding.
func TestLinear(t *testing.T) {
	model.Kinds = append(model.Kinds, modeltest.Linear)
	s := modeltest.Suite{Small: small, Large: large, Golden: "753fbe9502d26e03"}
	s.Small.Kind, s.Large.Kind = modeltest.Linear.Name, modeltest.Linear.Name
	modeltest.Run(t, s)
	if w := model.ShapeOf(s.Small).RowWidth(); w != small.EmbeddingDim+1 {
		t.Errorf("rows of %d weights, want %d", w, small.EmbeddingDim+1)
	}
}

// oneBucket is a model that hands out its gradient when all of it is final.
type oneBucket struct{ model.Model }

func (m oneBucket) Backward(in model.Batch, dlogits kernels.Matrix, ready func(kernels.Buffer)) kernels.Matrix {
	rows := m.Model.Backward(in, dlogits, func(kernels.Buffer) {})
	ready(m.Params().Grad)
	return rows
}

// TestOneBucket runs the suite on a kind with one bucket at any size.
func TestOneBucket(t *testing.T) {
	k, _ := model.Find("dlrm")
	inner := k.New
	k.Name = "dlrm-one-bucket"
	k.New = func(dev kernels.Device, s kernels.Stream, c model.Config) (model.Model, error) {
		m, err := inner(dev, s, c)
		return oneBucket{m}, err
	}
	model.Kinds = append(model.Kinds, k)
	s := modeltest.Suite{Small: small, Large: large, OneBucket: true, Golden: "b5917dab702b15a2"}
	s.Small.Kind, s.Large.Kind = k.Name, k.Name
	modeltest.Run(t, s)
}

// TestKaggleShape counts the dense parameters of the DLRM for Criteo Kaggle.
func TestKaggleShape(t *testing.T) {
	if n := model.ShapeOf(large).DenseParams(); n != 2962289 {
		t.Errorf("%d dense parameters, want 2962289", n)
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := dev.Stream(1)
	defer s.Close()
	for _, change := range []func(*model.Config){
		func(c *model.Config) { c.BottomMLP = []int{7, 5} },
		func(c *model.Config) { c.TopMLP = []int{9, 2} },
		func(c *model.Config) { c.TopMLP = nil },
		func(c *model.Config) { c.Kind = "bogus" },
		func(c *model.Config) { c.BottomMLP = nil },
		func(c *model.Config) { c.Dense = 0 },
		func(c *model.Config) { c.Dense, c.BottomMLP, c.Tables = 0, nil, 1 },
		func(c *model.Config) { c.BottomMLP, c.Interaction = nil, model.InteractionCat },
	} {
		c := small
		change(&c)
		if m, err := model.New(dev, s, c); err == nil || m != nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

// TestKindWithoutCheck: a kind that has no Check accepts all settings.
func TestKindWithoutCheck(t *testing.T) {
	defer func(kinds []model.Kind) { model.Kinds = kinds }(model.Kinds)
	model.Kinds = append(slices.Clone(model.Kinds), model.Kind{Name: "free"})
	if err := model.Check(model.Config{Kind: "free"}); err != nil {
		t.Error(err)
	}
}

// TestInteractions runs the suite on the forms without dots.
func TestInteractions(t *testing.T) {
	for _, c := range []struct{ form, golden string }{{model.InteractionCat, "33522b855346f108"}, {model.InteractionSum, "193fb2b90bb64cdf"}} {
		t.Run(c.form, func(t *testing.T) {
			s := modeltest.Suite{Small: small, Large: large, Golden: c.golden}
			s.Small.BottomMLP = []int{7, 3} // of another width than rows
			s.Large.EmbeddingDim, s.Large.TopMLP = 16, []int{600, 500, 1}
			s.Small.Interaction, s.Large.Interaction = c.form, c.form
			modeltest.Run(t, s)
		})
	}
}

// TestDLRMWithoutDense runs the suite on data without dense features.
func TestDLRMWithoutDense(t *testing.T) {
	for _, c := range []struct {
		form   string
		normed bool
		golden string
	}{{model.InteractionDot, false, "fccdca7c5bb5a898"}, {model.InteractionDot, true, "86b79e9ed43c8d5a"},
		{model.InteractionCat, false, "ad4688df2ee88bcd"}, {model.InteractionSum, true, "1e631cd0fa894f5c"}} {
		t.Run(fmt.Sprint(c.form, " ", c.normed), func(t *testing.T) {
			s := modeltest.Suite{Small: small, Large: large, Golden: c.golden}
			s.Large.EmbeddingDim, s.Large.TopMLP = 16, []int{900, 500, 1}
			for _, config := range []*model.Config{&s.Small, &s.Large} {
				config.Dense, config.BottomMLP, config.Interaction = 0, nil, c.form
				if c.normed {
					config.BatchNorm, config.Dropout = true, 0.25
				}
			}
			modeltest.Run(t, s)
			for _, x := range model.ShapeOf(s.Small).Tensors {
				if x.Len() == 0 || strings.HasPrefix(x.Name, "bot_") {
					t.Errorf("%s has %d weights", x.Name, x.Len())
				}
			}
		})
	}
}

// TestAvazuDLRM counts the dense parameters of DLRM for Avazu_x1 of the benchmark BARS, whose log has 13,402,391 parameters,
// 1,298,599 rows of 10 among them.
func TestAvazuDLRM(t *testing.T) {
	c := model.Config{Kind: "dlrm", Tables: 22, EmbeddingDim: 10, TopMLP: []int{400, 400, 400, 1}, BatchNorm: true}
	if n := model.ShapeOf(c).DenseParams(); n != 13_402_391-10*1_298_599 {
		t.Errorf("%d dense parameters, want 416401", n)
	}
}

// TestECRecShape counts the dense parameters of ECRec's DLRM for the Criteo datasets, whose paper
// gives their number: bottom 13-512-256-128, the rows summed, top 256-1024-1024-512-256-1.
func TestECRecShape(t *testing.T) {
	c := model.Config{Kind: "dlrm", Dense: 13, Tables: 26, EmbeddingDim: 128, Interaction: model.InteractionSum,
		BottomMLP: []int{512, 256, 128}, TopMLP: []int{1024, 1024, 512, 256, 1}}
	if n := model.ShapeOf(c).DenseParams(); n != 2140545 {
		t.Errorf("%d dense parameters, want 2140545", n)
	}
}

// TestAlignment checks that the large tensors of MLPerf's models, and their gradients, are at addresses from which a GPU loads
// four floats at once, except for matrices whose rows cannot all be.
func TestAlignment(t *testing.T) {
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := dev.Stream(1)
	defer s.Close()
	mlperf := model.Config{Kind: "dlrm", Dense: 13, Tables: 26, EmbeddingDim: 128, BottomMLP: []int{512, 256, 128},
		TopMLP: []int{1024, 1024, 512, 256, 1}, MaxSamples: 1}
	dcnv2 := mlperf
	dcnv2.Kind, dcnv2.Cross, dcnv2.CrossLayers, dcnv2.CrossRank = "dcn", model.CrossLowRank, 3, 512
	for _, c := range []model.Config{mlperf, dcnv2, large} {
		m, err := model.New(dev, s, c)
		if err != nil {
			t.Fatal(err)
		}
		p, checked := m.Params(), 0
		for _, x := range p.Tensors {
			if x.Len() < 1<<12 || x.Cols%4 != 0 {
				continue
			}
			checked++
			for what, flat := range map[string]kernels.Buffer{"weights": p.Weights, "gradients": p.Grad} {
				if at := uintptr(x.Of(flat).Address()); at%16 != 0 {
					t.Errorf("%s: the %s of %s begin %d bytes behind a multiple of 16", c.Kind, what, x.Name, at%16)
				}
			}
		}
		if checked < 4 {
			t.Errorf("%s: only %d tensors are large", c.Kind, checked)
		}
		m.Close()
	}
}
