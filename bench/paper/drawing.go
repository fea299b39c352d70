package paper

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// Size is how much a report measures.
type Size int

// The sizes.
const (
	// Tiny runs exercise the code, for tests.
	Tiny Size = iota
	// Quick runs are to take less than 10 minutes in all on 2 cores: counts, virtual time, small measurements.
	Quick
	// Full runs are to take less than two hours in all.
	Full
)

// Run is one run of a benchmark.
type Run struct {
	Bench   string   `json:"bench"`
	Args    []string `json:"args,omitempty"`    // settings, KEY=VALUE
	Repeats int      `json:"repeats,omitempty"` // 0: the default of the benchmark
}

// Drawing makes one figure.
type Drawing struct {
	ID string
	// Runs returns the runs of a size. Drawings may share runs: equal ones run once.
	Runs func(Size) []Run
	// Draw fills in axes, series, parameters, checks and notes from the reports of the runs, in their order.
	Draw func(*Figure, []*bench.Report) error
	// Why is the reason why there are no runs; Runs and Draw are then nil.
	Why        string
	Impossible bool
}

// point returns the value of the figure of a report that has a name, and the given values of its case: KEY, VALUE, KEY, VALUE.
func point(r *bench.Report, x float64, label, name string, of ...string) (Point, bench.Evidence, error) {
	for _, f := range r.Figures {
		if f.Name != name || !hasCase(f.Case, of) {
			continue
		}
		return pointOf(f, x, label), f.Evidence, nil
	}
	return Point{}, "", fmt.Errorf("the report of %s has no figure %q of %v", r.Bench, name, of)
}

func hasCase(c map[string]string, of []string) bool {
	for i := 0; i+1 < len(of); i += 2 {
		if c[of[i]] != of[i+1] {
			return false
		}
	}
	return true
}

// String is the command line of the run, without the program: it identifies the run.
func (r Run) String() string {
	words := append([]string{"bench", r.Bench}, r.Args...)
	if r.Repeats > 0 {
		words = append(words, "--repeats", strconv.Itoa(r.Repeats))
	}
	return strings.Join(words, " ")
}
