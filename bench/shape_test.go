package bench

import (
	"testing"

	"github.com/ecrec/ecrec/model"
)

// TestShapesAreModels loads every shape, and counts the products of those that others train too.
func TestShapesAreModels(t *testing.T) {
	flops := map[string]float64{ // of one sample: 2 for the first layer over data, 3 for others, 2 for a multiply-add
		"deepfm": 3*2*float64(26*16*400+400*400+400*400+400) + // the MLP
			2*26, // the sum of the linear weights
		"wdl": 3*2*float64((26*16+13)*256+256*128+128) + // the MLP
			2*2*13 + 2*26, // the linear model, and the sum of its weights
		"dcnv2": 2*(2*13*512+3*(512*256+256*128)) +
			3*3*2*2*512*3456 +
			3*2*float64(3456*1024+1024*1024+1024*512+512*256+256),
	}
	for _, s := range shapes {
		cfg, err := s.config(job{batch: 64, ranks: 1})
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if ids := cfg.Data.Hots.IDs; (len(ids) == 26) != (s.name == "dcnv2") || len(ids) == 26 && ids[20] != 100 {
			t.Errorf("%s: %v ids of each feature", s.name, ids)
		}
		if want, ok := flops[s.name]; ok {
			if got := model.ShapeOf(cfg.ModelConfig()).FLOPs; got != want {
				t.Errorf("%s: %v FLOPs, want %v", s.name, got, want)
			}
		}
	}
}
