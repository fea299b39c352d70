package oracle_test

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/oracle"
)

// A rank plans its slice: three samples with one id for each of two tables. Two owners store the
// rows.
func ExamplePlan() {
	place := placement.New([]int64{10, 10}, 2)
	ids := []uint32{
		4, 7, // sample 0
		4, 2, // sample 1
		5, 7, // sample 2
	}
	var p oracle.Plan
	p.Fill(place, oracle.Lookups{IDs: ids})

	fmt.Println("rows of each owner:", p.PerOwner)
	fmt.Println("their slots:", p.Slots)
	for lookup, row := range p.Index {
		fmt.Printf("sample %d, table %d reads row %d of the plan\n", lookup/2, lookup%2, row)
	}
	// Output:
	// rows of each owner: [2 2]
	// their slots: [2 6 2 8]
	// sample 0, table 0 reads row 0 of the plan
	// sample 0, table 1 reads row 3 of the plan
	// sample 1, table 0 reads row 0 of the plan
	// sample 1, table 1 reads row 1 of the plan
	// sample 2, table 0 reads row 2 of the plan
	// sample 2, table 1 reads row 3 of the plan
}

// A window of two steps plans the caches of two trainers for the rows of one owner. Row 1 is used
// by trainer 0 alone, row 2 by both.
func ExampleWindow() {
	w := oracle.NewWindow(oracle.WindowOptions{Trainers: 2, Lookahead: 1})
	var step oracle.Merged
	step.Merge([]int32{1, 2 /* trainer 1: */, 2}, []int{2, 1})
	w.Add(step.Slots, step.Start, step.Pos, []int{2, 1})
	step.Merge([]int32{1}, []int{1, 0})
	w.Add(step.Slots, step.Start, step.Pos, []int{1, 0})
	w.End()

	var d oracle.Decisions
	for w.Ready() {
		if err := w.Next(&d); err != nil {
			panic(err)
		}
		for i, slot := range d.Slots {
			fmt.Printf("step %d: row %d, shared: %t\n", d.Step, slot, d.Holder[i] == oracle.Shared)
		}
	}
	// Output:
	// step 0: row 1, shared: false
	// step 0: row 2, shared: true
	// step 1: row 1, shared: false
}
