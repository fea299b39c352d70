package bench

import (
	"io"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/kernels"
)

// TestBytesOfOperands counts the operands of operations whose sizes differ.
func TestBytesOfOperands(t *testing.T) {
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	memory, err := dev.Alloc(1<<12, kernels.Working)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Free(memory)
	mat := func(rows, cols int) kernels.Matrix { return kernels.Mat(memory.SliceFloats(0, rows*cols), rows, cols) }
	ids := kernels.HostBuffer([]int32{0, 1, 1, 0})
	s := &timed{Stream: dev.Stream(1), on: true, spent: map[string]cost{}}
	defer s.Close()

	s.Linear(mat(2, 3), mat(2, 5), mat(3, 5), kernels.Buffer{}, kernels.Identity)
	s.GatherRows(mat(2, 6), mat(7, 3), ids)
	s.SumRows(mat(2, 3), mat(2, 6), kernels.HostBuffer([]int32{0, 1, 4}), ids)
	for group, want := range map[string]int{
		opLinear: 4 * (6 + 10 + 15),
		opGather: 4 * (12 + 4*3 + 4), // written, read, indexes: the other 5 rows of the table do not count
		opSum:    4 * (6 + 4*3 + 4),
	} {
		if got := s.spent[group].bytes; got != want {
			t.Errorf("%s: %d bytes, want %d", group, got, want)
		}
	}
	s.on = false
	s.GatherRows(mat(2, 6), mat(7, 3), ids)
	if got := s.spent[opGather].bytes; got != 4*28 {
		t.Errorf("%d bytes after an operation outside of a block, want %d", got, 4*28)
	}
}

// TestTrainingIsComparedWithLimits finds the shares of both limits in a report.
func TestTrainingIsComparedWithLimits(t *testing.T) {
	r, err := trainBench.Run(io.Discard, Options{Tiny: true, Args: []string{"hots=mlperf"}})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range r.Figures {
		found[strings.TrimPrefix(f.Name, "tiny batch 64 ")] = f.Median
	}
	for _, name := range []string{"share of peak", "share of memory bandwidth", "memory bandwidth, of a copy", "operands of a step", "training per CPU second"} {
		if !(found[name] > 0) {
			t.Errorf("%s is %v", name, found[name])
		}
	}
	// Bags of 214 ids of 4 weights read more than the 26 rows of one id each.
	if least := 64 * 214 * 4 * 4 / 1e6; found["operands of a step"] < 2*least {
		t.Errorf("operands of %v MB, and the rows of the ids alone are %v MB, read and updated", found["operands of a step"], least)
	}
}
