package modeltest

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// testGraph computes the graph of a kind that has one, in plain Go, and compares its logits with those of the model.
func testGraph(t *testing.T, s Suite) {
	for _, c := range []model.Config{s.Small, s.Large} {
		graph, ok := model.GraphOf(c)
		if !ok {
			t.Skip("the kind has no graph")
		}
		g := newRig(t, c, rand.New(rand.NewPCG(5, 5)))
		g.in.Train = false
		g.drawSaved(rand.New(rand.NewPCG(6, 6)))
		e := newInterpreter(g)
		for _, op := range graph.Ops {
			e.values[op.Out] = e.compute(t, op)
		}
		got := e.values[graph.Ops[len(graph.Ops)-1].Out]
		logits := kernels.HostView[float32](g.model.Forward(g.in).Buf)
		for i, want := range logits {
			if len(got) != samples || len(got[i]) != 1 || !(math.Abs(got[i][0]-float64(want)) < 1e-4*max(1, math.Abs(float64(want)))) {
				t.Fatalf("sample %d: the graph gives %v, the model %v", i, got[i], want)
			}
		}
		for name := range e.tensors {
			if !e.used[name] {
				t.Errorf("the graph does not use %s", name)
			}
		}
	}
}

// drawSaved changes the dense parameters and the statistics, of which many are 0 or 1 at first.
func (g *rig) drawSaved(r *rand.Rand) {
	p := g.model.Params()
	weights := kernels.HostView[float32](p.Weights)
	for i := range weights {
		if i >= p.Len() {
			weights[i] = 0.5
		}
		weights[i] += r.Float32() / 5
	}
}

// interpreter computes graphs in float64. A value has a list of numbers for each sample.
type interpreter struct {
	rig     *rig
	parts   []model.Part
	values  map[string][][]float64
	tensors map[string][]float64
	used    map[string]bool
}

func newInterpreter(g *rig) *interpreter {
	e := &interpreter{rig: g, parts: model.ShapeOf(g.config).Row, values: map[string][][]float64{}, tensors: map[string][]float64{}, used: map[string]bool{}}
	dense := kernels.HostView[float32](g.in.Dense.Buf)
	for i := range samples {
		e.values[model.ValueDense] = append(e.values[model.ValueDense], doubles(dense[i*g.config.Dense:(i+1)*g.config.Dense]))
	}
	p := g.model.Params()
	for _, x := range p.Saved() {
		e.tensors[x.Name] = doubles(kernels.HostView[float32](x.Of(p.Weights)))
	}
	return e
}

