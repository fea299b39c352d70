package safetensors_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/internal/safetensors"
)

// A file with one tensor is written, and read by the tensor's name.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")

	w, err := safetensors.Create(path, []safetensors.Spec{{Name: "bias", Shape: []int64{3}, Type: safetensors.F32}}, nil)
	if err != nil {
		panic(err)
	}
	defer w.Abort() // does nothing after Commit
	if err := binary.Write(w, binary.LittleEndian, []float32{1, 2, 3}); err != nil {
		panic(err)
	}
	if err := w.Commit(); err != nil {
		panic(err)
	}

	f, err := safetensors.Open(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	t, found := f.Tensor("bias")
	values := make([]float32, 3)
	err = binary.Read(t, binary.LittleEndian, values)
	fmt.Println(found, t.Shape, values, err)
	// Output: true [3] [1 2 3] <nil>
}
