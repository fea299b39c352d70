package modeltest

import (
	"math/rand/v2"
	"testing"

	"github.com/ecrec/ecrec/kernels"
)

// testBags compares the gradients of rows with finite differences if features are bags: empty ones,
// equal ids, weights, sums and means.
func testBags(t *testing.T, s Suite) {
	kinks, all := 0, 0
	for draw := range uint64(8) { // with batch norm some draws have many kinks
		if kinks, all = compareBags(t, s, rand.New(rand.NewPCG(7, draw))); kinks*4 <= all {
			return
		}
	}
	t.Fatalf("%d of %d gradients could not be checked", kinks, all)
}

// compareBags returns the number of gradients, and how many of them could not be checked.
func compareBags(t *testing.T, s Suite, r *rand.Rand) (kinks, all int) {
	g := newRig(t, s.Small, r)
	features, distinct := s.Small.Tables, g.in.Rows.Rows
	offsets, index, weights, mean := []int32{0}, []int32{}, []float32{}, make([]int32, features)
	for range samples * features {
		for range r.IntN(4) {
			index, weights = append(index, int32(r.IntN(distinct))), append(weights, r.Float32()+0.5)
		}
		offsets = append(offsets, int32(len(index)))
	}
	for f := range mean {
		mean[f] = int32(f+1) % 2
	}
	g.in.Index, g.in.Offsets = kernels.HostBuffer(index), kernels.HostBuffer(offsets)
	g.in.Weights, g.in.Mean = kernels.HostBuffer(weights), kernels.HostBuffer(mean)
	g.step(nil)
	g.in.DivideGrad(g.stream, g.lookups)
	view, rows := kernels.HostView[float32](g.lookups.Buf), make([]float32, len(g.rows))
	for c := range samples * features {
		at := c/features*g.lookups.Stride + c%features*g.width
		for l := offsets[c]; l < offsets[c+1]; l++ {
			for k := range g.width {
				rows[int(index[l])*g.width+k] += weights[l] * view[at+k]
			}
		}
	}
	for i, got := range rows {
		near, far, smooth := g.slopes(&g.rows[i])
		if !smooth {
			kinks++
		} else if !agree(near, float64(got)) && !agree(far, float64(got)) {
			t.Errorf("row[%d]: gradient %v, slopes %v, %v", i, got, near, far)
		}
	}
	return kinks, len(rows)
}
