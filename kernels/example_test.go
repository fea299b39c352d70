package kernels_test

import (
	"fmt"

	"github.com/ecrec/ecrec/kernels"
)

// A linear layer with a ReLU: y = max(x wᵀ + b, 0) for two samples, three inputs and two outputs.
// The bits of y are the same for any number of threads, and on every CPU and GPU.
func Example() {
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		panic(err)
	}
	s := dev.Stream(2) // threads
	defer s.Close()
	y, err := dev.Alloc(4*2*2, kernels.Working)
	if err != nil {
		panic(err)
	}
	defer dev.Free(y)
	x := kernels.HostBuffer([]float32{1, 2, 3 /**/, -1, 0, 1})
	w := kernels.HostBuffer([]float32{1, 0, 1 /**/, 0, -1, 0})
	b := kernels.HostBuffer([]float32{0.5, 1})

	s.Linear(kernels.Mat(y, 2, 2), kernels.Mat(x, 2, 3), kernels.Mat(w, 2, 3), b, kernels.ReLU)
	if err := s.Sync(); err != nil {
		panic(err)
	}
	fmt.Println(kernels.HostView[float32](y))
	// Output: [4.5 0 0.5 1]
}
