package checkpoint

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/shard"
)

// Model is what must be the same for a checkpoint to fit: nothing that may change
// from run to run, such as learning rates, is in it.
type Model struct {
	Kind string `json:"kind"`
	// Seed draws the untouched rows.
	Seed   uint64  `json:"seed"`
	Tables []Table `json:"tables"`
	// Width is the weights of a row, RowState the floats of state behind them.
	Width    int    `json:"width"`
	RowState int    `json:"row_state"`
	Sparse   string `json:"sparse_optimizer"`
	Dense    string `json:"dense_optimizer"`
	// DenseState is the floats of state for each dense weight.
	DenseState int `json:"dense_state"`
	// Tensors are the dense parameters in the order in which they lie in memory.
	Tensors []Tensor `json:"tensors"`
}

// Table is an embedding table.
type Table struct {
	Name string `json:"name"`
	Rows int64  `json:"rows"`
}

// Tensor is a dense parameter.
type Tensor struct {
	Name  string  `json:"name"`
	Shape []int64 `json:"shape"`
}

// Limits of a manifest, so that sizes computed from it cannot overflow.
const (
	maxRanks  = 1 << 20
	maxTables = 1 << 16
	maxRows   = 1 << 44
	maxFloats = 1 << 20 // of a row
	maxStates = 16
)

// Bytes of a row.
func (m *Model) rowBytes() int { return 4 * (m.Width + m.RowState) }

// place says where rows are among owners.
func (m *Model) place(owners int) placement.Map {
	rows := make([]int64, len(m.Tables))
	for t, table := range m.Tables {
		rows[t] = table.Rows
	}
	return placement.New(rows, owners)
}

// rows says what the shard of an owner would hold.
func (m *Model) rows(owner, owners int) shard.Options {
	return shard.Options{Map: m.place(owners), Owner: owner, Seed: m.Seed, Width: m.Width, State: m.RowState}
}

// denseSpecs are the tensors of dense.safetensors. Weights lie in it as in
// memory; so does each value of state, one after the other.
func (m *Model) denseSpecs() []safetensors.Spec {
	var specs []safetensors.Spec
	for k := range m.DenseState + 1 {
		for _, t := range m.Tensors {
			name := t.Name
			if k > 0 {
				name = fmt.Sprintf("state.%d.%s", k-1, t.Name)
			}
			specs = append(specs, safetensors.Spec{Name: name, Shape: t.Shape})
		}
	}
	return specs
}

// denseBytes is the length of the dense weights.
func (m *Model) denseBytes() int64 {
	total := int64(0)
	for _, t := range m.Tensors {
		n, _ := safetensors.Spec{Name: t.Name, Shape: t.Shape}.Bytes() // checked before
		total += n
	}
	return total
}

// check finds what no model can be.
func (m *Model) check() error {
	switch {
	case m.Width < 1 || m.RowState < 0 || m.Width > maxFloats || m.RowState > maxFloats:
		return fmt.Errorf("rows of %d weights and %d floats of state", m.Width, m.RowState)
	case m.DenseState < 0 || m.DenseState > maxStates:
		return fmt.Errorf("%d floats of state for each dense weight", m.DenseState)
	case len(m.Tables) > maxTables:
		return fmt.Errorf("%d tables", len(m.Tables))
	}
	total := int64(0)
	for _, t := range m.Tables {
		if t.Rows < 1 || t.Rows > maxRows || total > maxRows {
			return fmt.Errorf("table %q of %d rows", t.Name, t.Rows)
		}
		total += t.Rows
	}
	_, dense, err := safetensors.Header(m.denseSpecs())
	if err == nil && dense > math.MaxInt {
		err = fmt.Errorf("%d bytes of dense parameters", dense)
	}
	return err
}

// maxListed bounds how many differences an error lists.
const maxListed = 5

// differences lists where a checkpoint's model is not the one of this run.
func (m *Model) differences(run *Model) string {
	var list []string
	add := func(what string, there, here any) {
		if t, h := fmt.Sprint(there), fmt.Sprint(here); t != h {
			list = append(list, fmt.Sprintf("%s is %s there, %s here", what, t, h))
		}
	}
	add("model.kind", m.Kind, run.Kind)
	add("job.seed", m.Seed, run.Seed)
	add("model.embedding_dim", m.Width, run.Width)
	add("optimizer.sparse.kind", m.Sparse, run.Sparse)
	add("optimizer.dense.kind", m.Dense, run.Dense)
	add("state of a row", m.RowState, run.RowState)
	add("state of a dense weight", m.DenseState, run.DenseState)
	add("number of tables", len(m.Tables), len(run.Tables))
	for t := range min(len(m.Tables), len(run.Tables)) {
		there, here := m.Tables[t], run.Tables[t]
		add("name of table "+fmt.Sprint(t), there.Name, here.Name)
		add("rows of "+here.Name, there.Rows, here.Rows)
	}
	shapes := func(m *Model) map[string]string {
		s := map[string]string{}
		for _, t := range m.Tensors {
			s[t.Name] = fmt.Sprint(t.Shape)
		}
		return s
	}
	there, here := shapes(m), shapes(run)
	for _, t := range m.Tensors {
		if _, ok := here[t.Name]; !ok {
			add(t.Name, there[t.Name], "missing")
		}
	}
	for _, t := range run.Tensors {
		if _, ok := there[t.Name]; !ok {
			add(t.Name, "missing", here[t.Name])
		} else {
			add("shape of "+t.Name, there[t.Name], here[t.Name])
		}
	}
	if n := len(list) - maxListed; n > 0 {
		list = append(slices.Clip(list[:maxListed]), fmt.Sprintf("and %d more", n))
	}
	return strings.Join(list, ", ")
}
