package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// TestKindWithoutKeys runs a kind that reads no key of [model] that only some kinds read, and
// needs two tables.
func TestKindWithoutKeys(t *testing.T) {
	dlrm := func(c model.Config) model.Config {
		c.Kind, c.BottomMLP, c.TopMLP = "dlrm", []int{c.EmbeddingDim}, []int{1}
		return c
	}
	model.Kinds = append(model.Kinds, model.Kind{
		Name:  "dlrm-without-keys",
		Check: func(c model.Config) error { return model.Check(dlrm(c)) },
		Shape: func(c model.Config) model.Shape { return model.ShapeOf(dlrm(c)) },
		New: func(dev kernels.Device, s kernels.Stream, c model.Config) (model.Model, error) {
			return model.New(dev, s, dlrm(c))
		},
	})
	d, err := NewData(t.TempDir(), "model.kind=dlrm-without-keys")
	if err != nil {
		t.Fatal(err)
	}
	d.LeastTables = 2
	drawn := map[int]bool{}
	for seed := range uint64(100) {
		drawn[d.drawSetting(rand.New(rand.NewPCG(seed, purposeConfig)), Options{Mode: Liveness}).tables] = true
	}
	if drawn[1] || !drawn[2] || !drawn[maxTables] {
		t.Errorf("runs draw numbers of tables %v, want 2 to %d", drawn, maxTables)
	}
	for seed := range uint64(3) {
		if _, err := Run(d, seed, Options{Mode: Liveness}); err != nil {
			t.Fatal(err)
		}
	}
}
