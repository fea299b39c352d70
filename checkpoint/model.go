package checkpoint

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/shard"
)

// Model is the part of a model that must be equal for a checkpoint to fit. It holds nothing
// that a run may change, such as learning rates.
type Model struct {
	Kind string `json:"kind"`
	// Seed draws the untouched rows.
	Seed   uint64  `json:"seed"`
	Tables []Table `json:"tables"`
	// Parts are the tensors that a row's weights belong to. Without them all weights
	// of a row belong to one tensor, which has the name of its table.
	Parts []RowPart `json:"parts,omitempty"`
	// Width is the weights of a row, RowState the floats of state behind them.
	Width    int    `json:"width"`
	RowState int    `json:"row_state"`
	Sparse   string `json:"sparse_optimizer"`
	Dense    string `json:"dense_optimizer"`
	// DenseState is the floats of state for each dense weight.
	DenseState int `json:"dense_state"`
	// Tensors are the dense parameters in their order in memory.
	Tensors []Tensor `json:"tensors"`
	// Statistics are tensors without optimizer state, such as a batch norm's running mean. They
	// follow Tensors in memory.
	Statistics []Tensor `json:"statistics,omitempty"`
}

// Table is an embedding table.
type Table struct {
	Name string `json:"name"`
	Rows int64  `json:"rows"`
}

// RowPart is a range of the weights of a row that an export holds as a tensor of its
// own, one per table. Parts follow each other in a row.
type RowPart struct {
	Tensors []string `json:"tensors"` // by table
	Width   int      `json:"width"`
	// Optimizer names the update rule of the part. The state of the parts follows the
	// weights of all of them, in the order of parts. Empty: one rule over the whole row.
	Optimizer string `json:"optimizer,omitempty"`
	// Init is InitZero, or empty for weights that are drawn from the seed.
	Init string `json:"init,omitempty"`
}

// InitZero is the RowPart.Init of weights that start at 0.
const InitZero = "zero"

// Tensor is a dense parameter.
type Tensor struct {
	Name  string  `json:"name"`
	Shape []int64 `json:"shape"`
}

// Limits of a manifest. With them, sizes that are computed from it cannot overflow, and its
// texts are short enough to print.
const (
	maxNameBytes   = 1 << 10 // of a run
	maxRecipe      = 1 << 12 // entries
	maxRecipeBytes = 4 << 20
	maxForks       = 1 << 12

	maxRanks  = 1 << 20
	maxTables = 1 << 16
	maxRows   = 1 << 44
	maxFloats = 1 << 20 // of a row
	maxStates = 16
)

// rowBytes is the size of a row with its state.
func (m *Model) rowBytes() int { return 4 * (m.Width + m.RowState) }

// placeRows places the rows on a number of owners.
func (m *Model) placeRows(owners int) placement.Map {
	rows := make([]int64, len(m.Tables))
	for t, table := range m.Tables {
		rows[t] = table.Rows
	}
	return placement.New(rows, owners)
}

// DenseBytes are the lengths of the dense weights and of their optimizer state.
func (m *Model) DenseBytes() (weights, state int64) { return m.denseBytes(), m.stateBytes() }

// Check finds values that no model has.
func (m *Model) Check() error { return m.check() }

// ShardOptions describes the shard of an owner of rows.
func (m *Model) ShardOptions(owner, owners int) shard.Options { return m.shardOptions(owner, owners) }

// shardOptions describes the shard of an owner.
func (m *Model) shardOptions(owner, owners int) shard.Options {
	o := shard.Options{Map: m.placeRows(owners), Owner: owner, Seed: m.Seed, Width: m.Width, State: m.RowState}
	for _, p := range m.Parts {
		o.Parts = append(o.Parts, shard.Part{Width: p.Width, Zero: p.Init == InitZero})
	}
	return o
}

// denseSpecs are the tensors of dense.safetensors: the weights in their order in memory, and
// then each value of state in the same order.
func (m *Model) denseSpecs() []safetensors.Spec {
	specs := m.weightSpecs()
	for k := range m.DenseState {
		for _, t := range m.Tensors {
			specs = append(specs, safetensors.Spec{Name: fmt.Sprintf("state.%d.%s", k, t.Name), Shape: t.Shape})
		}
	}
	return specs
}

// weightSpecs are the dense tensors without optimizer state, in their order in memory.
func (m *Model) weightSpecs() (specs []safetensors.Spec) {
	for _, t := range m.weights() {
		specs = append(specs, safetensors.Spec{Name: t.Name, Shape: t.Shape})
	}
	return specs
}

