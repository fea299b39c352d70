package bench

import (
	"io"
	"testing"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/placement"
)

func TestLoadCountsEveryDelta(t *testing.T) {
	o := Options{Tiny: true, Args: []string{"ranks=6", "r=2"}}
	r, err := loadBench.Run(io.Discard, o)
	if err != nil {
		t.Fatal(err)
	}
	means := map[string]float64{}
	for _, f := range r.Figures {
		if f.Name == "updates" {
			means[f.Case["rows"]+" "+f.Case["deltas"]] = f.Median
		}
	}
	for _, way := range []string{"in turn ", "ranges "} {
		rows, each, commits := means[way+"none"], means[way+"each update"], means[way+"each commit"]
		if rows <= 0 || each < 2.999*rows || each > 3.001*rows {
			t.Errorf("%s%v updates, with two parities %v", way, rows, each)
		}
		if commits <= 2*rows || commits >= each { // steps share some rows, not all
			t.Errorf("%swith deltas of commits %v of between %v and %v", way, commits, rows, each)
		}
	}
}

func TestWaysToSpreadAreWhole(t *testing.T) {
	place := placement.New([]int64{7, 30, 1, 12}, 4)
	for _, w := range waysToSpread(place, 4) {
		seen := map[[2]int64]bool{}
		for row := range place.Rows() {
			owner, slot := w.owner(row)
			if owner < 0 || owner >= 4 || seen[[2]int64{int64(owner), slot}] {
				t.Errorf("%s: row %d is at owner %d, slot %d, as another or nowhere", w.name, row, owner, slot)
			}
			seen[[2]int64{int64(owner), slot}] = true
		}
	}
}

func TestToParities(t *testing.T) {
	layout, err := ec.NewLayout(5, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	folds := make([]float64, 5)
	toParities(layout, 2, 0, folds)
	sum := 0.0
	for _, n := range folds {
		sum += n
	}
	if sum != 1 || folds[2] != 0 {
		t.Errorf("the delta of a row of owner 2 goes to %v: want one other owner", folds)
	}
}
