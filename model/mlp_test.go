package model_test

import (
	"testing"

	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/model/modeltest"
)

// TestRowsOf4KiB trains layers whose outputs are rows of 4 KiB, which are stored further apart. The bits are those of dense rows.
func TestRowsOf4KiB(t *testing.T) {
	for _, c := range []struct {
		name, golden, structure string
		config                  model.Config
	}{
		{"dlrm", "67c6bb51cbc95522", "", small},
		{"dcn-parallel", "225bd55b8f3e62ac", model.StructureParallel, smallDCN},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.TopMLP, c.config.Structure = []int{1024, 9, 1024, 1}, c.structure
			c.config.BatchNorm, c.config.Dropout = true, 0.25
			modeltest.RunGolden(t, modeltest.Suite{Small: c.config, Golden: c.golden})
		})
	}
}
