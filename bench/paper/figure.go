package paper

import (
	"time"

	"github.com/ecrec/ecrec/bench"
)

// Figure is one figure or table: the paper's values, ours, and the checks of its shape.
type Figure struct {
	ID     string `json:"id"`     // "B7"
	Paper  string `json:"paper"`  // "BagPipe"
	Number string `json:"number"` // "fig. 7"
	Title  string `json:"title"`  // in our words
	Mark   Mark   `json:"mark"`
	X      Axis   `json:"x"`
	Y      Axis   `json:"y"`
	// Bars reports whether the values are drawn as groups of bars, one for each x, in place of lines over x.
	Bars   bool     `json:"bars,omitempty"`
	Series []Series `json:"series,omitempty"`
	// Values are the paper's, from papers.toml.
	Values []PaperValue `json:"values,omitempty"`
	Params []Param      `json:"params,omitempty"`
	Checks []Check      `json:"checks,omitempty"`
	// Notes are sentences about baselines, data and contradictions: each says whether it makes a system stronger or weaker than the
	// paper's.
	Notes []string `json:"notes,omitempty"`
	// Other is the reason why our values are of another quantity than the paper's; empty: they are of the same.
	Other string `json:"other,omitempty"`
	// Why is the reason why the figure has no values of ours. Impossible reports whether no machine like this one can have them.
	Why        string `json:"why,omitempty"`
	Impossible bool   `json:"impossible,omitempty"`
	// Error is that of a run or of the drawing.
	Error    string    `json:"error,omitempty"`
	Commands []string  `json:"commands,omitempty"` // that repeat it
	Loads    []RunLoad `json:"loads,omitempty"`    // of its timed runs
	Commit   string    `json:"commit,omitempty"`
	When     time.Time `json:"when,omitzero"`
}

// RunLoad is the load of the machine during a timed run, as shares of all cores: processes of others, and the host.
type RunLoad struct {
	Run    string  `json:"run"`
	Others float64 `json:"others"`
	Steal  float64 `json:"steal"`
	Busy   bool    `json:"busy,omitempty"` // so much that times are doubtful
}

// Axis is the quantity of an axis.
type Axis struct {
	Name string `json:"name" toml:"name"`
	Unit string `json:"unit,omitempty" toml:"unit"`
	// Log reports whether the axis is logarithmic.
	Log bool `json:"log,omitempty" toml:"log"`
}

// Series is the values of one system.
type Series struct {
	System string         `json:"system"`
	Kind   bench.Evidence `json:"kind"`
	Points []Point        `json:"points"`
	// Dashed marks a series that is no measurement by itself: a mean, a bound, an ideal.
	Dashed bool `json:"dashed,omitempty"`
}

// Point is one value, with its spread.
type Point struct {
	// X is the place on a numeric axis, and Label explains it. Of bars and tables, Label is the place, and X its order. A point with a
	// label and without X is beside the lines: in the table alone.
	X     float64 `json:"x"`
	Label string  `json:"label,omitempty"`
	Y     float64 `json:"y"`
	Least float64 `json:"least"`
	Most  float64 `json:"greatest"`
	N     int     `json:"n"`
	// Single marks a time that was taken once, so that nothing is known about its spread.
	Single bool `json:"single,omitempty"`
	// Few marks a time with too few repeats for an interval of 95 %: its spread is from the least to the greatest of them.
	Few  bool   `json:"few,omitempty"`
	Unit string `json:"unit,omitempty"` // of a table whose values differ in unit; empty: that of the axis
}

// PaperValue is a value of the paper.
type PaperValue struct {
	System string  `json:"system" toml:"system"`
	X      float64 `json:"x" toml:"x"`
	Label  string  `json:"label,omitempty" toml:"label"`
	Y      float64 `json:"y" toml:"y"`
	Unit   string  `json:"unit,omitempty" toml:"unit"`
	// Section is the place in the paper. From is empty for a number in the text; "computed" for one computed from its numbers, as How
	// shows; "code" for one in the paper's public code.
	Section string `json:"section" toml:"section"`
	From    string `json:"from,omitempty" toml:"from"`
	How     string `json:"how,omitempty" toml:"how"`
}

// Param is a parameter of the paper's experiment and of ours.
type Param struct {
	Name  string `json:"name"`
	Paper string `json:"paper"`
	Ours  string `json:"ours"`
}

// Check is a statement about the shape of a figure.
type Check struct {
	Text  string `json:"text"`
	Holds bool   `json:"holds"`
	// Seen has the numbers behind the verdict.
	Seen string `json:"seen"`
	// Unclear reports whether the spread of the values does not allow a verdict; Holds is then false.
	Unclear bool `json:"unclear,omitempty"`
	// Few reports whether the verdict is that of a few repeats: it agrees or disagrees, and is no evidence that the shape holds or differs.
	Few bool `json:"few,omitempty"`
}