// weights are the tensors of the dense part, statistics too.
func (m *Model) weights() []Tensor { return append(slices.Clip(m.Tensors), m.Statistics...) }

// rowParts are the parts of a row, at least one.
func (m *Model) rowParts() []RowPart {
	if len(m.Parts) > 0 {
		return m.Parts
	}
	all := RowPart{Width: m.Width}
	for _, t := range m.Tables {
		all.Tensors = append(all.Tensors, t.Name)
	}
	return []RowPart{all}
}

// RowText shows the parts of a row by the tensors of the first table: "emb_l.0.weight of 16 + ...".
func (m *Model) RowText() string {
	var parts []string
	for _, p := range m.rowParts() {
		name := ""
		if len(p.Tensors) > 0 {
			name = p.Tensors[0]
		}
		parts = append(parts, fmt.Sprintf("%s of %d", name, p.Width))
	}
	return strings.Join(parts, " + ")
}

// checkParts finds parts that do not make up a row.
func (m *Model) checkParts() error {
	width := 0
	for _, p := range m.rowParts() {
		if p.Width < 1 || p.Width > m.Width || len(p.Tensors) != len(m.Tables) {
			return fmt.Errorf("a part of rows with %d weights and %d tensors, in %d tables", p.Width, len(p.Tensors), len(m.Tables))
		}
		if p.Init != "" && p.Init != InitZero {
			return fmt.Errorf("a part of rows whose weights start as %q", p.Init)
		}
		width += p.Width
	}
	if width != m.Width {
		return fmt.Errorf("rows of %d weights whose parts have %d", m.Width, width)
	}
	return nil
}

// denseBytes is the length of the dense weights, statistics included.
func (m *Model) denseBytes() int64 { return bytesOf(m.weights()) }

// stateBytes is the length of their optimizer state.
func (m *Model) stateBytes() int64 { return bytesOf(m.Tensors) * int64(m.DenseState) }

func bytesOf(tensors []Tensor) (total int64) {
	for _, t := range tensors {
		n, _ := safetensors.Spec{Name: t.Name, Shape: t.Shape}.Bytes() // checked before
		total += n
	}
	return total
}

// check finds values that no model has.
func (m *Model) check() error {
	switch {
	case m.Width < 1 || m.RowState < 0 || m.Width > maxFloats || m.RowState > maxFloats:
		return fmt.Errorf("rows of %d weights and %d floats of state", m.Width, m.RowState)
	case m.DenseState < 0 || m.DenseState > maxStates:
		return fmt.Errorf("%d floats of state for each dense weight", m.DenseState)
	case len(m.Tables) > maxTables:
		return fmt.Errorf("%d tables", len(m.Tables))
	}
	if err := m.checkParts(); err != nil {
		return err
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

// listDifferences lists how a checkpoint's model differs from that of this run.
func (m *Model) listDifferences(run *Model) string {
	var list []string
	add := func(what string, there, here any) {
		if t, h := fmt.Sprint(there), fmt.Sprint(here); t != h {
			list = append(list, fmt.Sprintf("%s is %s there, %s here", what, t, h))
		}
	}
	add("model.kind", m.Kind, run.Kind)
	add("job.seed", m.Seed, run.Seed)
	if len(m.Parts)+len(run.Parts) == 0 {
		add("model.embedding_dim", m.Width, run.Width)
	} else {
		add("row", m.RowText(), run.RowText())
	}
	add("optimizer.sparse.kind", m.Sparse, run.Sparse)
	for k := range min(len(m.Parts), len(run.Parts)) {
		there, here := m.Parts[k], run.Parts[k]
		name := strings.Join(here.Tensors[:min(1, len(here.Tensors))], "")
		add("update rule of "+name, cmp.Or(there.Optimizer, "that of the whole row"), cmp.Or(here.Optimizer, "that of the whole row"))
		add("initial weights of "+name, cmp.Or(there.Init, "drawn"), cmp.Or(here.Init, "drawn"))
	}
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
		for _, t := range m.weights() {
			s[t.Name] = fmt.Sprint(t.Shape)
		}
		return s
	}
	there, here := shapes(m), shapes(run)
	for _, t := range m.weights() {
		if _, ok := here[t.Name]; !ok {
			add(t.Name, there[t.Name], "missing")
		}
	}
	for _, t := range run.weights() {
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
