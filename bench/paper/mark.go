package paper

import "slices"

// Mark is the state of a figure in a report.
type Mark string

// The marks.
const (
	ShapeHolds   Mark = "shape holds"
	ShapeDiffers Mark = "shape differs"
	ShapeUnclear Mark = "unclear"
	NoChecks     Mark = "drawn, no checks"
	NotRun       Mark = "not run"
	Impossible   Mark = "impossible here"
	Failed       Mark = "failed"
)

// marks lists them in the order of the page, with their meaning and their class.
var marks = []struct {
	Mark  Mark
	Class string
	Means string
}{
	{ShapeHolds, "holds", "all checks of the shape hold"},
	{ShapeDiffers, "differs", "a check fails"},
	{ShapeUnclear, "unclear", "no check fails, but the spread of a value allows no verdict on one"},
	{NoChecks, "drawn", "values without a check"},
	{NotRun, "notrun", "no values in this report; the line has the reason"},
	{Impossible, "impossible", "no machine like this one can show it; the line has the reason"},
	{Failed, "failed", "a run or the drawing ended with an error"},
}

func (f *Figure) findMark() Mark {
	fails := func(c Check) bool { return !c.Holds && !c.Unclear }
	switch {
	case f.Error != "":
		return Failed
	case f.Impossible:
		return Impossible
	case len(f.Series) == 0:
		return NotRun
	case slices.ContainsFunc(f.Checks, fails):
		return ShapeDiffers
	case slices.ContainsFunc(f.Checks, func(c Check) bool { return c.Unclear }):
		return ShapeUnclear
	case len(f.Checks) == 0:
		return NoChecks
	}
	return ShapeHolds
}
