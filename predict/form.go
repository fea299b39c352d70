package predict

import (
	"math"
	"slices"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// Form is the form of a model: all of it but the weights.
type Form struct {
	cfg   *config.Config
	dev   kernels.Device
	shape model.Shape
	base  []int64 // of each table: its first row
	first []int64 // of each feature: the first row of its table
	total int64   // rows of all tables
	means []int32 // as model.Batch.Mean
	width int     // of a row
}

// NewForm returns the form of the model that a config describes.
func NewForm(cfg *config.Config) (f *Form, err error) {
	f = &Form{cfg: cfg}
	blas := "exact" // with OpenBLAS a score would depend on the rows beside it, and this is no GPU
	if cfg.Kernels.BLAS == "exact-tc" {
		blas = cfg.Kernels.BLAS
	}
	if f.dev, err = kernels.NewCPU(kernels.CPUOptions{BLAS: blas}); err != nil {
		return nil, err
	}
	f.shape = model.ShapeOf(cfg.ModelConfig())
	f.width = f.shape.RowWidth()
	f.means = cfg.Model.Means()
	for _, n := range cfg.Model.TableRows() {
		f.base = append(f.base, f.total)
		f.total += n
	}
	f.first = f.base
	if tables := cfg.Model.TableNumbers(); tables != nil {
		f.first = make([]int64, len(tables))
		for i, t := range tables {
			f.first[i] = f.base[t]
		}
	}
	return f, nil
}

// Width is the number of weights of a row.
func (f *Form) Width() int { return f.width }

// FirstRow is the first row of a table.
func (f *Form) FirstRow(table int) int64 { return f.base[table] }

// DenseFloats is the number of the dense parameters and statistics.
func (f *Form) DenseFloats() int { return f.shape.SavedFloats() }

// DenseNames lists the tensors of the dense part in their order in memory.
func (f *Form) DenseNames() (names []string) {
	for _, t := range append(slices.Clip(f.shape.Tensors), f.shape.Statistics...) {
		names = append(names, t.Name)
	}
	return names
}

// Schema is the shape of the samples that the model scores.
func (f *Form) Schema() data.Schema {
	return data.Schema{Dense: f.cfg.Data.DenseCount(), Tables: f.cfg.Model.TableRows(), TableOf: f.cfg.Model.TableNumbers()}
}

// CheckRecipe compares the samples of a recipe with the inputs of the model. A recipe of another model would name rows that
// there are not.
func (f *Form) CheckRecipe(r *data.Recipe) error {
	has, want := r.Schema(), f.Schema()
	if has.Dense != want.Dense || !slices.Equal(has.FeatureRows(), want.FeatureRows()) {
		return config.Errorf("the recipe of the data makes %d numbers and ids below %v, the model has %d numbers and tables of %v rows; "+
			"use the recipe of the model",
			has.Dense, has.FeatureRows(), want.Dense, want.FeatureRows())
	}
	return nil
}

// checkRows refuses models whose rows have no place in one matrix.
func (f *Form) checkRows() error {
	if f.total > math.MaxInt32 {
		return config.Errorf("model.tables: %d rows, at most %d can be scored in one process", f.total, math.MaxInt32)
	}
	return nil
}
