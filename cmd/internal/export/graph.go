package export

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ecrec/ecrec/internal/onnx"
	"github.com/ecrec/ecrec/model"
)

// The names of inputs and output.
const (
	inputDense  = model.ValueDense
	inputIDs    = "ids"
	outputScore = "score"
)

// translator makes nodes of ONNX of the operations of a graph.
type translator struct {
	onnx.Graph
	constants map[string]bool
	lookups   []lookup // of each feature
	next      int
}

// translateGraph adds inputs, nodes and output of a model with some dense features, maybe none, and categorical ones.
func translateGraph(g model.Graph, dense int, features []Feature) *translator {
	t := &translator{constants: map[string]bool{}}
	if dense > 0 {
		t.AddInput(inputDense, onnx.Float, int64(dense))
	}
	t.addFeatures(features)
	for _, op := range g.Ops {
		out := t.translateOp(op)
		if op.ReLU {
			out = t.compute("Relu", []string{out})
		}
		t.AddNode("Identity", []string{out}, []string{op.Out})
	}
	score := t.compute("Sigmoid", []string{g.Ops[len(g.Ops)-1].Out})
	t.AddNode("Squeeze", []string{score, t.integers(1)}, []string{outputScore})
	t.AddOutput(outputScore, onnx.Float)
	return t
}

func (t *translator) nameValue() string {
	t.next++
	return fmt.Sprintf("t%d", t.next)
}

// compute adds a node with one output.
func (t *translator) compute(operator string, inputs []string, attributes ...onnx.Attribute) string {
	out := t.nameValue()
	t.AddNode(operator, inputs, []string{out}, attributes...)
	return out
}

// integers returns a constant list.
func (t *translator) integers(list ...int64) string {
	name := fmt.Sprintf("integers %v", list)
	if len(list) > 8 {
		name = t.nameValue()
	}
	if t.constants[name] {
		return name
	}
	t.constants[name] = true
	var data []byte
	for _, n := range list {
		data = binary.LittleEndian.AppendUint64(data, uint64(n))
	}
	t.AddTensor(name, onnx.Int64, []int64{int64(len(list))}, data)
	return name
}

// number returns a constant.
func (t *translator) number(x float32) string {
	name := fmt.Sprintf("number %v", x)
	if !t.constants[name] {
		t.constants[name] = true
		t.AddTensor(name, onnx.Float, nil, binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))
	}
	return name
}

// reshape returns x as (b, shape...).
func (t *translator) reshape(x string, shape ...int64) string {
	return t.compute("Reshape", []string{x, t.integers(append([]int64{0}, shape...)...)}) // 0: the number of samples stays
}

// sumAxis1 returns x added up over its second axis, which stays as one number if keep is 1.
func (t *translator) sumAxis1(x string, keep int64) string {
	return t.compute("ReduceSum", []string{x, t.integers(1)}, onnx.Attribute{Name: "keepdims", Value: keep})
}

// addAll returns the sum of values.
func (t *translator) addAll(first string, others ...string) string {
	for _, x := range others {
		first = t.compute("Add", []string{first, x})
	}
	return first
}

func (t *translator) translateOp(op model.Op) string {
	vectors, width := int64(op.Vectors), int64(op.Width)
	axis1 := onnx.Attribute{Name: "axis", Value: int64(1)}
	switch op.Kind {
	case model.OpGather:
		var rows []string
		for i, table := range op.Tensors {
			rows = append(rows, t.gatherRows(table, &t.lookups[i]))
		}
		return t.reshape(t.compute("Concat", rows, axis1), vectors*width)
	case model.OpLinear:
		return t.compute("Gemm", append(op.In, op.Tensors...), onnx.Attribute{Name: "transB", Value: int64(1)})
	case model.OpConcat:
		return t.compute("Concat", op.In, axis1)
	case model.OpDots:
		x := t.reshape(op.In[0], vectors, width)
		turned := t.compute("Transpose", []string{x}, onnx.Attribute{Name: "perm", Value: []int64{0, 2, 1}})
		all := t.reshape(t.compute("MatMul", []string{x, turned}), vectors*vectors)
		return t.compute("Gather", []string{all, t.integers(listPairs(vectors)...)}, axis1)
	case model.OpScale:
		scaled := t.compute("Mul", []string{t.reshape(op.In[0], vectors, 1), op.Tensors[0]}) // (b, vectors, width)
		return t.reshape(scaled, vectors*width)
	case model.OpSumVectors:
		return t.sumAxis1(t.reshape(op.In[0], vectors, width), 0)
	case model.OpFM:
		sums := t.sumAxis1(t.reshape(op.In[0], vectors, width), 0)
		squared := t.sumAxis1(t.compute("Mul", []string{sums, sums}), 1)
		squares := t.sumAxis1(t.compute("Mul", []string{op.In[0], op.In[0]}), 1)
		return t.compute("Mul", []string{t.compute("Sub", []string{squared, squares}), t.number(0.5)})
	case model.OpMulAdd:
		return t.addAll(t.compute("Mul", op.In[:2]), append(op.In[2:], op.Tensors...)...)
	case model.OpAdd:
		return t.addAll(op.In[0], append(op.In[1:], op.Tensors...)...)
	case model.OpBatchNorm:
		return t.compute("BatchNormalization", append(op.In, op.Tensors...), onnx.Attribute{Name: "epsilon", Value: op.Eps})
	case model.OpReLU:
		return t.compute("Relu", op.In)
	}
	panic(fmt.Sprintf("export: operation %d is unknown", op.Kind))
}

// listPairs lists the places of (i, j), j < i, in a matrix of n columns.
func listPairs(n int64) (places []int64) {
	for i := range n {
		for j := range i {
			places = append(places, i*n+j)
		}
	}
	return places
}
