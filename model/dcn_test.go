package model_test

import (
	"testing"

	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/model/modeltest"
)

var (
	smallDCN = model.Config{Kind: "dcn", Dense: 4, Tables: 3, EmbeddingDim: 4, BottomMLP: []int{5, 4}, TopMLP: []int{7, 5, 1},
		CrossLayers: 2, CrossRank: 3, Seed: 5}
	// kaggleDCN is the model for Criteo Kaggle.
	kaggleDCN = model.Config{Kind: "dcn", Dense: 13, Tables: 26, EmbeddingDim: 48, BottomMLP: []int{1024, 512, 256, 64, 48},
		TopMLP: []int{1024, 512, 256, 1}, CrossLayers: 2, CrossRank: 8}
)

// TestDCN runs the suite on all forms of cross layers and structures.
func TestDCN(t *testing.T) {
	for _, c := range []struct {
		name, cross, structure string
		noBottom, normed       bool
		noDense                bool
		golden                 string
	}{
		{name: "low-rank", golden: "dda3b427dee40f25"},
		{name: "low-rank-without-bottom", noBottom: true, golden: "72dc4f293bc48465"},
		{name: "low-rank-parallel", structure: model.StructureParallel, golden: "bad982e14280e11f"},
		{name: "vector", cross: model.CrossVector, golden: "4eb895c4e070dbfc"},
		{name: "vector-parallel", cross: model.CrossVector, structure: model.StructureParallel, golden: "e319df8fbc6ff451"},
		{name: "normed", structure: model.StructureParallel, normed: true, golden: "9f5963d818c6eed6"},
		{name: "full", cross: model.CrossFull, golden: "c12ab57e9cc585db"},
		{name: "full-without-dense", cross: model.CrossFull, structure: model.StructureParallel, normed: true, noBottom: true, noDense: true, golden: "6dec1175f6d6b049"},
		{name: "vector-without-dense", cross: model.CrossVector, noBottom: true, noDense: true, golden: "a86461b18deae29e"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := modeltest.Suite{Small: smallDCN, Large: kaggleDCN, Golden: c.golden}
			s.Large.EmbeddingDim, s.Large.BottomMLP, s.Large.TopMLP = 16, []int{16}, []int{600, 500, 1} // of several buckets
			for _, config := range []*model.Config{&s.Small, &s.Large} {
				config.Cross, config.Structure = c.cross, c.structure
				if c.normed {
					config.BatchNorm, config.Dropout = true, 0.25
				}
				if c.noBottom {
					config.BottomMLP = nil
				}
				if c.noDense {
					config.Dense = 0
				}
			}
			modeltest.Run(t, s)
		})
	}
}

func TestKaggleDCN(t *testing.T) {
	if n := model.ShapeOf(kaggleDCN).DenseParams(); n != 2718609 {
		t.Errorf("%d dense parameters, want 2718609", n)
	}
}

// TestAvazuDCN counts the dense parameters of DCN-V2 for Avazu_x1 of the benchmark BARS, whose hidden
// layers all have a batch norm.
func TestAvazuDCN(t *testing.T) {
	c := model.Config{Kind: "dcn", Tables: 22, EmbeddingDim: 10, TopMLP: []int{400, 400, 400, 1}, Cross: model.CrossFull, CrossLayers: 5,
		Structure: model.StructureParallel, BatchNorm: true}
	if n := model.ShapeOf(c).DenseParams(); n != 655_321 {
		t.Errorf("%d dense parameters, want 655321", n)
	}
}

func TestDCNsThatAreRefused(t *testing.T) {
	for key, change := range map[string]func(*model.Config){
		"cross_layers": func(c *model.Config) { c.CrossLayers = 0 },
		"cross_rank":   func(c *model.Config) { c.CrossRank = 0 },
		"top_mlp":      func(c *model.Config) { c.TopMLP = []int{3} },
		"structure":    func(c *model.Config) { c.Structure, c.TopMLP = "parallel", []int{1} },
		"cross":        func(c *model.Config) { c.Cross = "bogus" },
		"bottom_mlp":   func(c *model.Config) { c.Dense = 0 },
	} {
		c := smallDCN
		change(&c)
		if err := model.Check(c); err == nil {
			t.Errorf("%s: no error", key)
		}
	}
}
