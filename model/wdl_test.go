package model_test

import (
	"fmt"
	"testing"

	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/model/modeltest"
)

var (
	smallWDL = model.Config{Kind: "wdl", Dense: 4, Tables: 5, EmbeddingDim: 6, BottomMLP: []int{7, 6}, TopMLP: []int{1}, Seed: 5}
	// kaggleWDL is the model for Criteo Kaggle.
	kaggleWDL = model.Config{Kind: "wdl", Dense: 13, Tables: 26, EmbeddingDim: 48, BottomMLP: []int{256, 256, 256}, TopMLP: []int{1}}
)

func TestWDL(t *testing.T) {
	large := kaggleWDL
	large.BottomMLP = []int{512, 600, 500} // of several buckets
	modeltest.Run(t, modeltest.Suite{Small: smallWDL, Large: large, Golden: "fade8a4e17892fb6"})
}

// TestWDLWithoutDense runs the suite on data without dense features, with and without a linear model.
func TestWDLWithoutDense(t *testing.T) {
	for _, c := range []struct {
		linear bool
		golden string
	}{{false, "ad4688df2ee88bcd"}, {true, "42ee76e355d298c4"}} {
		t.Run(fmt.Sprint(c.linear), func(t *testing.T) {
			small, large := smallWDL, kaggleWDL
			small.Dense, small.Linear, small.BottomMLP, small.TopMLP = 0, c.linear, nil, []int{9, 8, 1}
			large.Dense, large.Linear, large.EmbeddingDim, large.BottomMLP, large.TopMLP = 0, c.linear, 16, nil, []int{700, 400, 1}
			modeltest.Run(t, modeltest.Suite{Small: small, Large: large, Golden: c.golden})
			for _, x := range model.ShapeOf(small).Tensors {
				if x.Len() == 0 {
					t.Errorf("%s has no weights", x.Name)
				}
			}
		})
	}
}

// TestWDLWithLinear runs the suite on the form with a linear model over features and ids, an MLP over
// dense features and rows, and no bottom MLP.
func TestWDLWithLinear(t *testing.T) {
	small, large := smallWDL, kaggleWDL
	small.Linear, small.BottomMLP, small.TopMLP = true, nil, []int{9, 8, 1}
	large.Linear, large.EmbeddingDim, large.BottomMLP, large.TopMLP = true, 16, nil, []int{700, 400, 1}
	modeltest.Run(t, modeltest.Suite{Small: small, Large: large, Golden: "c337c3539e407d93"})
	if w := model.ShapeOf(small).RowWidth(); w != small.EmbeddingDim+1 {
		t.Errorf("rows of %d weights, want %d", w, small.EmbeddingDim+1)
	}
}

func TestKaggleWDL(t *testing.T) {
	if n := model.ShapeOf(kaggleWDL).DenseParams(); n != 136673 {
		t.Errorf("%d dense parameters, want 136673", n)
	}
}
