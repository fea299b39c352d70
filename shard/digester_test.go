package shard

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
)

// TestAppendTerms: terms of many rows are those of each row by itself: of rows that are their init, that differ in weights or in
// state alone, and of skipped ones.
func TestAppendTerms(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 9))
	for _, state := range []int{0, 1, width} {
		o := Options{Map: placement.New(tables, 1), Seed: seed, Width: width, State: state}
		d, init := NewDigester(o), InitOf(o)
		for _, n := range []int{0, 1, 2, 7, 64} {
			rows, globals, skip := make([]float32, n*(width+state)), make([]int64, n), make([]bool, n)
			for i := range globals {
				row := rows[i*(width+state):][:width+state]
				globals[i], skip[i] = r.Int64N(init.Base[len(init.Base)-1]), r.IntN(4) == 0
				init.Row(row[:width], globals[i])
				switch r.IntN(4) {
				case 0:
					row[r.IntN(len(row))] += 1
				case 1:
					row[len(row)-1] = float32(math.Copysign(0, -1)) // other bytes than an init's
				case 2:
					row[0] = r.Float32()
				}
			}
			for _, skip := range [][]bool{nil, skip} {
				got := d.AppendTerms(nil, globals, kernels.BytesOf(rows), skip)
				for i, g := range globals {
					want := digest.Sum{}
					if skip == nil || !skip[i] {
						want = d.Term(g, kernels.BytesOf(rows[i*(width+state):][:width+state]))
					}
					if got[i] != want {
						t.Fatalf("state %d, row %d of %d: term %v, want %v", state, i, n, got[i], want)
					}
				}
			}
		}
	}
}
