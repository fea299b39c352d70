package optimizertest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/kernels"
)

// Reference applies one step of a rule to the weights w of one row, with the
// gradients g. state holds the first float of state of each weight, then the second;
// or the state of the row. Each operation is in float32, rounded by itself.
type Reference func(o *kernels.Optimizer, w, state, g []float32)

// steps is how often weights are updated, each time with other gradients.
const steps = 3

// Run runs the suite on the rule of a name.
func Run(t *testing.T, name string, ref Reference) {
	RunOnCPU(t, name, ref)
	t.Run("CUDA", func(t *testing.T) {
		standin.Use(t, kernels.CUDASource(), 1)
		dev, err := kernels.NewCUDA(kernels.CUDAConfig{})
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := kernels.FindRule(name)
		testOn(t, &rig{dev, dev.Stream(1), rand.New(rand.NewPCG(1, 2))}, kind, ref)
	})
}

// RunOnCPU is Run for a rule that has no CUDA version yet.
func RunOnCPU(t *testing.T, name string, ref Reference) {
	kind, ok := kernels.FindRule(name)
	if !ok {
		t.Fatalf("no update rule %q in kernels.Rules", name)
	}
	t.Run("Entry", func(t *testing.T) { testEntry(t, kind) })
	t.Run("CPU", func(t *testing.T) {
		dev, err := kernels.NewCPU(kernels.CPUOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, threads := range []int{1, 3} {
			testOn(t, &rig{dev, dev.Stream(threads), rand.New(rand.NewPCG(1, 2))}, kind, ref)
		}
	})
}

// testEntry checks the entry of the registry.
func testEntry(t *testing.T, kind kernels.OptimizerKind) {
	r := kind.Rule()
	switch {
	case r.Name == "" || r.Doc == "" || r.Update == nil:
		t.Errorf("the entry has no name, no formula or no body: %+v", r)
	case r.StatePerWeight < 0 || r.StatePerWeight > 2 || r.StatePerRow < 0 || r.StatePerWeight > 0 && r.StatePerRow > 0:
		t.Errorf("%d floats of state per weight and %d per row: use up to 2 per weight, or some per row", r.StatePerWeight, r.StatePerRow)
	case r.Reads("eps") != (r.Eps > 0):
		t.Errorf("the default of eps is %v, and the rule reads it: %t", r.Eps, r.Reads("eps"))
	}
	for _, key := range r.Keys {
		if !slices.Contains([]string{"momentum", "eps", "betas", "beta", "l1", "l2"}, key) {
			t.Errorf("key %q is not one of [optimizer.*] that only some rules read", key)
		}
	}
	for _, width := range []int{1, 16} {
		if want := r.StatePerWeight*width + r.StatePerRow; kind.RowState(width) != want {
			t.Errorf("a row of %d weights has %d floats of state, want %d", width, kind.RowState(width), want)
		}
	}
}

func testOn(t *testing.T, g *rig, kind kernels.OptimizerKind, ref Reference) {
	defer g.s.Close()
	for _, width := range []int{1, 3, 8, 13, 48} {
		for _, decay := range decays(kind) {
			t.Run(fmt.Sprintf("Rows of %d, decay %v", width, decay), func(t *testing.T) { g.testRows(t, kind, ref, width, decay) })
		}
	}
	if !kind.Rule().Dense() {
		return
	}
	for _, n := range []int{0, 1, 7, 8, 1000, 40_003} {
		for _, decay := range decays(kind) {
			t.Run(fmt.Sprintf("Dense of %d, decay %v", n, decay), func(t *testing.T) { g.testDense(t, kind, ref, n, decay) })
		}
	}
}

// decays lists the weight decays that a rule is tested with.
func decays(kind kernels.OptimizerKind) []float32 {
	if kind.Rule().Decouples {
		return []float32{0} // by Optimizer.Keep
	}
	return []float32{0, 0.25}
}

// scale is that of the gradients in tests with weight decay.
const scale = 0.75

// addDecay scales a gradient and adds weight decay to it.
func addDecay(g, w []float32, decay float32) {
	if decay == 0 {
		return
	}
	for i := range g {
		g[i] = float32(scale*g[i]) + float32(decay*w[i])
	}
}

// optimizer is a step of a rule, with a value for everything that a rule may read.
func optimizer(kind kernels.OptimizerKind, step int, decay float32) (o kernels.Optimizer) {
	power := func(b float64) float64 { return math.Pow(b, float64(step)) }
	o = kernels.Optimizer{Kind: kind, LR: 0.02, Momentum: 0.9, Eps: 1e-8, Beta1: 0.9, Beta2: 0.999, C1: 0.1, C2: 0.001,
		StepSize: float32(0.02 / (1 - power(0.9))), BiasSqrt: float32(math.Sqrt(1 - power(0.999))),
		Beta: 0.5, L1: 0.125, L2: 0.01, Decay: decay, Keep: 0.99}
	if decay != 0 {
		o.Scale = scale
	}
	return o
}

// testDense updates n dense weights.
func (g *rig) testDense(t *testing.T, kind kernels.OptimizerKind, ref Reference, n int, decay float32) {
	weights, state := g.random(n), make([]float32, kind.DenseState(n))
	w, st := g.alloc(t, weights), g.alloc(t, state)
	for step := range steps {
		gradients := g.random(n)
		opt := optimizer(kind, step+1, decay)
		grads := g.alloc(t, gradients)
		g.s.UpdateDense(opt, w, st, grads)
		addDecay(gradients, weights, decay)
		ref(&opt, weights, state, gradients)
		g.free(t, grads)
	}
	g.compare(t, "weights", w, weights)
	g.compare(t, "state", st, state)
	g.free(t, w, st)
}

// testRows updates some rows of a table: each by the sum of the gradients of its
// lookups, in order.
func (g *rig) testRows(t *testing.T, kind kernels.OptimizerKind, ref Reference, width int, decay float32) {
	const rows, lookups = 120, 500
	cols := width + kind.RowState(width)
	table := make([]float32, rows*cols)
	for i := range rows {
		copy(table[i*cols:], g.random(width))
	}
	device := g.alloc(t, table)
	for step := range steps {
		slots := make([]int32, 40) // the other rows are not touched
		for i, x := range g.r.Perm(rows)[:len(slots)] {
			slots[i] = int32(x)
		}
		start, pos := make([]int32, len(slots)+1), make([]int32, 0, lookups)
		for i := range slots {
			for range i % 4 * (1 + i%7*5) {
				pos = append(pos, int32(g.r.IntN(lookups)))
			}
			start[i+1] = int32(len(pos))
		}
		gradients, opt := g.random(lookups*width), optimizer(kind, step+1, decay)
		grads := g.alloc(t, gradients)
		g.s.UpdateRows(kernels.WholeRow(opt), kernels.Mat(device, rows, cols), kernels.HostBuffer(slots), kernels.Mat(grads, lookups, width),
			kernels.HostBuffer(start), kernels.HostBuffer(pos))
		for i, slot := range slots {
			sum := make([]float32, width)
			for _, p := range pos[start[i]:start[i+1]] {
				for k := range sum {
					sum[k] += gradients[int(p)*width+k]
				}
			}
			row := table[int(slot)*cols:][:cols]
			addDecay(sum, row[:width], decay)
			ref(&opt, row[:width], row[width:], sum)
		}
		g.free(t, grads)
	}
	g.compare(t, "rows", device, table)
	g.free(t, device)
}

// rig is a stream with random operands.
type rig struct {
	dev kernels.Device
	s   kernels.Stream
	r   *rand.Rand
}

// random draws n floats of both signs, some of them zeros, large or tiny.
func (g *rig) random(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = 2*g.r.Float32() - 1
		switch g.r.IntN(50) {
		case 0:
			v[i] = 0
		case 1:
			v[i] *= 1e12
		case 2:
			v[i] *= 1e-30
		}
	}
	return v
}

// alloc puts floats on the device.
func (g *rig) alloc(t *testing.T, v []float32) kernels.Buffer {
	t.Helper()
	if len(v) == 0 {
		return kernels.Buffer{}
	}
	b, err := g.dev.Alloc(4*len(v), kernels.Working)
	if err != nil {
		t.Fatal(err)
	}
	g.s.Upload(b, kernels.BytesOf(v))
	return b
}

// free waits for all operations first.
func (g *rig) free(t *testing.T, list ...kernels.Buffer) {
	t.Helper()
	if err := g.s.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, b := range list {
		if b.Bytes() > 0 {
			g.dev.Free(b)
		}
	}
}

// compare compares floats on the device bit by bit; any NaN equals any other.
func (g *rig) compare(t *testing.T, what string, b kernels.Buffer, want []float32) {
	t.Helper()
	got := make([]float32, len(want))
	g.s.Download(kernels.BytesOf(got), b)
	if err := g.s.Sync(); err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if math.Float32bits(got[i]) != math.Float32bits(w) && !(got[i] != got[i] && w != w) {
			t.Fatalf("%s: float %d is %g, the reference gives %g", what, i, got[i], w)
		}
	}
}