func doubles(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// tensor returns a tensor of an operation, nil if it has no such tensor.
func (e *interpreter) tensor(t *testing.T, op model.Op, i int) []float64 {
	t.Helper()
	if i >= len(op.Tensors) {
		return nil
	}
	name := op.Tensors[i]
	e.used[name] = true
	if e.tensors[name] == nil {
		t.Fatalf("the graph uses %s, which the model does not have", name)
	}
	return e.tensors[name]
}

func (e *interpreter) compute(t *testing.T, op model.Op) (out [][]float64) {
	t.Helper()
	for i := range samples {
		var in [][]float64
		for _, name := range op.In {
			if e.values[name] == nil {
				t.Fatalf("the graph uses the value %s before it is computed", name)
			}
			in = append(in, e.values[name][i])
		}
		y := e.computeSample(t, op, i, in)
		if op.ReLU || op.Kind == model.OpReLU {
			for k := range y {
				y[k] = max(y[k], 0)
			}
		}
		out = append(out, y)
	}
	return out
}

func (e *interpreter) computeSample(t *testing.T, op model.Op, i int, in [][]float64) (y []float64) {
	t.Helper()
	switch op.Kind {
	case model.OpGather:
		return e.gather(t, op, i)
	case model.OpLinear:
		w, n := e.tensor(t, op, 0), len(in[0])
		if len(w)%n != 0 {
			t.Fatalf("%s of %d weights for %d inputs", op.Tensors[0], len(w), n)
		}
		for o := range len(w) / n {
			sum := 0.0
			for k, x := range in[0] {
				sum += x * w[o*n+k]
			}
			y = append(y, sum)
		}
		return addBias(y, e.tensor(t, op, 1))
	case model.OpScale:
		vectors := e.tensor(t, op, 0)
		for k, v := range vectors {
			y = append(y, in[0][k/op.Width]*v)
		}
		return y
	case model.OpConcat:
		for _, x := range in {
			y = append(y, x...)
		}
		return y
	case model.OpDots, model.OpSumVectors, model.OpFM:
		return combineVectors(t, op, in[0])
	case model.OpMulAdd:
		for k, x := range in[0] {
			v := x * in[1][k%len(in[1])]
			if len(in) > 2 {
				v += in[2][k]
			}
			y = append(y, v)
		}
		return addBias(y, e.tensor(t, op, 0))
	case model.OpAdd:
		y = make([]float64, len(in[0]))
		for _, x := range in {
			for k := range y {
				y[k] += x[k]
			}
		}
		return addBias(y, e.tensor(t, op, 0))
	case model.OpBatchNorm:
		w, b, mean, variance := e.tensor(t, op, 0), e.tensor(t, op, 1), e.tensor(t, op, 2), e.tensor(t, op, 3)
		for k, x := range in[0] {
			y = append(y, (x-mean[k])/math.Sqrt(variance[k]+float64(op.Eps))*w[k]+b[k])
		}
		return y
	case model.OpReLU:
		return append(y, in[0]...)
	}
	t.Fatalf("operation %d is unknown", op.Kind)
	return nil
}

func addBias(y, bias []float64) []float64 {
	for k := range bias {
		y[k] += bias[k]
	}
	return y
}

// gather joins the columns of a part of the rows of a sample.
func (e *interpreter) gather(t *testing.T, op model.Op, sample int) (y []float64) {
	t.Helper()
	first := 0
	for _, p := range e.parts {
		if strings.HasPrefix(op.Tensors[0], p.Name+".") {
			if p.Width != op.Width || len(op.Tensors) != e.rig.config.Tables || op.Vectors != len(op.Tensors) {
				t.Fatalf("%d tensors of %s with %d columns, the part has %d", len(op.Tensors), p.Name, op.Width, p.Width)
			}
			for table := range op.Tensors {
				row := kernels.HostView[int32](e.rig.in.Index)[sample*e.rig.config.Tables+table]
				y = append(y, doubles(e.rig.rows[int(row)*e.rig.width+first:][:p.Width])...)
			}
			return y
		}
		first += p.Width
	}
	t.Fatalf("%s belongs to no part of a row", op.Tensors[0])
	return nil
}

// combineVectors computes dots, sums and the factorization machine over the vectors of a sample.
func combineVectors(t *testing.T, op model.Op, x []float64) (y []float64) {
	t.Helper()
	w := op.Width
	if len(x) != op.Vectors*w {
		t.Fatalf("%d numbers are not %d vectors of %d", len(x), op.Vectors, w)
	}
	vector := func(i int) []float64 { return x[i*w : (i+1)*w] }
	dot := func(a, b []float64) (sum float64) {
		for k := range a {
			sum += a[k] * b[k]
		}
		return sum
	}
	sums, squares := make([]float64, w), 0.0
	for i := range op.Vectors {
		for j := range i {
			if op.Kind == model.OpDots {
				y = append(y, dot(vector(i), vector(j)))
			}
		}
		squares += dot(vector(i), vector(i))
		for k, v := range vector(i) {
			sums[k] += v
		}
	}
	switch op.Kind {
	case model.OpSumVectors:
		return sums
	case model.OpFM:
		return []float64{(dot(sums, sums) - squares) / 2}
	}
	return y
}
