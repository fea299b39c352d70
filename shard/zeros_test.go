package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
)

// TestDenseAdam compares rows with a table that torch.optim.Adam updates at each step, with zeros
// for the rows that the step does not use, in float64.
func TestDenseAdam(t *testing.T) {
	for _, decay := range []float64{0, 0.1} {
		t.Run(fmt.Sprint("decay ", decay), func(t *testing.T) { testDenseAdam(t, decay) })
	}
}

func testDenseAdam(t *testing.T, decay float64) {
	const rows, width, steps, lr, b1, b2 = 200, 5, 30, 0.01, 0.9, 0.999
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := dev.Stream(2)
	defer s.Close()
	h, err := New(dev, s, Options{Map: placement.New([]int64{rows}, 1), Seed: 3, Width: width, State: 2 * width, Packed: inPacked})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	init, all := h.Init(), make([]float32, rows*width)
	w, m, v := make([]float64, rows*width), make([]float64, rows*width), make([]float64, rows*width)
	for row := range rows {
		init.Row(all[row*width:], int64(row))
	}
	for i, x := range all {
		w[i] = float64(x)
	}
	r := rand.New(rand.NewPCG(8, 8))
	for step := 1; step <= steps; step++ {
		var slots []int32
		for slot := range int32(rows / 2) { // no step uses the others
			if r.IntN(7) == 0 {
				slots = append(slots, slot)
			}
		}
		grads, start, pos := make([]float32, len(slots)*width+width), []int32{0}, []int32{}
		dense := make([]float64, rows*width)
		for u, slot := range slots {
			start, pos = append(start, int32(u+1)), append(pos, int32(u))
			for j := range width {
				grads[u*width+j] = 2*r.Float32() - 1
				dense[int(slot)*width+j] = float64(grads[u*width+j])
			}
		}
		c1, c2 := 1-math.Pow(b1, float64(step)), 1-math.Pow(b2, float64(step))
		o := kernels.Optimizer{Kind: kernels.Adam, Eps: 1e-8, Beta1: b1, Beta2: b2, C1: 0.1, C2: 0.001,
			StepSize: float32(lr / c1), BiasSqrt: float32(math.Sqrt(c2)), Decay: float32(decay)}
		if err := h.Apply(kernels.WholeRow(o).ForAllRows(), slots, kernels.Mat(kernels.HostBuffer(grads), len(slots)+1, width),
			kernels.HostBuffer(start), kernels.HostBuffer(pos)); err != nil {
			t.Fatal(err)
		}
		for i, g := range dense {
			g += decay * w[i]
			m[i], v[i] = b1*m[i]+0.1*g, b2*v[i]+0.001*g*g
			w[i] -= lr / c1 * m[i] / (math.Sqrt(v[i])/math.Sqrt(c2) + 1e-8)
		}
	}
	if err := h.Export(all, 0, rows); err != nil {
		t.Fatal(err)
	}
	for i, x := range all {
		if math.Abs(float64(x)-w[i]) > 1e-5 {
			t.Fatalf("weight %d of row %d is %v, want %v", i%width, i/width, x, w[i])
		}
	}
	if touched := h.Touched(); decay == 0 && touched > rows/2 || decay != 0 && touched != rows {
		t.Errorf("%d of %d rows are touched", touched, rows)
	}
}
