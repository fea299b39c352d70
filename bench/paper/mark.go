package paper

import "slices"

// Mark is the state of a figure in a report.
type Mark string

// The marks.
const (
	ShapeHolds     Mark = "shape holds"
	ShapeAgrees    Mark = "agrees, too few repeats"
	ShapeDiffers   Mark = "shape differs"
	ShapeDisagrees Mark = "disagrees, too few repeats"
	ShapeUnclear   Mark = "unclear"
	OtherQuantity  Mark = "other quantity"
	NoChecks       Mark = "drawn, no checks"
	NotRun         Mark = "not run"
	Impossible     Mark = "impossible here"
	Failed         Mark = "failed"
)

// marks lists them in the order of the page, with their meaning and their class.
var marks = []struct {
	Mark  Mark
	Class string
	Means string
}{
	{ShapeHolds, "holds", "all checks of the shape hold, by counts, by virtual times, or by times with at least 6 repeats"},
	{ShapeAgrees, "agrees", "all checks hold in all repeats, but a time has fewer than 6 of them: too few to show it with 95 %"},
	{ShapeDiffers, "differs", "a check fails, by counts, by virtual times, or by times with at least 6 repeats"},
	{ShapeDisagrees, "disagrees", "a check fails in all repeats, but a time has fewer than 6 of them: too few to show it with 95 %"},
	{ShapeUnclear, "unclear", "no check fails, but the spread of a value allows no verdict on one"},
	{OtherQuantity, "other", "our values are of another quantity than the paper's, so no check compares them with it"},
	{NoChecks, "drawn", "values without a check"},
	{NotRun, "notrun", "no values in this report; the line has the reason"},
	{Impossible, "impossible", "no machine like this one can show it; the line has the reason"},
	{Failed, "failed", "a run or the drawing ended with an error"},
}

func (f *Figure) findMark() Mark {
	fails := func(c Check) bool { return c.fails() && !c.Few }
	switch {
	case f.Error != "":
		return Failed
	case f.Impossible:
		return Impossible
	case len(f.Series) == 0:
		return NotRun
	case slices.ContainsFunc(f.Checks, fails):
		return ShapeDiffers
	case slices.ContainsFunc(f.Checks, Check.fails):
		return ShapeDisagrees
	case f.Other != "":
		return OtherQuantity
	case slices.ContainsFunc(f.Checks, func(c Check) bool { return c.Unclear }):
		return ShapeUnclear
	case len(f.Checks) == 0:
		return NoChecks
	case slices.ContainsFunc(f.Checks, func(c Check) bool { return c.Few }):
		return ShapeAgrees
	}
	return ShapeHolds
}
