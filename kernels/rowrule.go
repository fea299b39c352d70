package kernels

import "fmt"

// MaxRowParts is the most parts that a row can have.
const MaxRowParts = 4

// RowPart is one step of a rule over Width consecutive weights of a row.
type RowPart struct {
	Width int
	Optimizer
}

// RowRule is one step of the rules of a row: one for each part. A row holds the weights of all
// parts in order, so that they are one span. The state of part 0 follows, then that of part 1,
// and so on, each as OptimizerKind.RowState describes. A sum within a row, such as the mean of
// rowwise_adagrad, runs within a part.
type RowRule struct {
	count int
	parts [MaxRowParts]RowPart
	all   bool
}

// WholeRow is the rule of rows of a single part, of any width.
func WholeRow(opt Optimizer) RowRule {
	return RowRule{count: 1, parts: [MaxRowParts]RowPart{{Optimizer: opt}}}
}

// RowParts is the rule of rows with these parts.
func RowParts(parts ...RowPart) (r RowRule) {
	if len(parts) == 0 || len(parts) > MaxRowParts {
		panic(fmt.Sprintf("kernels: rows of %d parts: 1 to %d are possible", len(parts), MaxRowParts))
	}
	r.count = copy(r.parts[:], parts)
	return r
}

// Scaled is the rule with this Scale in each part.
func (r RowRule) Scaled(by float32) RowRule {
	for k := range r.parts[:r.count] {
		r.parts[k].Scale = by
	}
	return r
}

// ForAllRows is the rule for an owner that updates all its rows at a step, those without a
// gradient by a gradient of 0. UpdateRows is called with the rows; it does not choose them.
func (r RowRule) ForAllRows() RowRule {
	r.all = true
	return r
}

// MovesAllRows reports whether the rule is ForAllRows.
func (r RowRule) MovesAllRows() bool { return r.all }

// MovesFreshRows reports whether a gradient of 0 moves a row whose state is 0: its weights decay.
func (r *RowRule) MovesFreshRows() bool {
	for _, p := range r.parts[:r.count] {
		if p.Decay != 0 || p.Kind.Rule().Decouples && p.Keep != 1 {
			return true
		}
	}
	return false
}

// rowSpan is the place of a part in a row: its weights, and its state.
type rowSpan struct{ first, width, state, states int }

// layOut finds the places of the parts in a row of cols floats, of which d are weights. It
// sets the width of the single part of WholeRow.
func (r *RowRule) layOut(op string, d, cols int) (spans [MaxRowParts]rowSpan) {
	if r.count == 1 && r.parts[0].Width == 0 {
		r.parts[0].Width = d
	}
	width, state := 0, 0
	for k, p := range r.parts[:r.count] {
		n := p.Kind.RowState(p.Width)
		spans[k] = rowSpan{first: width, width: p.Width, state: d + state, states: n}
		width, state = width+p.Width, state+n
	}
	if d == 0 || width != d || cols != d+state {
		panic(fmt.Sprintf("kernels: %s: rows of %d floats for %d weights with %d of state", op, cols, d, state))
	}
	return spans
}
