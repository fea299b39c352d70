package data_test

import (
	"fmt"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
)

// Two ranks share global batches of six samples. Rank 1 reads its slices of steps 1 and 2 in the
// background.
func ExampleReader() {
	e := env.Real()
	src, err := data.Open(data.Options{Env: e, Format: data.FormatSynthetic, Tables: []int64{10, 1000}, Seed: 42})
	if err != nil {
		panic(err)
	}
	defer src.Close()
	order := data.Order{Samples: 600, Batch: 6}
	r := data.NewReader(e, src, order, 1, 2, 1, 2, 2, 1)
	defer r.Close()
	for range 2 {
		b, err := r.Next()
		if err != nil {
			panic(err)
		}
		fmt.Printf("step %d: %d of %d samples, %d labels, %d ids\n", b.Step, b.N, b.GlobalN, len(b.Labels), len(b.IDs))
		r.Release(b)
	}
	fmt.Println("an epoch has", order.StepsPerEpoch(), "steps; step 101 trains samples", order.Slice(101, 0, 1, nil))
	// Output:
	// step 1: 3 of 6 samples, 3 labels, 6 ids
	// step 2: 3 of 6 samples, 3 labels, 6 ids
	// an epoch has 100 steps; step 101 trains samples [0 1 2 3 4 5]
}
