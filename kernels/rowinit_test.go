package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestFirsts: the first weights of many rows are those that Row draws.
func TestFirsts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	r := RowInit{Seed: seed, Owners: 1, Base: []int64{0, 10, 1000, 5000}, Scale: []float32{0.5, 0, 0.1}, Width: 4}
	row := make([]float32, 4)
	for n := range 20 {
		globals, firsts := make([]int64, n), make([]float32, n)
		for i := range globals {
			globals[i], firsts[i] = rnd.Int64N(5000), 7
		}
		r.Firsts(firsts, globals)
		for i, g := range globals {
			if r.Row(row, g); math.Float32bits(firsts[i]) != math.Float32bits(row[0]) || math.Float32bits(r.First(g)) != math.Float32bits(row[0]) {
				t.Fatalf("row %d, the %dth of %d: %v, of one alone %v, want %v", g, i, n, firsts[i], r.First(g), row[0])
			}
		}
	}
}
