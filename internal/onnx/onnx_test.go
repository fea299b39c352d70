package onnx

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// fieldsOf splits a message into the numbers of its fields and their contents. Numbers are empty contents.
func fieldsOf(t *testing.T, b []byte) (numbers []int, contents [][]byte) {
	t.Helper()
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeField(b)
		if n < 0 {
			t.Fatalf("not a message: %v", protowire.ParseError(n))
		}
		var content []byte
		if _, _, tag := protowire.ConsumeTag(b); kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(b[tag:])
		}
		numbers, contents, b = append(numbers, int(number)), append(contents, content), b[n:]
	}
	return numbers, contents
}

// build returns a file with one node of each kind of attribute and one tensor of each kind.
func build(t *testing.T) []byte {
	t.Helper()
	g := &Graph{}
	g.AddInput("x", Float, 3)
	g.AddRagged("ids", Int64, "length")
	g.AddNode("Gemm", []string{"x", "w"}, []string{"y"}, Attribute{"transB", int64(1)}, Attribute{"alpha", float32(2)}, Attribute{"perm", []int64{0, 2, 1}})
	g.AddTensor("w", Float, []int64{1, 3}, []byte("123456789012"))
	g.AddExternal("e", Float, []int64{7, 3}, "m.data", 4096, 84)
	g.AddOutput("y", Float)
	var out bytes.Buffer
	if err := g.WriteTo(&out, "name", "1.2", map[string]string{"b": "2", "a": "1"}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The messages nest as onnx.proto says. Python's onnx.checker reads whole models in make test-python.
func TestFields(t *testing.T) {
	file := build(t)
	model, parts := fieldsOf(t, file)
	if want := []int{1, 2, 3, 7, 8, 14, 14}; !slices.Equal(model, want) {
		t.Fatalf("a model has the fields %v, want %v", model, want)
	}
	if _, entry := fieldsOf(t, parts[5]); string(entry[0]) != "a" || string(entry[1]) != "1" {
		t.Errorf("the first text of the metadata is %q", entry)
	}
	graph, parts := fieldsOf(t, parts[3])
	if want := []int{1, 2, 10, 5, 5, 11, 11, 12}; !slices.Equal(graph, want) {
		t.Fatalf("a graph has the fields %v, want %v", graph, want)
	}
	if node, _ := fieldsOf(t, parts[0]); !slices.Equal(node, []int{1, 1, 2, 4, 5, 5, 5}) {
		t.Errorf("a node has the fields %v", node)
	}
	tensor, content := fieldsOf(t, parts[3])
	if !slices.Equal(tensor, []int{1, 1, 2, 8, 9}) || string(content[4]) != "123456789012" {
		t.Errorf("a tensor has the fields %v: %q", tensor, content)
	}
	if external, _ := fieldsOf(t, parts[4]); !slices.Equal(external, []int{1, 1, 2, 8, 13, 13, 13, 14}) {
		t.Errorf("a tensor of another file has the fields %v", external)
	}
	// The type of an input has the shape of two dimensions: batch, and a number or a name.
	for i, want := range []struct {
		field int
		text  string
	}{{1, ""}, {2, "length"}} {
		content := parts[5+i]
		for _, at := range []int{1, 0, 1, 1} { // ValueInfoProto.type, TypeProto.tensor_type, Tensor.shape, TensorShapeProto.dim
			_, fields := fieldsOf(t, content)
			content = fields[at]
		}
		if numbers, dimension := fieldsOf(t, content); len(numbers) != 1 || numbers[0] != want.field || string(dimension[0]) != want.text {
			t.Errorf("the width of input %d has the fields %v: %q", i, numbers, dimension)
		}
	}
	if !bytes.Equal(file, build(t)) {
		t.Error("equal calls give other bytes")
	}
}

func TestIsOwn(t *testing.T) {
	dir := t.TempDir()
	for name, file := range map[string]struct {
		text []byte
		own  bool
	}{"own": {build(t), true}, "other": {[]byte("\x08\x08\x12\x07pytorch"), false}, "empty": {nil, false}} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, file.text, 0o666); err != nil {
			t.Fatal(err)
		}
		if IsOwn(path) != file.own {
			t.Errorf("%s: IsOwn is %v", name, !file.own)
		}
	}
	if IsOwn(filepath.Join(dir, "none")) {
		t.Error("a file that does not exist is ecrec's")
	}
}
