package onnx

import (
	"bytes"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	irVersion = 8
	opset     = 17
	producer  = "ecrec"
)

// Type is the type of a tensor's elements: a TensorProto.DataType.
type Type uint64

// The types that are written.
const (
	Float Type = 1
	Int64 Type = 7
)

// Graph collects the parts of a model. Names are those of the caller.
type Graph struct {
	nodes, tensors, inputs, outputs []byte
}

// Attribute is an attribute of a node: an int64, a float32 or a list of int64.
type Attribute struct {
	Name  string
	Value any
}

// AddNode adds a node of an operator.
func (g *Graph) AddNode(operator string, inputs, outputs []string, attributes ...Attribute) {
	var node []byte
	for _, name := range inputs {
		node = appendText(node, 1, name)
	}
	for _, name := range outputs {
		node = appendText(node, 2, name)
	}
	node = appendText(node, 4, operator)
	for _, a := range attributes {
		node = appendMessage(node, 5, encodeAttribute(a))
	}
	g.nodes = appendMessage(g.nodes, 1, node)
}

// encodeAttribute returns an AttributeProto.
func encodeAttribute(a Attribute) []byte {
	const typeFloat, typeInt, typeInts = 1, 2, 7
	b := appendText(nil, 1, a.Name)
	switch v := a.Value.(type) {
	case float32:
		b = protowire.AppendFixed32(protowire.AppendTag(b, 2, protowire.Fixed32Type), math.Float32bits(v))
		return appendNumber(b, 20, typeFloat)
	case int64:
		return appendNumber(appendNumber(b, 3, v), 20, typeInt)
	case []int64:
		for _, n := range v {
			b = appendNumber(b, 8, n)
		}
		return appendNumber(b, 20, typeInts)
	}
	panic("onnx: attribute " + a.Name + " has a value of another type")
}

// AddTensor adds a tensor whose data, row-major and little-endian, is in the file.
func (g *Graph) AddTensor(name string, t Type, shape []int64, data []byte) {
	b := protowire.AppendTag(beginTensor(name, t, shape), 9, protowire.BytesType)
	g.tensors = appendMessage(g.tensors, 5, protowire.AppendBytes(b, data))
}

// AddExternal adds a tensor whose data is in a file of the same folder, from an offset on.
func (g *Graph) AddExternal(name string, t Type, shape []int64, file string, offset, length int64) {
	const external = 1
	b := beginTensor(name, t, shape)
	for _, e := range [][2]string{{"location", file}, {"offset", strconv.FormatInt(offset, 10)}, {"length", strconv.FormatInt(length, 10)}} {
		b = appendMessage(b, 13, appendText(appendText(nil, 1, e[0]), 2, e[1]))
	}
	g.tensors = appendMessage(g.tensors, 5, appendNumber(b, 14, external))
}

// beginTensor returns a TensorProto without data.
func beginTensor(name string, t Type, shape []int64) (b []byte) {
	for _, n := range shape {
		b = appendNumber(b, 1, n)
	}
	return appendText(appendNumber(b, 2, int64(t)), 8, name)
}

// AddInput adds an input of (batch, width).
func (g *Graph) AddInput(name string, t Type, width int64) {
	g.inputs = appendMessage(g.inputs, 11, describeValue(name, t, appendNumber(nil, 1, width)))
}

// AddRagged adds an input of (batch, length), for any length, which is one number of all inputs that name it.
func (g *Graph) AddRagged(name string, t Type, length string) {
	g.inputs = appendMessage(g.inputs, 11, describeValue(name, t, appendText(nil, 2, length)))
}

// AddOutput adds an output of (batch).
func (g *Graph) AddOutput(name string, t Type) {
	g.outputs = appendMessage(g.outputs, 12, describeValue(name, t, nil))
}

// describeValue returns a ValueInfoProto of (batch, width) for the Dimension of a width, or of (batch) without one.
func describeValue(name string, t Type, width []byte) []byte {
	shape := appendMessage(nil, 1, appendText(nil, 2, "batch"))
	if width != nil {
		shape = appendMessage(shape, 1, width)
	}
	tensor := appendMessage(appendNumber(nil, 1, int64(t)), 2, shape)
	return appendMessage(appendText(nil, 1, name), 2, appendMessage(nil, 1, tensor))
}

// WriteTo writes the file. Version is that of the producer, name that of the graph. Metadata holds texts by key.
func (g *Graph) WriteTo(w io.Writer, name, version string, metadata map[string]string) error {
	begin := appendText(appendText(nil, 2, name), 10, "")
	size := len(g.nodes) + len(begin) + len(g.tensors) + len(g.inputs) + len(g.outputs)
	head := appendText(append([]byte(nil), prefix()...), 3, version)
	head = protowire.AppendVarint(protowire.AppendTag(head, 7, protowire.BytesType), uint64(size))
	end := appendMessage(nil, 8, appendNumber(appendText(nil, 1, ""), 2, opset))
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		end = appendMessage(end, 14, appendText(appendText(nil, 1, key), 2, metadata[key]))
	}
	for _, part := range [][]byte{head, g.nodes, begin, g.tensors, g.inputs, g.outputs, end} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// prefix returns the first bytes of a file.
func prefix() []byte { return appendText(appendNumber(nil, 1, irVersion), 2, producer) }

// IsOwn reports whether ecrec wrote a file.
func IsOwn(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, len(prefix()))
	_, err = io.ReadFull(f, begin)
	return err == nil && bytes.Equal(begin, prefix())
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

func appendNumber(b []byte, field protowire.Number, n int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
}
