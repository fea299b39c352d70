package model_test

import (
	"fmt"
	"testing"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/model/modeltest"
)

// TestDeepFM runs the suite on all variants of deepfm.
func TestDeepFM(t *testing.T) {
	for _, v := range []struct {
		norm    bool
		dropout float64
		dense   bool
		golden  string
	}{{true, 0, false, "5c1c6dd266ba292a"}, {true, 0.25, true, "83da7ed11340307f"},
		{false, 0.25, false, "a4c1d2ec1f5b641f"}, {false, 0, true, "3f7e52080a63aada"}} {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			c := model.Config{Kind: "deepfm", Dense: 4, Tables: 5, EmbeddingDim: 6, TopMLP: []int{9, 8, 1}, Seed: 5,
				BatchNorm: v.norm, Dropout: v.dropout, DenseEmbedding: v.dense}
			s := modeltest.Suite{Small: c, Large: c, Golden: v.golden}
			s.Large.EmbeddingDim, s.Large.TopMLP = 48, []int{600, 500, 1}
			modeltest.Run(t, s)
		})
	}
}

// TestNormedDLRM runs the suite on a DLRM with batch norm and dropout in both MLPs.
func TestNormedDLRM(t *testing.T) {
	s := modeltest.Suite{Small: small, Large: small, Golden: "d6903fa923280db6"}
	s.Large.TopMLP = []int{600, 500, 1}
	for _, c := range []*model.Config{&s.Small, &s.Large} {
		c.BatchNorm, c.Dropout = true, 0.25
	}
	modeltest.Run(t, s)
}

// TestKaggleDeepFM counts the parameters of deepfm for Criteo Kaggle: dense ones, and with the
// linear weights, which are part of the rows.
func TestKaggleDeepFM(t *testing.T) {
	tables, err := data.Tables("criteo-kaggle")
	if err != nil {
		t.Fatal(err)
	}
	s := model.ShapeOf(model.Config{Kind: "deepfm", Dense: 13, Tables: len(tables), EmbeddingDim: 48, TopMLP: []int{64, 64, 64, 1},
		BatchNorm: true, Dropout: 0.5})
	n := s.DenseParams()
	if n != 88_706 {
		t.Errorf("%d dense parameters, want 88706", n)
	}
	for _, rows := range tables {
		n += int(rows) * s.Row[1].Width
	}
	if n != 33_851_283 {
		t.Errorf("%d parameters without embeddings, want 33851283", n)
	}
	if w := s.RowWidth(); w != 49 {
		t.Errorf("rows of %d weights, want 49", w)
	}
}
