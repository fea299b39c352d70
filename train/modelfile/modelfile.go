package modelfile

import (
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/shard"
)

// chunkBytes is how much of a table is read, sent or written at a time.
const chunkBytes = 4 << 20

// Model is one rank's part of a model.
type Model struct {
	Env    env.Env
	Device kernels.Device
	Stream kernels.Stream
	Params *model.Params
	// Shard holds the rows of Owner, which is -1 on a rank that owns none.
	Shard *shard.Shard
	Owner int
	// Place assigns rows to owners. Row lists the parts of a row.
	Place placement.Map
	Row   []model.Part
}

// rowWidth is the number of weights of a row.
func (m *Model) rowWidth() int { return model.Shape{Row: m.Row}.RowWidth() }

// chunkRows is the most rows that a chunk of a table has.
func (m *Model) chunkRows(table int) int64 {
	return min(int64(max(1, chunkBytes/(4*m.rowWidth()))), m.Place.TableRows(table))
}

// eachChunk calls f for consecutive rows [first, last) of a table.
func (m *Model) eachChunk(table int, f func(first, last int64) error) error {
	rows, most := m.Place.TableRows(table), m.chunkRows(table)
	for first := int64(0); first < rows; first += most {
		if err := f(first, min(first+most, rows)); err != nil {
			return err
		}
	}
	return nil
}

// tensorSpecs lists the model's tensors in the order of a file.
func (m *Model) tensorSpecs() []safetensors.Spec {
	var specs []safetensors.Spec
	for _, t := range m.Params.Saved() {
		specs = append(specs, safetensors.Spec{Name: t.Name, Shape: t.Shape()})
	}
	for _, part := range m.Row {
		for t := range m.Place.Tables() {
			specs = append(specs, safetensors.Spec{Name: part.Tensor(t), Shape: []int64{m.Place.TableRows(t), int64(part.Width)}})
		}
	}
	return specs
}
