package plan

import "testing"

// Buckets are reduced one after another, none before the backward pass has its gradients.
func TestDenseRest(t *testing.T) {
	for _, c := range []struct {
		buckets               []int
		dense, backward, rest float64
	}{
		{[]int{4}, 4, 4, 4},          // begins when the pass ends
		{[]int{1, 1, 1, 1}, 4, 4, 1}, // only the last one is left
		{[]int{3, 1}, 4, 4, 3},       // from 3 to 6, and then to 7
		{[]int{1, 3}, 4, 4, 3},       // from 1 to 2, and from 4 to 7
		{[]int{2, 2}, 1, 4, 0.5},
		{nil, 0, 4, 0},
	} {
		j := Job{Buckets: c.buckets}
		if rest := j.denseRest(c.dense, c.backward); rest != c.rest {
			t.Errorf("%v: %v of %v is left after %v, not %v", c.buckets, rest, c.dense, c.backward, c.rest)
		}
	}
}
